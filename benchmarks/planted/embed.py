"""Features of many images for an index: upload, encoder and download each on a stream of its own."""
import contextlib

import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, TINY, compiled, drive, pinned, seed, size

BATCH, SIDE, PATCH = size((256, 224, 16), (2, 32, 16))
D, LAYERS, HEADS = size((768, 12, 12), (16, 2, 2))
DTYPE = torch.float32 if TINY else torch.bfloat16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(3 * PATCH * PATCH, D)
        self.where = nn.Parameter(torch.randn((SIDE // PATCH) ** 2, D) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(D)

    def forward(self, images):
        """images (B, SIDE, SIDE, 3) in bytes"""
        n = SIDE // PATCH
        x = images.view(-1, n, PATCH, n, PATCH, 3).transpose(2, 3).reshape(-1, n * n, 3 * PATCH * PATCH)
        x = self.blocks(self.patch(x.to(DTYPE) / 127.5 - 1) + self.where)
        return F.normalize(self.norm(x).mean(1).float(), dim=1)


class Lane:
    """A stream, where there are streams."""

    def __init__(self):
        self.stream = torch.cuda.Stream() if DEV == "cuda" else None

    def __enter__(self):
        self.inside = torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext()
        self.inside.__enter__()

    def __exit__(self, *why):
        self.inside.__exit__(*why)

    def after(self, other, *tensors):
        """What follows here comes after what `other` has got so far, and uses these tensors of it."""
        if self.stream:
            self.stream.wait_stream(other)
            for t in tensors:
                t.record_stream(self.stream)

    def mark(self):
        return self.stream.record_event() if self.stream else None


@torch.inference_mode()
def features(encoder, source):
    """Yields the features in host memory, each batch while the next one is computed."""
    up, down = Lane(), Lane()
    hosts = [pinned(torch.empty(BATCH, D)) for _ in range(2)]
    now = torch.cuda.current_stream() if DEV == "cuda" else None
    waiting, n = None, 0
    with up:
        images = next(source).to(DEV, non_blocking=True)
    while True:
        if now:
            now.wait_stream(up.stream)
            images.record_stream(now)
        current = images
        with up:
            images = next(source).to(DEV, non_blocking=True)
        out = encoder(current)
        down.after(now, out)
        with down:
            hosts[n % 2].copy_(out, non_blocking=True)
        finished = hosts[n % 2], down.mark()
        n += 1
        if waiting:
            if waiting[1]:
                waiting[1].synchronize()
            yield waiting[0]
        waiting = finished


def images(count=4):
    ring = [pinned(torch.randint(256, (BATCH, SIDE, SIDE, 3), dtype=torch.uint8)) for _ in range(count)]
    while True:
        yield from ring


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    encoder = compiled(Encoder().to(DEV, DTYPE).eval())
    index, n = torch.empty(64 * BATCH, D), 0
    found = features(encoder, images())

    def step():
        nonlocal n
        rows = index[n % 64 * BATCH:][:BATCH]
        rows.copy_(next(found))
        n += 1
        return rows

    drive("embed", step)


if __name__ == "__main__":
    main()
