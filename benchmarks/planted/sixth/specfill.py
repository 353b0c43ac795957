"""Fills gaps in stellar spectra by unrolling an energy-descent network to near its fixed point."""
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn.utils import parametrize

from common import DEV, FIX, drive, seed, size

torch.set_float32_matmul_precision("high")
BINS, STARS, ROUNDS = size(4096, 24), size(1024, 6), size(32, 4)


class Contraction(nn.Module):
    """Rows of bounded length, so that the iteration settles."""

    def __init__(self, rows):
        super().__init__()
        self.length = nn.Parameter(torch.full((rows, 1), 0.8))

    def forward(self, weight):
        return self.length.clamp(0.05, 0.95) * (weight / weight.norm(dim=1, keepdim=True).clamp_min(1e-6))


class Filler(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.inject = nn.Linear(2 * bins, bins)
        self.settle = nn.Linear(bins, bins)
        parametrize.register_parametrization(self.settle, "weight", Contraction(bins))
        self.read = nn.Linear(bins, bins)

    def forward(self, flux, known):
        drive_in = self.inject(torch.cat([flux * known, known], 1))
        z = torch.tanh(drive_in)
        with parametrize.cached() if FIX else nullcontext():
            for _ in range(ROUNDS):
                z = torch.tanh(self.settle(z) + drive_in)
        return self.read(z)


class Catalogue:
    def __init__(self, count):
        knots = torch.randn(count, BINS // 8, device=DEV)
        self.flux = torch.nn.functional.interpolate(knots[:, None], BINS, mode="linear")[:, 0]

    def draw(self, n):
        flux = self.flux[torch.randint(len(self.flux), (n,), device=DEV)]
        hole = torch.rand(n, BINS // 8, device=DEV).repeat_interleave(8, 1) < 0.25
        return flux + 0.02 * torch.randn_like(flux), (~hole).float()


seed(25)
catalogue, model = Catalogue(size(40_000, 30)), Filler(BINS).to(DEV)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-5, fused=True)


def step():
    flux, known = catalogue.draw(STARS)
    gap = (model(flux, known) - flux) * (1 - known)
    loss = gap.square().sum() / (1 - known).sum().clamp_min(1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("specfill", step)
