"""Re-ranks search results with a cross-encoder: passages wait in bins of like length until a batch is full."""
from collections import deque

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, TINY, drive, pinned, seed, size

DIM, HEADS, DEPTH = size(1024, 32), size(16, 2), size(12, 2)
VOCAB = size(30000, 100)
BINS = size((128, 256, 512), (8, 16))
TOKENS = size(16384, 32)  # in a batch
DTYPE = torch.float32 if TINY else torch.bfloat16


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class CrossEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, DIM), nn.Embedding(BINS[-1], DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm, self.score = nn.LayerNorm(DIM), nn.Linear(DIM, 1)

    def forward(self, ids, length):
        t = ids.shape[1]
        mask = (torch.arange(t, device=ids.device) < length[:, None])[:, None, None].expand(-1, -1, t, -1)
        x = self.embed(ids) + self.place.weight[:t]
        for layer in self.layers:
            x = layer(x, mask)
        return self.score(self.norm(x[:, 0]))[:, 0]


class Bins:
    """Query-passage pairs by length; a batch has always the same shape for a bin."""

    def __init__(self, pairs):
        self.rows = {b: TOKENS // b for b in BINS}
        self.waiting = {b: deque() for b in BINS}
        for p in sorted(pairs, key=len):
            self.waiting[next(b for b in BINS if len(p) <= b)].append(p)
        self.buffers = {b: [(pinned(torch.zeros(n, b, dtype=torch.int32)), pinned(torch.zeros(n, dtype=torch.int32)))
                            for _ in range(2)] for b, n in self.rows.items()}
        self.free = {b: [None, None] for b in BINS}
        self.turn = 0

    def batch(self, b):
        which = self.turn % 2
        if self.free[b][which] is not None:
            self.free[b][which].synchronize()
        ids, length = self.buffers[b][which]
        rows, sizes = ids.numpy(), length.numpy()
        rows.fill(0)
        for i in range(self.rows[b]):
            pair = self.waiting[b][0]
            self.waiting[b].rotate(-1)
            rows[i, : len(pair)], sizes[i] = pair, len(pair)
        out = ids.to(DEV, non_blocking=True), length.to(DEV, non_blocking=True)
        if not TINY:
            self.free[b][which] = torch.cuda.Event()
            self.free[b][which].record()
        return out


def main():
    seed()
    rng = np.random.default_rng(2)
    pairs = [rng.integers(1, VOCAB, n).astype(np.int32) for n in rng.integers(BINS[0] // 2, BINS[-1] + 1, size(4000, 40))]
    bins = Bins(pairs)
    with torch.device(DEV):
        model = CrossEncoder().to(DTYPE).eval()
    if not TINY:
        for layer in model.layers:
            layer.compile(dynamic=False)

    @torch.inference_mode()
    def step():
        scores = [model(*bins.batch(b)) for b in BINS]
        bins.turn += 1
        return torch.cat(scores)

    drive("rerank", step)


if __name__ == "__main__":
    main()
