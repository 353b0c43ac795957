"""Segmentation of point clouds."""
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import DEV, bf16, drive, pinned, seed, size  # noqa: E402
from net import CloudNet  # noqa: E402

BATCH, POINTS, CLASSES = size((24, 8192, 16), (2, 32, 4))
D, BLOCKS = size((192, 8), (16, 4))


def clouds(count=4):
    ring = [(pinned(torch.randn(BATCH, POINTS, 6)), pinned(torch.randint(CLASSES, (BATCH, POINTS))))
            for _ in range(count)]
    while True:
        for cloud, label in ring:
            yield cloud.to(DEV, non_blocking=True), label.to(DEV, non_blocking=True)


def main():
    seed()
    model = CloudNet(D, BLOCKS, CLASSES).to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    source = clouds()

    def step():
        cloud, label = next(source)
        with bf16():
            logits = model(cloud)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), label.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("points", step)


if __name__ == "__main__":
    main()
