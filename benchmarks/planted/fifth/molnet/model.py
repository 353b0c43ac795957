import torch
from torch import nn


class Exchange(nn.Module):
    """Messages along bonds, summed at the atoms."""

    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.message = nn.Linear(width, width)
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, atoms, bonds, source, target):
        m = torch.sigmoid(self.gate(bonds)) * self.message(atoms).index_select(0, source)
        pooled = torch.zeros_like(atoms).index_add_(0, target, m)
        return self.norm(atoms + self.update(torch.cat([atoms, pooled], 1)))


class MolNet(nn.Module):
    def __init__(self, kinds, width, depth):
        super().__init__()
        self.kind, self.bond = nn.Embedding(kinds, width), nn.Linear(4, width)
        self.layers = nn.ModuleList(Exchange(width) for _ in range(depth))
        self.read = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, kinds, features, source, target, molecules):
        atoms, bonds = self.kind(kinds), self.bond(features)
        for layer in self.layers:
            atoms = layer(atoms, bonds, source, target)
        return self.read(atoms).view(molecules, -1).sum(1)
