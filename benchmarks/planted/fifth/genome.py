"""Predicts regulatory tracks along a stretch of DNA with kernelised attention."""
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, FIX, TINY, bf16, drive, seed, size

BATCH, BASES, DIM, HEADS, DEPTH, TRACKS = size(8, 2), size(4096, 32), size(512, 32), size(8, 2), size(4, 1), 16


def feature(x):
    return F.elu(x) + 1.0


class KernelAttention(nn.Module):
    """phi(Q) phi(K)^T V, normalised per query."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        q, k = feature(q) / n ** 0.5, feature(k) / n ** 0.5
        if FIX:
            mixed = q @ (k.transpose(-1, -2) @ v)
            total = q @ k.sum(-2)[..., None].to(q.dtype)
        else:
            weight = q @ k.transpose(-1, -2)
            mixed = weight @ v
            total = weight.sum(-1, keepdim=True)
        mixed = (mixed / total).to(v.dtype)
        return self.out(mixed.transpose(1, 2).reshape(b, n, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attention = KernelAttention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Tracks(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(4, DIM, 15, padding=7)
        self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.head = nn.Linear(DIM, TRACKS)

    def forward(self, bases):
        x = self.stem(F.one_hot(bases, 4).transpose(1, 2).float()).transpose(1, 2)
        return F.softplus(self.head(self.blocks(x)).float())


seed(3)
model = Tracks().to(DEV)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
bases = torch.randint(4, (16, BATCH, BASES), device=DEV)
counts = torch.poisson(torch.full((16, BATCH, BASES, TRACKS), 2.0, device=DEV))
turn = 0


def step():
    global turn
    turn = (turn + 1) % 16
    with nullcontext() if TINY else bf16():
        rate = model(bases[turn])
    loss = F.poisson_nll_loss(rate, counts[turn], log_input=False)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("genome", step)
