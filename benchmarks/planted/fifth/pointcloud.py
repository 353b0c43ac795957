"""Autoencodes point clouds under the sliced Wasserstein distance."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, drive, seed, size

CLOUDS, POINTS, VIEWS, CODE = size(64, 2), size(2048, 16), size(256, 4), size(512, 16)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(3, 128), nn.GELU(), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, CODE))
        self.whole = nn.Sequential(nn.Linear(CODE, CODE), nn.GELU(), nn.Linear(CODE, CODE))

    def forward(self, cloud):
        return self.whole(self.each(cloud).amax(1))


class Folder(nn.Module):
    """Moves the points of a fixed ball according to the code."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ball", F.normalize(torch.randn(POINTS, 3), dim=-1))
        self.where, self.what = nn.Linear(3, 512), nn.Linear(CODE, 512)
        self.out = nn.Sequential(nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 3))

    def forward(self, code):
        return self.out(self.where(self.ball)[None] + self.what(code)[:, None])


def sliced_wasserstein(a, b, views):
    """Mean squared transport cost over random lines; on a line the best plan pairs the sorted points."""
    lines = F.normalize(torch.randn(3, views, device=a.device), dim=0)
    a, b = (lines.T @ cloud.transpose(1, 2) for cloud in (a, b))
    return (a.sort(dim=-1).values - b.sort(dim=-1).values).square().mean()


seed(25)
encoder, folder = PointNet().to(DEV), Folder().to(DEV)
optimizer = torch.optim.AdamW([*encoder.parameters(), *folder.parameters()], lr=5e-4, fused=True)
shapes = F.normalize(torch.randn(size(4000, 10), POINTS, 3), dim=-1).mul(torch.rand(size(4000, 10), 1, 3)).to(DEV)


def step():
    cloud = shapes[torch.randint(len(shapes), (CLOUDS,), device=DEV)]
    with bf16():
        made = folder(encoder(cloud))
    loss = sliced_wasserstein(made.float(), cloud, VIEWS)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("pointcloud", step)
