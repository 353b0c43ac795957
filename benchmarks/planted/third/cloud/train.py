"""Names every point of a cloud."""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DEV, bf16, drive, seed, size
from model import CloudNet

CLOUDS, POINTS, CLASSES = size((12, 4096, 40), (2, 32, 3))
WIDTH, DEPTH, NEAREST = size((96, 6, 16), (8, 2, 4))


def jitter(points):
    """Turns each cloud about the vertical, then shakes its points."""
    angle = torch.rand(len(points), device=DEV) * 6.2832
    c, s, o, i = angle.cos(), angle.sin(), torch.zeros_like(angle), torch.ones_like(angle)
    turn = torch.stack([c, -s, o, s, c, o, o, o, i], -1).view(-1, 3, 3)
    return points @ turn + 0.005 * torch.randn_like(points)


def clouds(count=3):
    ring = [(torch.randn(CLOUDS, POINTS, 3, device=DEV), torch.rand(CLOUDS, POINTS, 3, device=DEV),
             torch.randint(CLASSES, (CLOUDS, POINTS), device=DEV)) for _ in range(count)]
    while True:
        yield from ring


def main():
    seed()
    model = CloudNet(WIDTH, DEPTH, NEAREST, CLASSES).to(DEV)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    source = clouds()

    def step():
        points, colours, names = next(source)
        points = jitter(points)
        with bf16():
            scores = model(points, colours)
        loss = F.cross_entropy(scores.float().flatten(0, 1), names.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("cloud", step)


if __name__ == "__main__":
    main()
