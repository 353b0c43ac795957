"""Embedding bags and a perceptron over their outputs."""
import torch
from torch import nn

from common import DEV, FIX


def category_table(rows, width):
    return nn.EmbeddingBag(rows, width, mode="mean", sparse=FIX, device=DEV)


class Ranker(nn.Module):
    def __init__(self, rows, width, slots, numbers, hidden):
        super().__init__()
        self.table = category_table(rows, width)
        nn.init.uniform_(self.table.weight, -0.05, 0.05)
        self.numbers = nn.Linear(numbers, width)
        self.top = nn.Sequential(
            nn.Linear((slots + 1) * width, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden // 2), nn.ReLU(),
            nn.Linear(hidden // 2, 1),
        )

    def forward(self, ids, numbers):
        bags = self.table(ids).view(numbers.size(0), -1)
        return self.top(torch.cat([bags, self.numbers(numbers)], 1)).squeeze(1)
