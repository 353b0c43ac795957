"""Clicks: for each slot some categories (a bag), some numbers, a label."""
import torch

from common import DEV, pinned


class Clicks:
    def __init__(self, batch, slots, per_bag, rows, numbers, count=4):
        self.i = 0
        self.ring = []
        for _ in range(count):
            # popular categories come often: squared uniform numbers
            ids = (torch.rand(batch * slots, per_bag).square() * rows).long()
            self.ring.append(tuple(map(pinned, (ids, torch.randn(batch, numbers), torch.randint(2, (batch,)).float()))))

    def next(self):
        self.i += 1
        return tuple(t.to(DEV, non_blocking=True) for t in self.ring[self.i % len(self.ring)])
