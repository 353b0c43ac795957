"""A graph recommender: weights spread over a fixed symmetric matrix (CSR), made once."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, drive, seed, size

USERS, ITEMS, LINKS, BATCH = size((120_000, 60_000, 3_000_000, 65536), (12, 6, 30, 8))
D, LAYERS = size((64, 3), (8, 2))
NODES = USERS + ITEMS


class Spread(torch.autograd.Function):
    """matrix @ x; the matrix is symmetric, so the backward is the same product."""
    @staticmethod
    def forward(ctx, matrix, x):
        ctx.matrix = matrix
        return matrix @ x

    @staticmethod
    def backward(ctx, slope):
        return None, ctx.matrix @ slope.contiguous()


def normalised(users, items):
    rows = torch.cat([users, items + USERS])
    columns = torch.cat([items + USERS, users])
    degree = torch.bincount(rows, minlength=NODES).clamp(min=1).float()
    weights = (degree[rows] * degree[columns]).rsqrt()
    order = (rows * NODES + columns).argsort()
    starts = torch.zeros(NODES + 1, dtype=torch.int32, device=rows.device)
    starts[1:] = torch.bincount(rows, minlength=NODES).cumsum(0)
    return torch.sparse_csr_tensor(starts, columns[order].int(), weights[order], (NODES, NODES))


class Recommender(nn.Module):
    def __init__(self, matrix):
        super().__init__()
        self.matrix = matrix
        self.weight = nn.Parameter(torch.randn(NODES, D, device=DEV) * 0.1)

    def forward(self):
        x = total = self.weight
        for _ in range(LAYERS):
            x = Spread.apply(self.matrix, x)
            total = total + x
        return total / (LAYERS + 1)


def ranking_loss(nodes, users, items):
    u = nodes.index_select(0, users)
    other = torch.randint(USERS, NODES, items.shape, device=DEV)
    good = (u * nodes.index_select(0, items + USERS)).sum(-1)
    bad = (u * nodes.index_select(0, other)).sum(-1)
    return -F.logsigmoid(good - bad).mean()


def main():
    seed()
    users = torch.randint(USERS, (LINKS,), device=DEV)
    items = (ITEMS * torch.rand(LINKS, device=DEV) ** 2).long()
    model = Recommender(normalised(users, items))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step():
        rows = torch.randint(LINKS, (BATCH,), device=DEV)
        loss = ranking_loss(model(), users[rows], items[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("propagate", step)


if __name__ == "__main__":
    main()
