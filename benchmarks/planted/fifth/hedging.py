"""Learns to hedge an option under stochastic volatility by simulated paths (deep hedging)."""
import torch
from torch import nn

from common import DEV, FIX, drive, seed, size

torch.set_float32_matmul_precision("high")
PATHS, STEPS, STRIKE = size(65_536, 64), size(30, 5), 1.0
DT = 30 / 365 / STEPS


class Market:
    """Heston paths; the shocks come from one seeded generator, so that runs can be repeated."""

    def __init__(self):
        self.rng = torch.Generator(DEV if FIX else "cpu").manual_seed(7)
        self.kappa, self.theta, self.xi, self.rho = 1.5, 0.04, 0.5, -0.7

    def shocks(self):
        z = torch.randn(STEPS, 2, PATHS, generator=self.rng, device=self.rng.device)
        return z.to(DEV) * DT ** 0.5

    @torch.no_grad()
    def paths(self):
        z = self.shocks()
        log_price = torch.zeros(PATHS, device=DEV)
        var = torch.full((PATHS,), self.theta, device=DEV)
        prices, variances = [log_price], [var]
        for own, other in z:
            root = var.clamp_min(0).sqrt()
            log_price = log_price - 0.5 * var * DT + root * own
            mix = self.rho * own + (1 - self.rho ** 2) ** 0.5 * other
            var = (var + self.kappa * (self.theta - var) * DT + self.xi * root * mix).clamp_min(1e-5)
            prices.append(log_price)
            variances.append(var)
        return torch.stack(prices, 1).exp(), torch.stack(variances, 1)


class Hedger(nn.Module):
    def __init__(self, width=size(128, 8)):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, 1))
        self.premium = nn.Parameter(torch.tensor(0.03))

    def forward(self, price, var):
        clock = torch.linspace(1, 0, STEPS + 1, device=price.device)[:-1].expand(len(price), -1)
        state = torch.stack([price[:, :-1].log(), var[:, :-1].sqrt(), clock], -1)
        held = torch.sigmoid(self.net(state).squeeze(-1))
        gains = (held * price.diff(dim=1)).sum(1)
        return self.premium + gains - (price[:, -1] - STRIKE).clamp_min(0)


seed(7)
market, hedger = Market(), Hedger().to(DEV)
optimizer = torch.optim.Adam(hedger.parameters(), lr=1e-3, fused=True)


def step():
    profit = hedger(*market.paths())
    loss = profit.square().mean() * 1e3
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("hedging", step)
