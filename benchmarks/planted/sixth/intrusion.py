"""Scores network flows for intrusions: a wide residual network on byte-coded flow records."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, TINY, bf16, seed, size
from intrusionlib.feed import FlowFeed
from pace import Pace

FLOWS, FIELDS, KINDS = size(16_384, 8), size(512, 12), 24


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def detector(width, depth):
    return nn.Sequential(nn.Linear(FIELDS, width), *[Residual(width) for _ in range(depth)],
                         nn.LayerNorm(width), nn.Linear(width, KINDS))


def train(model, optimizer, feed, pace):
    for flows, kinds in feed:
        with bf16():
            logits = model(flows.float().mul_(1 / 128).sub_(1))
        loss = F.cross_entropy(logits.float(), kinds.long(), label_smoothing=0.05)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if pace.done(loss.detach()):
            feed.close()
            return


if __name__ == "__main__":
    seed(30)
    net = detector(size(2048, 16), size(8, 1)).to(DEV)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    source = FlowFeed(size(400_000, 60), FIELDS, KINDS, FLOWS, DEV, threads=size(3, 1), pin=not TINY)
    train(net, adam, source, Pace("intrusion"))
