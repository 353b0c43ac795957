"""Training with small kernels beside a thread that keeps statistics of the step's duration."""
import collections
import random
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, drive, seed, size

DEPTH, D, BATCH = size((32, 256, 256), (2, 16, 8))
WINDOW = size(8000, 200)


class StepStatistics(threading.Thread):
    """Mean, deviation and percentiles of the last WINDOW durations, kept up to date for a dashboard."""

    def __init__(self, period):
        super().__init__(daemon=True)
        self.period = period
        self.window = collections.deque((random.uniform(0.004, 0.02) for _ in range(WINDOW)), maxlen=WINDOW)
        self.stop = threading.Event()
        self.latest = {}

    def add(self, seconds):
        self.window.append(seconds)

    def refresh(self):
        values = self.window.copy()
        mean = sum(values) / len(values)
        var = sum((v - mean) ** 2 for v in values) / len(values)
        ordered = sorted(values)
        self.latest = {"mean": mean, "std": var ** 0.5, "p50": ordered[len(ordered) // 2],
                       "p95": ordered[int(len(ordered) * 0.95)], "p99": ordered[int(len(ordered) * 0.99)]}

    def run(self):
        while not self.stop.wait(self.period):
            self.refresh()


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.a, self.b, self.c = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        h = self.norm(x)
        return x + self.c(F.silu(self.a(h)) * self.b(h))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Gated() for _ in range(DEPTH)))
        self.head = nn.Linear(D, 10)

    def forward(self, x):
        return self.head(self.blocks(x))


def statistics_period():
    return 1.0 if FIX else 0.002


def main():
    seed()
    model = Net().to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(BATCH, D, device=DEV)
    y = torch.randint(10, (BATCH,), device=DEV)
    stats = StepStatistics(statistics_period())
    stats.start()

    def step():
        t = time.perf_counter()
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        stats.add(time.perf_counter() - t)
        return loss.detach()

    drive("two_threads", step)
    stats.stop.set()
    stats.join()


if __name__ == "__main__":
    main()
