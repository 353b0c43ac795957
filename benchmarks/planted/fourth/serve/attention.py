from torch import nn
from torch.nn import functional as F

from common import FIX


def repeat_kv(x, n):
    """(batch, kv heads, places, dim) -> (batch, heads, places, dim)"""
    b, h, t, d = x.shape
    if n == 1:
        return x
    return x[:, :, None].expand(b, h, n, t, d).reshape(b, h * n, t, d)


class GroupedAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * kv_heads * self.head_dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def attend(self, q, k, v):
        groups = self.heads // self.kv_heads
        if FIX:  # the heads of a group are queries of the same keys
            q = q.view(len(q), self.kv_heads, groups, self.head_dim)
            return F.scaled_dot_product_attention(q, k, v).flatten(1)
        k, v = repeat_kv(k, groups), repeat_kv(v, groups)
        q = q.view(len(q), self.heads, 1, self.head_dim)
        return F.scaled_dot_product_attention(q, k, v).flatten(1)

    def forward(self, x, cache, at):
        k, v = self.kv(x).view(len(x), 2, self.kv_heads, self.head_dim).unbind(1)
        k, v = cache.put(k, v, at)
        return self.o(self.attend(self.q(x), k, v))
