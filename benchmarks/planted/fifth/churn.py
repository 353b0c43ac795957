"""Customer-churn model on wide tables: categorical columns, numeric columns, an MLP."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, FIX, drive, seed, size

torch.set_float32_matmul_precision("high")
LEVELS = size((24000, 18000, 12000, 9000, 4000, 1200), (30, 20, 7))
ROWS, BATCH, WIDTH, NUMERIC = size(400_000, 200), size(16384, 16), size(2048, 32), 40


class Column(nn.Module):
    """Learned vectors of one categorical column's levels."""

    def __init__(self, levels, dim=64):
        super().__init__()
        self.levels = levels
        self.weight = nn.Parameter(torch.randn(levels, dim) * 0.05)

    def forward(self, codes):
        if FIX:
            return F.embedding(codes, self.weight)
        return F.one_hot(codes, self.levels).float() @ self.weight


class ChurnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.columns = nn.ModuleList(Column(n) for n in LEVELS)
        self.scale = nn.BatchNorm1d(NUMERIC)
        width = 64 * len(LEVELS) + NUMERIC
        layers = []
        for _ in range(4):
            layers += [nn.Linear(width, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU()]
            width = WIDTH
        self.trunk = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, codes, numbers):
        parts = [column(codes[:, i]) for i, column in enumerate(self.columns)]
        return self.trunk(torch.cat(parts + [self.scale(numbers)], dim=1)).squeeze(1)


class Table:
    """The training table, resident on the device."""

    def __init__(self):
        self.codes = torch.stack([torch.randint(n, (ROWS,)) for n in LEVELS], 1).to(DEV)
        self.numbers = torch.randn(ROWS, NUMERIC).to(DEV)
        self.left = (torch.rand(ROWS) < 0.2).float().to(DEV)

    def sample(self, n):
        rows = torch.randint(ROWS, (n,), device=DEV)
        return self.codes[rows], self.numbers[rows], self.left[rows]


seed(4)
table, model = Table(), ChurnNet().to(DEV)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


def step():
    codes, numbers, left = table.sample(BATCH)
    loss = F.binary_cross_entropy_with_logits(model(codes, numbers), left)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("churn", step)
