from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.na = nn.BatchNorm2d(width)
        self.b = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.nb = nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


class Backbone(nn.Module):
    def __init__(self, widths, blocks):
        super().__init__()
        self.stem = nn.Conv2d(4, widths[0], 4, stride=4)
        self.stages = nn.ModuleList()
        before = widths[0]
        for i, width in enumerate(widths):
            down = nn.Conv2d(before, width, 2, stride=2) if i else nn.Identity()
            self.stages.append(nn.Sequential(down, *[Residual(width) for _ in range(blocks[i])]))
            before = width

    def forward(self, x):
        x, out = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            out.append(x)
        return out
