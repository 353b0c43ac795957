"""A language model on words cut by a thread."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DEV, bf16, drive, seed, size
from feed import make_feed
from layers import Block

BATCH, LENGTH, WORDS, TEXT = size((64, 256, 8192, 20_000_000), (2, 8, 20, 1000))
WIDTH, DEPTH, HEADS = size((512, 6, 8), (16, 2, 2))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block(WIDTH, HEADS, causal=True) for _ in range(DEPTH)))
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.out(self.norm(self.blocks(self.words(words) + self.position)))


def loss_of(model, rows):
    with bf16():
        logits = model(rows[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def main():
    seed()
    text = np.random.default_rng(1).integers(WORDS, size=TEXT)
    feed = make_feed(text, BATCH, LENGTH)
    model = LanguageModel().to(DEV)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def step():
        loss = loss_of(model, feed.take())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("polling", step)


if __name__ == "__main__":
    main()
