"""Retrieval with two towers and negatives from the batch."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, bf16, compiled, drive, pinned, seed, size

BATCH, USERS, ITEMS, EXTRA = size((16384, 50_000, 50_000, 256), (16, 50, 50, 4))
WIDTH, HIDDEN, OUT = size((128, 4096, 256), (8, 16, 8))


class Tower(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.table = nn.Embedding(rows, WIDTH)
        self.layers = nn.Sequential(
            nn.Linear(WIDTH + EXTRA, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, OUT),
        )

    def forward(self, ids, extra):
        return F.normalize(self.layers(torch.cat([self.table(ids), extra], 1)), dim=1)


class Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = Tower(USERS), Tower(ITEMS)
        self.register_buffer("right", torch.arange(BATCH), persistent=False)

    def forward(self, user, user_extra, item, item_extra):
        scores = self.user(user, user_extra) @ self.item(item, item_extra).t() * 20.0
        return F.cross_entropy(scores, self.right)


def batches(count=4):
    ring = []
    for _ in range(count):
        ring.append(tuple(map(pinned, (
            torch.randint(USERS, (BATCH,)), torch.randn(BATCH, EXTRA),
            torch.randint(ITEMS, (BATCH,)), torch.randn(BATCH, EXTRA)))))
    while True:
        for batch in ring:
            yield tuple(t.to(DEV, non_blocking=True) for t in batch)


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    net = Retrieval().to(DEV)
    model = compiled(net)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    source = batches()

    def step():
        with bf16():
            loss = model(*next(source))
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("towers", step)


if __name__ == "__main__":
    main()
