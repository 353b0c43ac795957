"""Node classification with a graph network on the whole graph."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, drive, seed, size

NODES, EDGES, CLASSES = size((120_000, 1_800_000, 20), (30, 120, 3))
FEATURES, D, LAYERS = size((128, 128, 3), (8, 8, 2))


def neighbour_mean(h, src, dst, degree):
    """h: (channels, nodes). The mean of each node's neighbours."""
    if FIX:
        rows = h.t().contiguous()
        total = torch.zeros_like(rows).index_add_(0, dst, rows.index_select(0, src))
        return (total / degree[:, None]).t()
    messages = h.index_select(1, src)
    total = torch.zeros_like(h).index_add_(1, dst, messages)
    return total / degree


class SageLayer(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.own = nn.Parameter(torch.randn(out, inp) * inp ** -0.5)
        self.others = nn.Parameter(torch.randn(out, inp) * inp ** -0.5)
        self.bias = nn.Parameter(torch.zeros(out, 1))

    def forward(self, h, graph):
        return self.own @ h + self.others @ neighbour_mean(h, *graph) + self.bias


class Sage(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Parameter(torch.randn(D, FEATURES) * FEATURES ** -0.5)
        self.layers = nn.ModuleList(SageLayer(D, D) for _ in range(LAYERS))
        self.out = nn.Parameter(torch.randn(CLASSES, D) * D ** -0.5)

    def forward(self, features, graph):
        h = self.inp @ features
        for layer in self.layers:
            h = h + F.relu(layer(h, graph))
        return self.out @ h


def make_graph():
    src = torch.randint(NODES, (EDGES,), device=DEV)
    dst = torch.randint(NODES, (EDGES,), device=DEV)
    degree = torch.bincount(dst, minlength=NODES).clamp(min=1).float()
    return src, dst, degree


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    model, graph = Sage().to(DEV), make_graph()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    features = torch.randn(FEATURES, NODES, device=DEV)
    label = torch.randint(CLASSES, (NODES,), device=DEV)

    def step():
        loss = F.cross_entropy(model(features, graph).t(), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("sage", step)


if __name__ == "__main__":
    main()
