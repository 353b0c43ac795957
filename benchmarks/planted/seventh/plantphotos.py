"""Learns plants from photographs and their captions: two encoders, symmetric contrastive loss."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, TINY, bf16, drive, pinned, seed, size

SIDE, PATCH, BATCH = size(224, 16), size(16, 8), size(256, 4)
WORDS, VOCAB, JOINT = size(32, 6), size(20000, 50), size(512, 16)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Trunk(nn.Module):
    def __init__(self, first, places, dim, heads, depth):
        super().__init__()
        self.first = first
        self.place = nn.Parameter(torch.randn(places, dim) * 0.02)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm, self.joint = nn.LayerNorm(dim), nn.Linear(dim, JOINT, bias=False)

    def forward(self, x):
        x = self.first(x) + self.place
        for layer in self.layers:
            x = layer(x)
        return F.normalize(self.joint(self.norm(x.mean(1))).float(), dim=-1)


class Patches(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.line = nn.Linear(3 * PATCH * PATCH, dim)
        self.register_buffer("mean", torch.tensor([0.48, 0.46, 0.41]).view(3, 1, 1) * 255)
        self.register_buffer("std", torch.tensor([0.27, 0.26, 0.28]).view(3, 1, 1) * 255)

    def forward(self, pictures):
        x = ((pictures - self.mean) / self.std).bfloat16()
        return self.line(F.pixel_unshuffle(x, PATCH).flatten(2).transpose(1, 2))


class Album:
    """Photographs wait as bytes in pinned memory; the next batch is copied on a stream of its own."""

    def __init__(self, batches):
        self.photos = [pinned(torch.randint(0, 256, (BATCH, 3, SIDE, SIDE), dtype=torch.uint8)) for _ in range(batches)]
        self.words = [pinned(torch.randint(0, VOCAB, (BATCH, WORDS))) for _ in range(batches)]
        self.stream = None if TINY else torch.cuda.Stream()
        self.at = 0
        self.fetch()

    def fetch(self):
        with torch.cuda.stream(self.stream):
            i = self.at % len(self.photos)
            self.ready = self.photos[i].to(DEV, non_blocking=True), self.words[i].to(DEV, non_blocking=True)
        self.at += 1

    def next(self):
        pair = self.ready
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            for t in pair:
                t.record_stream(torch.cuda.current_stream())
        self.fetch()
        return pair


def main():
    seed()
    dim, small = size(768, 32), size(512, 16)
    with torch.device(DEV):
        sight = Trunk(Patches(dim), (SIDE // PATCH) ** 2, dim, size(12, 2), size(12, 2))
        speech = Trunk(nn.Embedding(VOCAB, small), WORDS, small, size(8, 2), size(6, 2))
        warmth = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        same = torch.arange(BATCH)
    if not TINY:
        for layer in [sight.first, *sight.layers, *speech.layers]:
            layer.compile()
    opt = torch.optim.AdamW([*sight.parameters(), *speech.parameters(), warmth], lr=1e-4, fused=True)
    album = Album(size(6, 2))

    def step():
        photos, words = album.next()
        with bf16():
            a, b = sight(photos), speech(words)
        logits = warmth.exp() * (a @ b.T)
        loss = (F.cross_entropy(logits, same) + F.cross_entropy(logits.T, same)) / 2
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        with torch.no_grad():
            warmth.clamp_(0, math.log(100))
        return loss.detach()

    drive("plantphotos", step)


if __name__ == "__main__":
    main()
