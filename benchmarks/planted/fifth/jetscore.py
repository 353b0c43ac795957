"""Density of particle-jet features by sliced score matching."""
import torch
from torch import nn
from torch.func import jacrev, jvp, vmap

from common import DEV, FIX, drive, seed, size

torch.set_float32_matmul_precision("high")
FEATURES, WIDTH, BATCH = size(24, 5), size(768, 16), size(6144, 8)


class ScoreNet(nn.Module):
    """The gradient of the log density, at one noise level."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(FEATURES, WIDTH)
        self.middle = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.leave = nn.Linear(WIDTH, FEATURES)

    def forward(self, x):
        h = torch.tanh(self.enter(x))
        for layer in self.middle:
            h = h + torch.tanh(layer(h))
        return self.leave(h)


def score_and_slope(net, x, v):
    """The scores at x, and their derivatives along v."""
    if FIX:
        return jvp(net, (x,), (v,))
    jacobian = vmap(jacrev(net))(x)
    return net(x), torch.einsum("bij,bj->bi", jacobian, v)


def sliced_loss(net, x):
    v = torch.randn_like(x)
    score, slope = score_and_slope(net, x, v)
    return ((v * slope).sum(1) + 0.5 * (v * score).sum(1).square()).mean()


class Jets:
    def __init__(self, count):
        mix = torch.randn(FEATURES, FEATURES, device=DEV) / FEATURES ** 0.5
        self.table = torch.tanh(torch.randn(count, FEATURES, device=DEV) @ mix)

    def draw(self, n, noise=0.1):
        x = self.table[torch.randint(len(self.table), (n,), device=DEV)]
        return x + noise * torch.randn_like(x)


seed(12)
jets, net = Jets(size(500_000, 100)), ScoreNet().to(DEV)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-4, fused=True)


def step():
    loss = sliced_loss(net, jets.draw(BATCH))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("jetscore", step)
