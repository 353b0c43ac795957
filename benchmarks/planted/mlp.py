"""A wide perceptron in fp16 with loss scaling."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, compiled, drive, seed, size

BATCH, WIDTH, LAYERS, OUT = size((16384, 8192, 4, 1024), (8, 32, 2, 4))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return F.relu(self.lin(x))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, OUT)

    def forward(self, x, y):
        return F.mse_loss(self.head(self.layers(x)).float(), y)


class Trainer:
    def __init__(self):
        self.net = MLP().to(DEV)
        self.model = compiled(self.net)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler(DEV)

    def step(self, x, y):
        with torch.autocast(DEV, dtype=torch.float16):
            loss = self.model(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad()
        return loss.detach()


def make_ring(count=4):
    return [(torch.randn(BATCH, WIDTH, device=DEV, dtype=torch.float16),
             torch.randn(BATCH, OUT, device=DEV)) for _ in range(count)]


def main():
    seed()
    trainer = Trainer()
    ring, n = make_ring(), 0

    def step():
        nonlocal n
        n += 1
        return trainer.step(*ring[n % len(ring)])

    drive("mlp", step)


if __name__ == "__main__":
    main()
