import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.heads = dim // 64 or 1
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class StoryModel(nn.Module):
    def __init__(self, words, length, dim, depth):
        super().__init__()
        self.words, self.place = nn.Embedding(words, dim), nn.Parameter(torch.randn(length, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, words, bias=False)

    def forward(self, text):
        hidden = self.norm(self.blocks(self.words(text[:, :-1]) + self.place[:text.shape[1] - 1]))
        return F.cross_entropy(self.head(hidden).flatten(0, 1), text[:, 1:].flatten())
