"""Blocks on pairs of residues (triangle updates), trained to predict distances in bins."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, bf16, drive, seed, size

RESIDUES, D, BLOCKS, BINS = size((512, 128, 4, 64), (12, 8, 2, 5))


class TriangleUpdate(nn.Module):
    """Edge i-j from the edges i-k and j-k (outgoing) or k-i and k-j (incoming)."""

    def __init__(self, outgoing):
        super().__init__()
        self.outgoing = outgoing
        self.norm, self.norm_out = nn.LayerNorm(D), nn.LayerNorm(D)
        self.left, self.right = nn.Linear(D, 2 * D), nn.Linear(D, 2 * D)
        self.gate, self.out = nn.Linear(D, D), nn.Linear(D, D)

    def combine(self, a, b):
        """a, b: (N, N, D); products of the channels' matrices."""
        a, b = a.permute(2, 0, 1), b.permute(2, 0, 1)
        if not self.outgoing:
            a, b = a.transpose(1, 2), b.transpose(1, 2)
        if FIX:
            product = torch.bmm(a, b.transpose(1, 2)).float()
        else:
            with torch.autocast(DEV, enabled=False):  # sums over many residues
                product = torch.bmm(a.float(), b.float().transpose(1, 2))
        return product.permute(1, 2, 0) / RESIDUES ** 0.5

    def forward(self, z):
        h = self.norm(z)
        a, b = F.glu(self.left(h)), F.glu(self.right(h))
        return self.gate(h).sigmoid() * self.out(self.norm_out(self.combine(a, b)))


class Transition(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, z):
        return self.down(F.relu(self.up(self.norm(z))))


class PairStack(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(2 * 22, D)
        self.blocks = nn.ModuleList(m for _ in range(BLOCKS)
                                    for m in (TriangleUpdate(True), TriangleUpdate(False), Transition()))
        self.norm, self.bins = nn.LayerNorm(D), nn.Linear(D, BINS)

    def forward(self, residues):
        one = F.one_hot(residues, 22).float()
        z = self.inp(torch.cat([one[:, None].expand(-1, len(one), -1), one[None].expand(len(one), -1, -1)], -1))
        for block in self.blocks:
            z = z + block(z)
        return self.bins(self.norm(z))


def examples(count=4):
    ring = [(torch.randint(22, (RESIDUES,), device=DEV),
             torch.randint(BINS, (RESIDUES, RESIDUES), device=DEV)) for _ in range(count)]
    while True:
        yield from ring


def main():
    seed()
    model = PairStack().to(DEV)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    source = examples()

    def step():
        residues, distance = next(source)
        with bf16():
            logits = model(residues)
        loss = F.cross_entropy(logits.float().flatten(0, 1), distance.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("pairformer", step)


if __name__ == "__main__":
    main()
