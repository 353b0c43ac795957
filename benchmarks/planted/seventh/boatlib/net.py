import torch
from torch import nn
from torch.nn import functional as F


def block(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.SiLU(inplace=True))


class Stage(nn.Module):
    def __init__(self, cin, cout, depth):
        super().__init__()
        self.down = block(cin, cout, 2)
        self.body = nn.ModuleList(block(cout, cout) for _ in range(depth))

    def forward(self, x):
        x = self.down(x)
        for layer in self.body:
            x = x + layer(x)
        return x


class Detector(nn.Module):
    """Three levels of features; at each place class scores and distances to the box's four sides."""

    strides = (8, 16, 32)

    def __init__(self, classes, width):
        super().__init__()
        self.stem = block(3, width, 2)
        self.s4 = Stage(width, 2 * width, 2)
        self.levels = nn.ModuleList([Stage(2 * width, 4 * width, 4), Stage(4 * width, 8 * width, 4),
                                     Stage(8 * width, 16 * width, 3)])
        self.heads = nn.ModuleList(nn.Conv2d(w * width, classes + 4, 1) for w in (4, 8, 16))
        for head in self.heads:
            nn.init.constant_(head.bias, -2.0)
        self.classes = classes

    def forward(self, x):
        x = self.s4(self.stem(x))
        out = []
        for stage, head in zip(self.levels, self.heads):
            x = stage(x)
            out.append(head(x).flatten(2).transpose(1, 2))
        out = torch.cat(out, 1).float()
        return out[..., : self.classes], F.softplus(out[..., self.classes:])


def places(side, strides, device):
    """Centres (x, y) of all places, and the stride of each."""
    xy, step = [], []
    for s in strides:
        n = side // s
        axis = (torch.arange(n, device=device) + 0.5) * s
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        xy.append(torch.stack([x, y], -1).view(-1, 2))
        step.append(torch.full((n * n,), float(s), device=device))
    return torch.cat(xy), torch.cat(step)
