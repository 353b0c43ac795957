"""A physics-informed network for a flow, trained on random points and on given walls."""
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DEV, drive, seed, size
from flow import NavierStokes

POINTS, WALLS = size((16384, 4096), (16, 8))
WIDTH, DEPTH = size((256, 5), (8, 2))


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [4] + [WIDTH] * DEPTH
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.out = nn.Linear(WIDTH, 4)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.out(x)


def inside():
    return torch.rand(POINTS, 4, device=DEV).requires_grad_()


def walls():
    x = torch.rand(WALLS, 4, device=DEV)
    x[:, 1] = (x[:, 1] > 0.5).float()
    return x


class Trainer:
    def __init__(self):
        torch.set_float32_matmul_precision("high")
        self.field, self.equation = Field().to(DEV), NavierStokes()
        self.optimizer = torch.optim.Adam(self.field.parameters(), lr=1e-3, fused=True)

    def physics(self):
        points = inside()
        return sum(r.square().mean() for r in self.equation.residuals(points, self.field(points)))

    def boundary(self):
        return self.field(walls())[:, :3].square().mean()

    def step(self):
        loss = self.physics() + 10 * self.boundary()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    seed()
    drive("pinn", Trainer().step)


if __name__ == "__main__":
    main()
