"""Sorts sounds by their spectrograms, read from shards by workers."""
import shutil
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DEV, TINY, bf16, drive, seed, size
from layers import Block
from spectra import SHAPE, Spectra, write_shards

BATCH, CLASSES, WORKERS = size((192, 50, 8), (2, 5, 0))
WIDTH, DEPTH, HEADS, PATCH = size((384, 6, 6, 8), (16, 1, 2, 8))


class SpectrumTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, WIDTH, PATCH, stride=PATCH)
        self.position = nn.Parameter(torch.randn(SHAPE[0] * SHAPE[1] // PATCH**2, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(DEPTH)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))

    def forward(self, x):
        x = self.patch(x[:, None]).flatten(2).transpose(1, 2) + self.position
        return self.head(self.blocks(x).mean(1))


def loader(folder):
    data = Spectra(folder, CLASSES)
    # a long epoch, so that its borders do not count
    sampler = RandomSampler(data, replacement=True, num_samples=BATCH * size(20000, 10))
    return DataLoader(data, BATCH, sampler=sampler, num_workers=WORKERS, pin_memory=not TINY, drop_last=True)


def main():
    seed()
    folder = write_shards()
    model = SpectrumTransformer().to(DEV)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    source = iter(loader(folder))

    def step():
        spectra, labels = next(source)
        spectra = spectra.to(DEV, non_blocking=True).float()
        labels = labels.to(DEV, non_blocking=True)
        with bf16():
            loss = F.cross_entropy(model(spectra), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    try:
        drive("shards", step)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
