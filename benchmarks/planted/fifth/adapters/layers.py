import torch
from torch import nn
from torch.nn import functional as F

from common import FIX


class AdaptedLinear(nn.Module):
    """A frozen matrix plus a trainable low-rank correction."""

    def __init__(self, inner, outer, rank=16, alpha=32):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) * inner ** -0.5, requires_grad=False)
        self.down = nn.Parameter(torch.randn(rank, inner) * inner ** -0.5)
        self.up = nn.Parameter(torch.randn(outer, rank) * 1e-3)
        self.scale = alpha / rank

    def forward(self, x):
        if FIX:
            base, low = F.linear(x, self.weight), F.linear(x, self.down)
            return torch.addmm(base.flatten(0, 1), low.flatten(0, 1), self.up.t(), alpha=self.scale).view_as(base)
        return F.linear(x, self.weight + self.scale * (self.up @ self.down))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv, self.out = AdaptedLinear(dim, 3 * dim), AdaptedLinear(dim, dim)
        self.up, self.down = AdaptedLinear(dim, 4 * dim), AdaptedLinear(4 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.silu(self.up(self.norm2(x))))
