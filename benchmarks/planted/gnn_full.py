"""Node classification on one fixed graph, full batch, three graph convolutions."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, drive, seed, size

NODES, EDGES = size((200_000, 2_000_000), (200, 1500))
FEATS, HIDDEN, CLASSES = size((64, 48, 16), (8, 8, 4))


def make_graph():
    edge_index = torch.randint(NODES, (2, EDGES), device=DEV)
    x = torch.randn(NODES, FEATS, device=DEV)
    y = torch.randint(CLASSES, (NODES,), device=DEV)
    return edge_index, x, y


def symmetric_norm(edge_index, nodes):
    """Undirected edges with self loops, each once, and the weight 1 / sqrt(deg_i deg_j) of each."""
    loops = torch.arange(nodes, device=edge_index.device).expand(2, -1)
    both = torch.cat([edge_index, edge_index.flip(0), loops], 1)
    key = torch.unique(both[0] * nodes + both[1])
    row, col = key // nodes, key % nodes
    deg = torch.zeros(nodes, device=key.device).index_add_(0, row, torch.ones_like(row, dtype=torch.float))
    inv = deg.rsqrt()
    return row, col, (inv[row] * inv[col]).unsqueeze(1)


class GraphConv(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.lin = nn.Linear(fan_in, fan_out)
        self._edges = None

    def edges(self, edge_index, nodes):
        if FIX:
            if self._edges is None:
                self._edges = symmetric_norm(edge_index, nodes)
            return self._edges
        return symmetric_norm(edge_index, nodes)

    def forward(self, x, edge_index):
        row, col, weight = self.edges(edge_index, x.size(0))
        h = self.lin(x)
        messages = h.index_select(0, col) * weight
        return torch.zeros_like(h).index_add_(0, row, messages)


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = GraphConv(FEATS, HIDDEN)
        self.c2 = GraphConv(HIDDEN, HIDDEN)
        self.c3 = GraphConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x = F.relu(self.c1(x, edge_index))
        x = F.relu(self.c2(x, edge_index))
        return self.c3(x, edge_index)


def main():
    seed()
    edge_index, x, y = make_graph()
    model = GNN().to(DEV)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, fused=True)

    def step():
        loss = F.cross_entropy(model(x, edge_index), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("gnn_full", step)


if __name__ == "__main__":
    main()
