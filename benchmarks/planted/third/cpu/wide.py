"""An autoencoder of wide layers, trained on the CPU: matrix products."""
import torch
import torch.nn.functional as F
from torch import nn

from common import drive, seed, size

ROWS, BATCH, COLUMNS, WIDTHS = size((20_000, 512, 784, (1024, 1024, 64)), (32, 4, 16, (8, 4)))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [COLUMNS, *WIDTHS]
        self.down = self.stack(widths)
        self.up = self.stack(widths[::-1])

    @staticmethod
    def stack(widths):
        layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.up(self.down(x))


class Rows:
    def __init__(self):
        self.rows = torch.randn(ROWS, COLUMNS)

    def batch(self):
        return self.rows[torch.randint(ROWS, (BATCH,))]


def main():
    seed()
    rows, model = Rows(), Autoencoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)

    def step():
        x = rows.batch()
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("cpu/wide", step)


if __name__ == "__main__":
    main()
