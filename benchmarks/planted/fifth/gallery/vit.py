import torch
from torch import nn
from torch.nn import functional as F


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


class Vit(nn.Module):
    def __init__(self, side, patch, dim, depth):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.place = nn.Parameter(torch.randn((side // patch) ** 2, dim) * 0.02)
        self.layers = nn.Sequential(*[Layer(dim, dim // 64 or 1) for _ in range(depth)])

    def forward(self, pictures):
        x = pictures.permute(0, 3, 1, 2).to(self.place.dtype) / 255 - 0.5
        x = self.patch(x).flatten(2).transpose(1, 2) + self.place
        return F.normalize(self.layers(x).mean(1).float(), dim=-1)
