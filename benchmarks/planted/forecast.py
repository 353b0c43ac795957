"""Forecasts of many series with a transformer over patches of each series."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, bf16, compiled, drive, seed, size

WINDOWS, SERIES, LENGTH, HORIZON = size((96, 24, 1024, 96), (2, 3, 64, 8))
PATCH, D, LAYERS, HEADS = size((16, 512, 4, 8), (16, 16, 2, 2))
PATCHES, RECORDED = LENGTH // PATCH, size(200_000, 500)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.where = nn.Linear(PATCH, D), nn.Parameter(torch.randn(PATCHES, D) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.out = nn.LayerNorm(D), nn.Linear(PATCHES * D, HORIZON)

    def forward(self, past, future):
        """past (rows, LENGTH), future (rows, HORIZON): the loss, in units of the past's deviation"""
        var, mean = torch.var_mean(past, dim=1, keepdim=True)
        scale = (var + 1e-5).rsqrt()
        x = self.inp(((past - mean) * scale).unflatten(1, (PATCHES, PATCH))) + self.where
        predicted = self.out(self.norm(self.blocks(x)).flatten(1))
        return F.mse_loss(predicted.float(), (future - mean) * scale)


class History:
    """All series on the device; a batch is a set of windows of all series."""

    def __init__(self):
        self.values = torch.randn(SERIES, RECORDED, device=DEV)
        self.offsets = torch.arange(LENGTH + HORIZON, device=DEV)

    def sample(self):
        start = torch.randint(RECORDED - LENGTH - HORIZON, (WINDOWS, 1), device=DEV)
        rows = self.values[:, start + self.offsets].flatten(0, 1)
        return rows[:, :LENGTH], rows[:, LENGTH:]


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    net, history = Forecaster().to(DEV), History()
    model = compiled(net)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)

    def step():
        past, future = history.sample()
        with bf16():
            loss = model(past, future)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("forecast", step)


if __name__ == "__main__":
    main()
