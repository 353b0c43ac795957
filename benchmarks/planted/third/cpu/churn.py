"""Who leaves: a network on a table, trained on the CPU, that stops when the validation gets no better."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

from common import FIX, drive, seed, size

ROWS, HELD_OUT, COLUMNS, BATCH = size((200_000, 8_192, 64, 4096), (64, 16, 8, 8))
WIDTH, PATIENCE = size((512, 200), (16, 200))


class Table:
    def __init__(self):
        self.x = torch.randn(ROWS + HELD_OUT, COLUMNS)
        self.y = (self.x[:, :8].sum(-1) + torch.randn(len(self.x)) > 0).float()

    def batch(self):
        rows = torch.randint(ROWS, (BATCH,))
        return self.x[rows], self.y[rows]

    def held_out(self):
        return self.x[ROWS:], self.y[ROWS:]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(COLUMNS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                                  nn.Linear(WIDTH, 1))

    def forward(self, x):
        return self.body(x).squeeze(-1)


class EarlyStopping:
    """Keeps the best weights."""
    def __init__(self, net, table, every):
        self.net, self.table, self.every = net, table, every
        self.best, self.weights, self.since, self.calls = float("inf"), None, 0, 0

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        x, y = self.table.held_out()
        loss = F.binary_cross_entropy_with_logits(self.net(x), y).item()
        self.net.train()
        return loss

    def after_step(self):
        self.calls += 1
        if self.calls % self.every:
            return
        loss = self.validate()
        if loss < self.best:
            self.best, self.weights, self.since = loss, copy.deepcopy(self.net.state_dict()), 0
        else:
            self.since += 1


def main():
    seed()
    table, net = Table(), Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    stopping = EarlyStopping(net, table, every=50 if FIX else 1)

    def step():
        x, y = table.batch()
        loss = F.binary_cross_entropy_with_logits(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stopping.after_step()
        return loss.detach()

    drive("cpu/churn", step)


if __name__ == "__main__":
    main()
