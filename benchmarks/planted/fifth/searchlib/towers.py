import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
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


class Tower(nn.Module):
    """Text to a unit vector."""

    def __init__(self, words, dim, depth, wrap):
        super().__init__()
        self.words = nn.Embedding(words, dim)
        self.blocks = nn.ModuleList(wrap(Block(dim, dim // 64 or 1)) for _ in range(depth))
        self.out = nn.Linear(dim, 256)

    def forward(self, text):
        x = self.words(text)
        for block in self.blocks:
            x = block(x)
        return F.normalize(self.out(x.mean(1)).float(), dim=-1)
