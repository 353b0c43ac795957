"""Layers on sets of points: (batch, channels, points)."""
import torch.nn.functional as F
from torch import nn

from common import FIX


class PointLinear(nn.Linear):
    """The same linear map on the channels of each point."""

    def forward(self, x):
        if FIX:
            return super().forward(x)
        return F.conv1d(x, self.weight.unsqueeze(2), self.bias)


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        if FIX:
            return super().forward(x)
        y = super().forward(x.transpose(1, 2).contiguous())
        return y.transpose(1, 2).contiguous()


class PointBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.a, self.b = ChannelNorm(d), PointLinear(d, 2 * d), PointLinear(2 * d, d)
        self.mid = ChannelNorm(2 * d)

    def forward(self, x):
        return x + self.b(F.gelu(self.mid(self.a(self.norm(x)))))
