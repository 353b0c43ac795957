"""Separates overlapping particle showers in a calorimeter: hits exchange messages with near hits of their event."""
import torch
from torch.nn import functional as F

from calo.layers import ShowerNet
from common import DEV, bf16, drive, seed, size

torch.set_float32_matmul_precision("high")
EVENTS, HITS, CHANNELS = size(48, 3), size(256, 10), 12


class Readout:
    """Events with the same number of hits, stored one after the other."""

    def __init__(self, batches):
        n = EVENTS * HITS
        self.event = torch.arange(EVENTS, device=DEV).repeat_interleave(HITS)
        self.batches = [(torch.randn(n, CHANNELS, device=DEV), torch.rand(n, 2, device=DEV).softmax(1))
                        for _ in range(batches)]
        self.turn = 0

    def next(self):
        self.turn = (self.turn + 1) % len(self.batches)
        hits, shares = self.batches[self.turn]
        return hits, self.event, shares


seed(22)
readout = Readout(size(16, 2))
model = ShowerNet(CHANNELS, size(1024, 16), size(4, 2), EVENTS, near=size(24, 3)).to(DEV)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def step():
    hits, event, shares = readout.next()
    with bf16():
        guess = model(hits, event)
    energy = hits[:, :1].abs().sqrt()
    loss = -(energy * shares * F.log_softmax(guess.float(), 1)).sum() / energy.sum()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("showers", step)
