import torch
from torch import nn

from common import FIX


class Roads(nn.Module):
    """Learns which sensors have to do with which: one vector for each sensor, products between them."""

    def __init__(self, sensors, width):
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(sensors, width) * 0.3)

    def forward(self):
        near = torch.softmax(torch.relu(self.vectors @ self.vectors.T), 1)
        return [near, near @ near]


class GraphConv(nn.Module):
    def __init__(self, cin, cout, roads):
        super().__init__()
        self.roads = roads
        self.mix = nn.Linear(3 * cin, cout)

    def forward(self, x, supports=None):
        """x: (sensors, batch, channels)."""
        n, b, c = x.shape
        flat = x.reshape(n, b * c)
        if supports is None:
            supports = self.roads()
        parts = [x] + [(s @ flat).view(n, b, c) for s in supports]
        return self.mix(torch.cat(parts, 2))


class GraphGRUCell(nn.Module):
    def __init__(self, cin, hidden, roads):
        super().__init__()
        self.gates = GraphConv(cin + hidden, 2 * hidden, roads)
        self.update = GraphConv(cin + hidden, hidden, roads)

    def forward(self, x, h, supports=None):
        z, r = torch.sigmoid(self.gates(torch.cat([x, h], 2), supports)).chunk(2, 2)
        new = torch.tanh(self.update(torch.cat([x, r * h], 2), supports))
        return z * h + (1 - z) * new


class Forecaster(nn.Module):
    """Reads the last hours of all sensors, gives the next ones."""

    def __init__(self, sensors, width, cin, hidden, ahead):
        super().__init__()
        self.roads = Roads(sensors, width)
        self.cell = GraphGRUCell(cin, hidden, self.roads)
        self.out = nn.Linear(hidden, ahead)
        self.hidden = hidden

    def forward(self, x):
        """x: (time, sensors, batch, channels)."""
        h = x.new_zeros(*x.shape[1:3], self.hidden)
        supports = self.roads() if FIX else None
        for now in x:
            h = self.cell(now, h, supports)
        return self.out(h)
