"""Memory of transitions."""
import random
from collections import deque

import numpy as np
import torch

from common import DEV, FIX, size

OBS, ACTIONS = size((64, 16), (4, 3))
CAPACITY = size(100_000, 200)


class Deque:
    def __init__(self):
        self.items = deque(maxlen=CAPACITY)

    def push(self, obs, action, reward, after, done):
        self.items.append((obs, action, reward, after, done))

    def sample(self, count):
        rows = random.sample(self.items, count)
        obs, actions, rewards, after, dones = zip(*rows)
        parts = np.stack(obs), np.array(actions), np.array(rewards), np.stack(after), np.array(dones)
        return [torch.from_numpy(p).to(DEV) for p in parts]


class Ring:
    """The same transitions as rows of arrays on the device; index 0 is the oldest."""
    def __init__(self):
        self.parts = [torch.zeros(CAPACITY, OBS, device=DEV), torch.zeros(CAPACITY, dtype=torch.long, device=DEV),
                      torch.zeros(CAPACITY, device=DEV), torch.zeros(CAPACITY, OBS, device=DEV),
                      torch.zeros(CAPACITY, device=DEV)]
        self.at = self.held = 0
        self.waiting = []

    def push(self, *transition):
        self.waiting.append(transition)

    def settle(self):
        n = len(self.waiting)
        rows = (torch.arange(n) + self.at) % CAPACITY
        rows = rows.to(DEV)
        for part, values in zip(self.parts, zip(*self.waiting)):
            part[rows] = torch.from_numpy(np.array(values)).to(DEV)
        self.at, self.held = (self.at + n) % CAPACITY, min(CAPACITY, self.held + n)
        self.waiting = []

    def sample(self, count):
        self.settle()
        oldest = self.at if self.held == CAPACITY else 0
        rows = (torch.tensor(random.sample(range(self.held), count)) + oldest) % CAPACITY
        return [part[rows.to(DEV)] for part in self.parts]


def make_memory():
    return Ring() if FIX else Deque()
