"""A transformer for velocities of latent images, modulated by time."""
import math

import torch
from torch import nn

from layers import Attention


def time_features(t, width):
    rates = torch.exp(-math.log(1e4) * torch.arange(width // 2, device=t.device) / (width // 2))
    angles = t[:, None] * rates * 1000
    return torch.cat([angles.cos(), angles.sin()], -1)


class ModulatedBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, c):
        a, b, g, d, e, h = self.modulation(c)[:, None].chunk(6, -1)
        x = x + g * self.attention(self.norm1(x) * (1 + a) + b)
        return x + h * self.mlp(self.norm2(x) * (1 + d) + e)


class Velocity(nn.Module):
    def __init__(self, channels, width, depth, heads, tokens):
        super().__init__()
        self.width = width
        self.enter, self.leave = nn.Linear(channels, width), nn.Linear(width, channels)
        self.position = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(ModulatedBlock(width, heads) for _ in range(depth))

    def forward(self, x, t):
        c = self.time(time_features(t, self.width))
        x = self.enter(x) + self.position
        for block in self.blocks:
            x = block(x, c)
        return self.leave(x)
