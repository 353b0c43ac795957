"""A radiance field: random Fourier features of points and a perceptron that gives colour and density."""
import numpy as np
import torch
from torch import nn

from common import DEV, FIX, bf16, drive, seed, size

RAYS, SAMPLES = size((16384, 64), (16, 4))
FEATURES, HIDDEN = size((256, 256), (16, 16))


def projection(features, scale=6.0):
    matrix = np.random.default_rng(0).normal(scale=scale, size=(3, features))
    if FIX:
        matrix = matrix.astype(np.float32)
    return torch.from_numpy(matrix)


class FourierFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("matrix", projection(FEATURES))

    @torch.no_grad()
    def forward(self, points):
        with torch.autocast(DEV, enabled=False):  # bf16 has too few digits for an angle
            angle = points.to(self.matrix.dtype) @ self.matrix
            return torch.cat([angle.sin(), angle.cos()], -1).float()


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = FourierFeatures()
        self.mlp = nn.Sequential(
            nn.Linear(2 * FEATURES, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, 4),
        )

    def forward(self, points):
        return self.mlp(self.encode(points))


def sample_along(origin, direction):
    """Points at stratified depths on each ray."""
    depth = torch.linspace(0.1, 1.0, SAMPLES, device=origin.device)
    depth = depth + torch.rand(origin.size(0), SAMPLES, device=origin.device) * (0.9 / SAMPLES)
    return origin[:, None, :] + depth[..., None] * direction[:, None, :]


def composite(raw):
    colour, density = raw[..., :3].sigmoid(), raw[..., 3].relu() * (1.0 / SAMPLES)
    through = torch.exp(-(density.cumsum(1) - density))
    weight = through * (1 - torch.exp(-density))
    return (weight[..., None] * colour).sum(1)


def main():
    seed()
    model = Field().to(DEV)
    opt = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    origin = torch.rand(RAYS, 3, device=DEV)
    direction = nn.functional.normalize(torch.randn(RAYS, 3, device=DEV), dim=1)
    target = torch.rand(RAYS, 3, device=DEV)

    def step():
        points = sample_along(origin, direction).view(-1, 3)
        with bf16():
            raw = model(points)
        loss = (composite(raw.float().view(RAYS, SAMPLES, 4)) - target).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("field", step)


if __name__ == "__main__":
    main()
