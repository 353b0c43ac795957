import torch
from torch import nn
from torch.nn import functional as F


def twice(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                         nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


class SegNet(nn.Module):
    """Down by halves, up again with the fine maps added in."""

    def __init__(self, kinds, width, depth):
        super().__init__()
        wide = [width * 2 ** i for i in range(depth)]
        self.downs = nn.ModuleList(twice(a, b) for a, b in zip([3, *wide], wide))
        self.narrow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(wide, wide[1:]))
        self.ups = nn.ModuleList(twice(a, a) for a in wide[:-1])
        self.leave = nn.Conv2d(width, kinds, 1)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.downs):
            x = down(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for up, narrow in zip(reversed(self.ups), reversed(self.narrow)):
            x = up(narrow(x) + kept.pop())
        return self.leave(x)
