"""Trains a recommender on sessions."""
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DEV, drive, pinned, seed, size
from model import Sessions
from negatives import Popularity

ITEMS, BATCH, LENGTH, NEGATIVES = size((2_000_000, 384, 48, 4096), (50, 4, 6, 8))
WIDTH, DEPTH, HEADS = size((128, 3, 4), (8, 1, 2))


class Optimizers:
    def __init__(self, model):
        self.both = [torch.optim.AdamW(model.dense_parameters(), lr=1e-3, fused=True),
                     torch.optim.SparseAdam([model.items.weight], lr=1e-3)]

    def zero_grad(self):
        for one in self.both:
            one.zero_grad()

    def step(self):
        for one in self.both:
            one.step()


def sessions(counts, count=4):
    chance = counts / counts.sum()
    draws = [pinned(torch.from_numpy(np.random.choice(ITEMS, (BATCH, LENGTH + 1), p=chance))) for _ in range(count)]
    while True:
        for draw in draws:
            draw = draw.to(DEV, non_blocking=True)
            yield draw[:, :-1], draw[:, 1:]


def main():
    seed()
    np.random.seed(0)
    counts = np.random.zipf(1.5, ITEMS).clip(max=100_000)
    popularity, source = Popularity(counts), sessions(counts)
    model = Sessions(ITEMS, WIDTH, DEPTH, HEADS, LENGTH).to(DEV)
    optimizers = Optimizers(model)

    def step():
        history, wanted = next(source)
        negatives = pinned(torch.from_numpy(popularity.draw(NEGATIVES))).to(DEV, non_blocking=True)
        loss = model.loss(history, wanted, negatives)
        optimizers.zero_grad()
        loss.backward()
        optimizers.step()
        return loss.detach()

    drive("seqrec", step)


if __name__ == "__main__":
    main()
