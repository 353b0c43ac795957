"""Metric learning: a transformer's embeddings, batch-hard triplet loss."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, bf16, drive, seed, size

BATCH, PER_CLASS = size((1536, 4), (16, 4))
TOKENS, D, LAYERS, EMBED = size((64, 256, 4, 512), (4, 16, 1, 8))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 4, D // 4).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))
        return x + self.mlp(self.n2(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(D, EMBED)

    def forward(self, x):
        return F.normalize(self.head(self.blocks(x).mean(1)).float(), dim=1)


def pairwise_sq_distances(e):
    if FIX:
        sq = e.square().sum(1)
        return (sq[:, None] + sq[None, :] - 2 * e @ e.t()).clamp_min(0)
    return (e[:, None, :] - e[None, :, :]).pow(2).sum(-1)


def batch_hard_triplet(e, labels, margin=0.3):
    d = pairwise_sq_distances(e)
    same = labels[:, None] == labels[None, :]
    hardest_positive = d.masked_fill(~same, 0).amax(1)
    hardest_negative = d.masked_fill(same, float("inf")).amin(1)
    return F.relu(hardest_positive - hardest_negative + margin).mean()


def main():
    seed()
    encoder = Encoder().to(DEV)
    opt = torch.optim.AdamW(encoder.parameters(), lr=1e-4, fused=True)
    labels = torch.arange(BATCH // PER_CLASS, device=DEV).repeat_interleave(PER_CLASS)
    ring = [torch.randn(BATCH, TOKENS, D, device=DEV) for _ in range(4)]
    count = 0

    def step():
        nonlocal count
        count += 1
        with bf16():
            e = encoder(ring[count % len(ring)])
        loss = batch_hard_triplet(e, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("metric_learning", step)


if __name__ == "__main__":
    main()
