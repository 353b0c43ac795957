import torch
from torch import nn
from torch.nn import functional as F

from calo.graph import nearest


class Exchange(nn.Module):
    """Hits take a place in a small learnt space and gather from their neighbours there."""

    def __init__(self, width, events, near, places=4, carried=128):
        super().__init__()
        self.events, self.near = events, near
        self.place = nn.Linear(width, places)
        self.carry = nn.Linear(width, carried)
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Sequential(nn.Linear(width + 2 * carried, width), nn.ELU(),
                                 nn.Linear(width, width), nn.ELU(), nn.Linear(width, width))

    def forward(self, x, event):
        h = self.norm(x)
        place, load = self.place(h).float(), self.carry(h)
        at = nearest(place.detach(), event, self.events, self.near)
        n, k = at.shape
        away = (place.index_select(0, at.flatten()).view(n, k, -1) - place[:, None]).square().sum(-1)
        heard = load.index_select(0, at.flatten()).view(n, k, -1) * torch.exp(-away)[..., None].to(load.dtype)
        return x + self.mix(torch.cat([h, heard.mean(1), heard.amax(1)], 1))


class ShowerNet(nn.Module):
    def __init__(self, channels, width, depth, events, near):
        super().__init__()
        self.enter = nn.Linear(channels, width)
        self.layers = nn.ModuleList(Exchange(width, events, near) for _ in range(depth))
        self.leave = nn.Linear(width, 2)

    def forward(self, hits, event):
        x = F.elu(self.enter(hits))
        for layer in self.layers:
            x = layer(x, event)
        return self.leave(x)
