"""A residual network for volumes."""
import torch.nn.functional as F
from torch import nn


def norm(ch):
    return nn.BatchNorm3d(ch)


class Stage(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.down = nn.Conv3d(inp, out, 3, stride=2, padding=1, bias=False)
        self.n0, self.n1, self.n2 = norm(out), norm(out), norm(out)
        self.a = nn.Conv3d(out, out, 3, padding=1, bias=False)
        self.b = nn.Conv3d(out, out, 3, padding=1, bias=False)

    def forward(self, x):
        x = F.relu(self.n0(self.down(x)))
        return F.relu(x + self.n2(self.b(F.relu(self.n1(self.a(x))))))


class VolumeNet(nn.Module):
    def __init__(self, channels, widths, classes):
        super().__init__()
        self.stem = nn.Conv3d(channels, widths[0], 4, stride=4)
        self.stages = nn.Sequential(*(Stage(a, b) for a, b in zip(widths, widths[1:])))
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3, 4)))
