"""Regression by a deep network: data, updates and optimizer in one CUDA graph of several updates."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, TINY, drive, seed, size

ROWS, BATCH, UPDATES = size((1_000_000, 4096, 12), (64, 8, 2))
INPUTS, WIDTH, DEPTH = size((64, 1024, 12), (8, 16, 2))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [INPUTS] + [WIDTH] * DEPTH
        self.body = nn.Sequential(*(layer for a, b in zip(widths, widths[1:])
                                    for layer in (nn.Linear(a, b), nn.ReLU(inplace=True))))
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


class Data:
    def __init__(self):
        self.x = torch.randn(ROWS, INPUTS, device=DEV)
        self.y = self.x[:, :4].sin().sum(-1)

    def draw(self, rows):
        return self.x.index_select(0, rows), self.y.index_select(0, rows)


class Updates(nn.Module):
    """`forward` replays UPDATES updates."""
    def __init__(self, net, data):
        super().__init__()
        self.net, self.data, self.graph = net, data, None
        self.optimizer = torch.optim.Adam(net.parameters(), lr=1e-4, fused=True, capturable=not TINY)
        self.register_buffer("rows", torch.zeros(UPDATES, BATCH, dtype=torch.long, device=DEV))
        self.register_buffer("loss", torch.zeros((), device=DEV))

    def run(self):
        for rows in self.rows:
            x, y = self.data.draw(rows)
            loss = F.mse_loss(self.net(x), y)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
        self.loss.copy_(loss.detach())

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.run()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.run()

    def forward(self, rows):
        self.rows.copy_(rows)
        if self.graph is None:
            self.run()
        else:
            self.graph.replay()
        return self.loss


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    updates = Updates(Net().to(DEV), Data())
    if not TINY:
        updates.capture()

    def step():
        return updates(torch.randint(ROWS, (UPDATES, BATCH), device=DEV)).clone()

    drive("graphed", step)


if __name__ == "__main__":
    main()
