import torch
from torch import nn
from torch.nn import functional as F


def mlp(width, inner):
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class Mix(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.across, self.along = mlp(tokens, 4 * tokens), mlp(dim, 4 * dim)

    def forward(self, x):
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, high, wide, patch, dim, depth):
        super().__init__()
        self.patch = patch
        self.enter = nn.Linear(patch * patch, dim)
        self.layers = nn.Sequential(*[Mix((high // patch) * (wide // patch), dim) for _ in range(depth)])
        self.leave = nn.Linear(dim, 128)

    def forward(self, scan):
        p = self.patch
        x = scan.unflatten(1, (-1, p)).unflatten(3, (-1, p)).transpose(2, 3).flatten(1, 2).flatten(2)
        return F.normalize(self.leave(self.layers(self.enter(x)).mean(1)).float(), dim=1)
