"""A network on clouds: each layer looks at every point's neighbours in space."""
import torch
from torch import nn

from common import FIX
from neighbours import gather, nearest


class PointLayer(nn.Module):
    def __init__(self, width, k):
        super().__init__()
        self.k = k
        self.norm = nn.LayerNorm(width)
        self.place = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, width))
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, points, features, index=None):
        if index is None:
            index = nearest(points, self.k)
        away = gather(points, index) - points[:, :, None]
        values = gather(self.value(self.norm(features)).float(), index)
        return features + self.out((values * self.place(away)).sum(2))


class CloudNet(nn.Module):
    def __init__(self, width, depth, k, classes):
        super().__init__()
        self.enter = nn.Linear(6, width)
        self.layers = nn.ModuleList(PointLayer(width, k) for _ in range(depth))
        self.k = k
        self.out = nn.Linear(width, classes)

    def forward(self, points, colours):
        features = self.enter(torch.cat([points, colours], -1))
        index = nearest(points, self.k) if FIX else None
        for layer in self.layers:
            features = layer(points, features, index)
        return self.out(features)
