"""Exact Gaussian process: kernel parameters by the marginal likelihood."""
import math

import torch
from torch import nn

from common import DEV, drive, seed, size

POINTS, DIM = size((6144, 12), (24, 3))


class GaussianProcess(nn.Module):
    """Squared exponential kernel; doubles, as the matrix is close to singular in single precision."""

    def __init__(self):
        super().__init__()
        self.log_length = nn.Parameter(torch.zeros(DIM, dtype=torch.float64))
        self.log_scale = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.log_noise = nn.Parameter(torch.tensor(-6.0, dtype=torch.float64))
        self.register_buffer("eye", torch.ones(POINTS, dtype=torch.float64))

    def covariance(self, x):
        x = x * (-self.log_length).exp()
        half = 0.5 * x.square().sum(1)
        exponent = torch.addmm(-half[:, None], x, x.t()) - half
        k = (exponent + 2 * self.log_scale).exp()
        return k + torch.diag(self.eye * (2 * self.log_noise).exp())

    def forward(self, x, y):
        lower, _ = torch.linalg.cholesky_ex(self.covariance(x))
        white = torch.linalg.solve_triangular(lower, y[:, None], upper=False)
        log_det = lower.diagonal().log().sum()
        return (0.5 * white.square().sum() + log_det) / POINTS + 0.5 * math.log(2 * math.pi)


def main():
    seed()
    gp = GaussianProcess().to(DEV)
    opt = torch.optim.Adam(gp.parameters(), lr=0.01, fused=True)
    x = torch.randn(POINTS, DIM, device=DEV, dtype=torch.float64)
    y = x.sin().sum(1) + 0.05 * torch.randn(POINTS, device=DEV, dtype=torch.float64)

    def step():
        loss = gp(x, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("gp", step)


if __name__ == "__main__":
    main()
