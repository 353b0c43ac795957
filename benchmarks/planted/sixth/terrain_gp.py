"""Interpolates elevation from scattered surveys: a network's features under a sparse variational Gaussian process."""
import torch
from torch import nn

from common import DEV, bf16, drive, seed, size
from kernels.sparse import SparseGP

torch.set_float32_matmul_precision("high")
SITES, INPUTS = size(12_288, 24), size(64, 6)


class Features(nn.Module):
    """Bands, slope and position of a site to a point on the unit sphere."""

    def __init__(self, width, depth, out):
        super().__init__()
        self.enter = nn.Linear(INPUTS, width)
        self.middle = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, out)

    def forward(self, x):
        h = torch.relu(self.enter(x))
        for layer in self.middle:
            h = h + torch.relu(layer(h))
        return self.leave(h)


class Survey:
    def __init__(self, count):
        self.x = torch.randn(count, INPUTS, device=DEV)
        self.y = torch.tanh(self.x @ torch.randn(INPUTS, device=DEV)) + 0.1 * torch.randn(count, device=DEV)

    def draw(self, n):
        rows = torch.randint(len(self.x), (n,), device=DEV)
        return self.x[rows], self.y[rows]


seed(21)
survey = Survey(size(1_000_000, 200))
net = Features(size(2048, 16), size(6, 1), 32).to(DEV)
gp = SparseGP(size(1024, 8), 32).to(DEV)
optimizer = torch.optim.Adam([*net.parameters(), *gp.parameters()], lr=1e-4, fused=True)


def step():
    x, y = survey.draw(SITES)
    with bf16():
        h = net(x)
    loss = gp.negative_bound(h.float(), y, len(survey.x))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("terrain_gp", step)
