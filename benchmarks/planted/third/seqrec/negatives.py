"""Negatives by popularity."""
import numpy as np

from common import FIX


class Popularity:
    def __init__(self, counts, power=0.75):
        weights = counts.astype(np.float64) ** power
        self.share = weights / weights.sum()
        self.items = len(counts)
        self.cumulative = self.share.cumsum()
        self.cumulative /= self.cumulative[-1]

    def draw(self, count):
        if FIX:
            return self.cumulative.searchsorted(np.random.random_sample(count), side="right")
        return np.random.choice(self.items, size=count, p=self.share)
