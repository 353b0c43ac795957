"""Message passing on large batches of molecules: energies from distances."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, drive, seed, size

GRAPHS, ATOMS, NEIGHBOURS = size((1024, 64, 8), (2, 6, 3))
D, LAYERS, RADIAL = size((256, 4, 16), (8, 2, 4))
N = GRAPHS * ATOMS


class Batches:
    def __init__(self, count=3):
        self.ring = [self.build() for _ in range(count)]
        self.turn = 0

    def build(self):
        atoms = torch.randint(100, (N,), device=DEV)
        to = torch.arange(N, device=DEV).repeat_interleave(NEIGHBOURS)
        start = to // ATOMS * ATOMS
        frm = start + torch.randint(ATOMS, to.shape, device=DEV)
        return atoms, frm, to, torch.rand(len(to), device=DEV) * 5, torch.randn(GRAPHS, device=DEV)

    def __iter__(self):
        return self

    def __next__(self):
        self.turn += 1
        return self.ring[self.turn % len(self.ring)]


class EdgeUpdate(nn.Module):
    """Weighs both atoms and the distance of each edge, then sums what an atom receives."""
    def __init__(self):
        super().__init__()
        self.weigh = nn.Linear(2 * D + RADIAL, D)

    def messages(self, h, frm, to, radial):
        if FIX:
            of_to, of_from, of_radial = self.weigh.weight.split([D, D, RADIAL], 1)
            here, there = F.linear(h, of_to), F.linear(h, of_from, self.weigh.bias)
            return F.linear(radial, of_radial) + here.index_select(0, to) + there.index_select(0, frm)
        pair = torch.cat([h.index_select(0, to), h.index_select(0, frm), radial], -1)
        return self.weigh(pair)

    def forward(self, h, frm, to, radial):
        m = F.silu(self.messages(h, frm, to, radial))
        return torch.zeros_like(h).index_add_(0, to, m)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.update = nn.LayerNorm(D), EdgeUpdate()
        self.mix = nn.Sequential(nn.Linear(D, D), nn.SiLU(), nn.Linear(D, D))

    def forward(self, h, *edges):
        return h + self.mix(self.update(self.norm(h), *edges))


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.atoms = nn.Embedding(100, D)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.register_buffer("centres", torch.linspace(0, 5, RADIAL))
        self.out = nn.Linear(D, 1)

    def forward(self, atoms, frm, to, distances):
        radial = torch.exp(-(distances[:, None] - self.centres).square() * 4)
        h = self.atoms(atoms)
        for layer in self.layers:
            h = layer(h, frm, to, radial)
        return self.out(h).view(GRAPHS, ATOMS).mean(1)


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    batches, model = Batches(), Energy().to(DEV)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step():
        *graph, energies = next(batches)
        loss = F.mse_loss(model(*graph), energies)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("molecules", step)


if __name__ == "__main__":
    main()
