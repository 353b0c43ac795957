import math

import torch
from torch import nn
from torch.nn import functional as F

from common import FIX


class SparseGP(nn.Module):
    """Whitened sparse variational regression; points and inducing points lie on the unit sphere."""

    def __init__(self, places, dim):
        super().__init__()
        self.places = nn.Parameter(torch.randn(places, dim))
        self.mean = nn.Parameter(torch.zeros(places))
        self.factor = nn.Parameter(torch.eye(places) * 0.5)
        self.log_noise = nn.Parameter(torch.tensor(-1.0))
        self.log_scale = nn.Parameter(torch.tensor(0.0))

    def kernel(self, a, b):
        return torch.exp((a @ b.T - 1.0) * self.log_scale.exp())

    def posterior(self, x):
        """Mean and variance at each point."""
        z = F.normalize(self.places, dim=1)
        inner = self.kernel(z, z) + 0.05 * torch.eye(len(z), device=z.device)
        root = torch.linalg.cholesky_ex(inner).L
        a = torch.linalg.solve_triangular(root, self.kernel(z, x), upper=False)
        b = self.factor.tril().T @ a
        if FIX:
            variance = 1.0 - a.square().sum(0) + b.square().sum(0)
        else:
            covariance = self.kernel(x, x) - a.T @ a + b.T @ b
            variance = covariance.diagonal()
        return a.T @ self.mean, variance.clamp_min(1e-6)

    def divergence(self):
        s = self.factor.tril()
        log_det = s.diagonal().abs().clamp_min(1e-8).log().sum() * 2
        return 0.5 * (s.square().sum() + self.mean.square().sum() - len(s) - log_det)

    def negative_bound(self, h, y, total):
        mean, variance = self.posterior(F.normalize(h, dim=1))
        noise = self.log_noise.exp()
        fit = 0.5 * (math.log(2 * math.pi) + self.log_noise + ((y - mean).square() + variance) / noise)
        return fit.mean() + self.divergence() / total
