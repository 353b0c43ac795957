"""Click prediction from dense features, a wide residual network."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, drive, seed, size
from rows.loading import Table, forever, loader

ROWS, BATCH = size((400_000, 4096), (512, 32))
WIDTH = size(4096, 32)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.b(F.relu(self.a(self.norm(x))))


class ClickNet(nn.Module):
    def __init__(self, features=256, depth=size(8, 2)):
        super().__init__()
        self.embed = nn.Linear(features, WIDTH)
        self.blocks = nn.Sequential(*[Residual() for _ in range(depth)])
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.out(self.blocks(self.embed(x))).squeeze(-1)


if __name__ == "__main__":
    seed()
    model = ClickNet().to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batches = forever(loader(Table(ROWS, 256), BATCH), DEV)

    def step():
        x, y = next(batches)
        with bf16():
            logits = model(x)
        loss = F.binary_cross_entropy_with_logits(logits.float(), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("clicks", step)
