"""Waves in a box of three dimensions: an explicit scheme, one compiled kernel per time step."""
import torch
from torch import nn

from common import DEV, compiled, drive, seed, size

SIDE, SUBSTEPS = size((448, 12), (12, 2))


def advance(now, before, speed):
    """The next field from two; `speed` holds (c dt / dx)²; walls stay at 0."""
    inner = now[1:-1, 1:-1, 1:-1]
    laplacian = (now[2:, 1:-1, 1:-1] + now[:-2, 1:-1, 1:-1] + now[1:-1, 2:, 1:-1] + now[1:-1, :-2, 1:-1]
                 + now[1:-1, 1:-1, 2:] + now[1:-1, 1:-1, :-2] - 6 * inner)
    before[1:-1, 1:-1, 1:-1] = 2 * inner - before[1:-1, 1:-1, 1:-1] + speed[1:-1, 1:-1, 1:-1] * laplacian


class Box(nn.Module):
    def __init__(self):
        super().__init__()
        self.advance = compiled(advance)
        self.register_buffer("speed", 0.05 + 0.05 * torch.rand(SIDE, SIDE, SIDE))
        self.register_buffer("now", torch.zeros(SIDE, SIDE, SIDE))
        self.register_buffer("before", torch.zeros(SIDE, SIDE, SIDE))
        c = SIDE // 2
        self.now[c - 2:c + 2, c - 2:c + 2, c - 2:c + 2] = 1

    def forward(self, substeps):
        now, before = self.now, self.before
        for _ in range(substeps // 2):
            self.advance(now, before, self.speed)
            self.advance(before, now, self.speed)
        return now[SIDE // 2, SIDE // 2, SIDE // 2]


def main():
    seed()
    box = Box().to(DEV)

    @torch.no_grad()
    def step():
        return box(SUBSTEPS)

    drive("waves", step)


if __name__ == "__main__":
    main()
