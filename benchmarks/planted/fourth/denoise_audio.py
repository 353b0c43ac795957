"""Removes noise from spectrograms: a U-shaped stack of gated blocks."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, drive, seed, size
from debug import switches

BATCH, FRAMES = size((32, 512), (2, 16))
DIM = size(512, 16)
DEPTH = size(24, 3)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.inner, self.out = nn.Linear(DIM, 4 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        a, g = self.inner(self.norm(x)).chunk(2, -1)
        return x + self.out(a * torch.sigmoid(g))


class Denoiser(nn.Module):
    def __init__(self, bins=256):
        super().__init__()
        self.first, self.last = nn.Linear(bins, DIM), nn.Linear(DIM, bins)
        self.blocks = nn.ModuleList([Gated() for _ in range(DEPTH)])

    def forward(self, x):
        y = self.first(x)
        for block in self.blocks:
            y = block(y)
        return x * torch.sigmoid(self.last(y))


def main():
    seed()
    switches.install()
    model = Denoiser().to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    clean = torch.rand(BATCH, FRAMES, 256, device=DEV)

    def step():
        noisy = clean + 0.1 * torch.randn_like(clean)
        with bf16():
            loss = F.l1_loss(model(noisy), clean)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("denoise_audio", step)


if __name__ == "__main__":
    main()
