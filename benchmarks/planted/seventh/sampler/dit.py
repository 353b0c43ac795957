import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2, self.n3 = (nn.LayerNorm(dim, elementwise_affine=False) for _ in range(3))
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.q, self.cross = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.table = nn.Parameter(torch.randn(4, dim) * dim ** -0.5)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, time, text):
        s1, g1, s2, g2 = (self.table + time[:, None]).unsqueeze(2).unbind(1)
        q, k, v = (self.split(t) for t in self.qkv(self.n1(x) * (1 + s1)).chunk(3, -1))
        x = x + g1 * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        y = F.scaled_dot_product_attention(self.split(self.q(self.n2(x))), *text)
        x = x + self.cross(y.transpose(1, 2).flatten(2))
        return x + g2 * self.down(F.gelu(self.up(self.n3(x) * (1 + s2)), approximate="tanh"))


class DiT(nn.Module):
    def __init__(self, dim, heads, depth, side):
        super().__init__()
        self.side = side
        self.into, self.onto = nn.Linear(16, dim), nn.Linear(dim, 16)
        self.place = nn.Parameter(torch.randn(side * side // 4, dim) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.words = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(depth))

    def read(self, text):
        """Keys and values of the text for each block; they hold for all of a picture's steps."""
        return [tuple(b.split(t) for t in w(text).chunk(2, -1)) for b, w in zip(self.blocks, self.words)]

    def forward(self, z, time, text):
        n = z.shape[0]
        x = F.pixel_unshuffle(z, 2).flatten(2).transpose(1, 2)
        freq = torch.exp(-torch.arange(128, device=z.device) / 128 * 9.21)
        angle = time * 1000 * freq
        wave = torch.cat([angle.cos(), angle.sin()]).to(z.dtype).expand(n, -1)
        x = self.into(x) + self.place
        t = self.time(wave)
        for block, kv in zip(self.blocks, text):
            x = block(x, t, kv)
        x = self.onto(x).transpose(1, 2).unflatten(2, (self.side // 2, -1))
        return F.pixel_shuffle(x, 2)
