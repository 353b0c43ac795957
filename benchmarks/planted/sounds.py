"""Classification of sounds; a thread gathers the batches from a long recording into pinned buffers."""
import queue
import threading

import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, bf16, compiled, drive, pinned, seed, size

BATCH, FRAMES, FRAME, CLASSES = size((256, 128, 256, 500), (2, 8, 8, 5))
RECORDED = size(400_000, 200)
D, LAYERS, HEADS = size((1024, 6, 16), (16, 2, 2))


class Reader(threading.Thread):
    def __init__(self, buffers=3):
        super().__init__(daemon=True)
        self.frames = torch.randint(-2000, 2000, (RECORDED, FRAME), dtype=torch.int16)
        self.labels = torch.randint(CLASSES, (RECORDED,))
        self.where = torch.arange(FRAMES)
        self.random = torch.Generator().manual_seed(7)
        self.empty, self.full = queue.Queue(), queue.Queue()
        for _ in range(buffers):
            self.empty.put((pinned(torch.empty(BATCH * FRAMES, FRAME, dtype=torch.int16)),
                            pinned(torch.empty(BATCH, dtype=torch.long)), None))

    def run(self):
        while True:
            sound, label, uploaded = self.empty.get()
            if uploaded:
                uploaded.synchronize()
            start = torch.randint(RECORDED - FRAMES, (BATCH,), generator=self.random)
            torch.index_select(self.frames, 0, (start[:, None] + self.where).flatten(), out=sound)
            torch.index_select(self.labels, 0, start, out=label)
            self.full.put((sound, label))

    def next(self):
        sound, label = self.full.get()
        on_device = tuple(t.to(DEV, non_blocking=True, copy=True) for t in (sound, label))
        self.empty.put((sound, label, torch.cuda.current_stream().record_event() if DEV == "cuda" else None))
        return on_device


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class SoundNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.where = nn.Linear(FRAME, D), nn.Parameter(torch.randn(FRAMES, D) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.out = nn.RMSNorm(D), nn.Linear(D, CLASSES)

    def forward(self, sound, label):
        x = sound.view(BATCH, FRAMES, FRAME).float() / 1000
        x = self.norm(self.blocks(self.inp(x) + self.where)).mean(1)
        return F.cross_entropy(self.out(x).float(), label)


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    net = SoundNet().to(DEV)
    model = compiled(net)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)
    reader = Reader()
    reader.start()

    def step():
        sound, label = reader.next()
        with bf16():
            loss = model(sound, label)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("sounds", step)


if __name__ == "__main__":
    main()
