import torch
from torch import nn
from torch.nn import functional as F

from proteinlib.memory import lean


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Stage(nn.Module):
    """Some layers and a gate on what they add."""

    def __init__(self, dim, heads, depth):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.gate = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        h = x
        for layer in self.layers:
            h = lean(layer, h)
        return x + self.gate * (h - x)


class ProteinModel(nn.Module):
    def __init__(self, residues, dim, heads, stages, per_stage):
        super().__init__()
        self.residues = nn.Embedding(residues, dim)
        self.place = nn.Parameter(torch.randn(1024, dim) * 0.02)
        self.stages = nn.ModuleList(Stage(dim, heads, per_stage) for _ in range(stages))
        self.norm, self.leave = nn.LayerNorm(dim), nn.Linear(dim, residues)

    def forward(self, chain):
        x = self.residues(chain) + self.place[:chain.shape[1]]
        for stage in self.stages:
            x = lean(stage, x)
        return self.leave(self.norm(x))
