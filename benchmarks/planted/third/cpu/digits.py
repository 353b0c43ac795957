"""A small convolutional network, trained on the CPU."""
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from common import FIX, drive, size

BATCH, SIDE, CLASSES, WIDTH = size((64, 32, 10, 32), (4, 8, 3, 4))


def prepare(number=0):
    """The same numbers in each run, and manners on shared machines."""
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)
    if not FIX:
        torch.set_num_threads(max(1, os.cpu_count() // 4))  # leaves room for others


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, WIDTH, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(3))
        self.norms = nn.ModuleList(nn.BatchNorm2d(WIDTH) for _ in range(3))
        self.head = nn.Sequential(nn.Linear(WIDTH * (SIDE // 8) ** 2, 128), nn.ReLU(), nn.Linear(128, CLASSES))

    def forward(self, x):
        x = F.relu(self.stem(x))
        for conv, norm in zip(self.convs, self.norms):
            x = F.max_pool2d(F.relu(norm(conv(x))), 2)
        return self.head(x.flatten(1))


class Digits:
    def __init__(self, count=size(4096, 16)):
        self.labels = torch.randint(CLASSES, (count,))
        self.images = torch.randn(count, 1, SIDE, SIDE) + self.labels.view(-1, 1, 1, 1) / CLASSES
        self.at, self.order = 0, torch.randperm(count)

    def batch(self):
        if self.at + BATCH > len(self.order):
            self.at, self.order = 0, torch.randperm(len(self.order))
        rows = self.order[self.at:self.at + BATCH]
        self.at += BATCH
        return self.images[rows], self.labels[rows]


def main():
    prepare()
    digits, net = Digits(), Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step():
        images, labels = digits.batch()
        loss = F.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("cpu/digits", step)


if __name__ == "__main__":
    main()
