import torch
from torch import nn
from torch.nn import functional as F

from common import FIX


class FusionNeck(nn.Module):
    """Brings four stages to the first one's grid and width and adds them up."""

    def __init__(self, widths, out):
        super().__init__()
        self.lateral = nn.ModuleList([nn.Conv2d(w, out, 1) for w in widths])
        self.smooth = nn.Conv2d(out, out, 3, padding=1)

    def forward(self, stages):
        grid = stages[0].shape[-2:]
        total = self.lateral[0](stages[0])
        for conv, x in zip(self.lateral[1:], stages[1:]):
            total = total + F.interpolate(conv(x), grid, mode="bilinear", align_corners=False)
        return F.relu(self.smooth(total))


class PixelHead(nn.Module):
    def __init__(self, width, classes, scale=4):
        super().__init__()
        self.scale = scale
        self.classify = nn.Conv2d(width, classes, 1)

    def enlarge(self, x):
        return F.interpolate(x, scale_factor=self.scale, mode="bilinear", align_corners=False)

    def forward(self, x):
        if FIX:
            return self.enlarge(self.classify(x))
        x = self.enlarge(x)
        return self.classify(x)
