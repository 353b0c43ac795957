import torch
from torch.nn import functional as F

from common import DEV


class Hills:
    """Height fields: fractal noise, worn down by a few rounds of thermal erosion."""

    def __init__(self, cells, octaves=5, rounds=12):
        self.cells, self.octaves, self.rounds = cells, octaves, rounds

    def make(self, n):
        h = torch.zeros(n, 1, self.cells, self.cells, device=DEV)
        for o in range(self.octaves):
            grid = torch.randn(n, 1, 2 + 2 ** o, 2 + 2 ** o, device=DEV)
            h += 0.5 ** o * F.interpolate(grid, size=h.shape[-2:], mode="bilinear", align_corners=True)
        for _ in range(self.rounds):
            mean = F.avg_pool2d(h, 3, stride=1, padding=1, count_include_pad=False)
            steep = (h - mean).abs() > 0.02
            h = torch.where(steep, 0.7 * h + 0.3 * mean, h)
        return 0.3 * h[:, 0]
