"""Trains a picker of seismic arrivals on packed three-component records."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, TINY, bf16, seed, size
from pace import Pace
from quake.feed import Feed
from quake.records import archive

RECORDS, SAMPLES, PATCH = size(32, 3), size(40_000, 640), 32


class Picker(nn.Module):
    """Patches of the trace, a transformer over them, an arrival score for each patch."""

    def __init__(self, dim, depth):
        super().__init__()
        self.enter = nn.Conv1d(3, dim, PATCH, stride=PATCH)
        self.place = nn.Parameter(torch.randn(SAMPLES // PATCH, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, max(1, dim // 64), 4 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.leave = nn.Linear(dim, 1)

    def forward(self, wave):
        wave = wave / wave.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-3)
        x = self.enter(wave).transpose(1, 2) + self.place
        return self.leave(self.body(x)).squeeze(-1)


def train(model, optimizer, feed, pace):
    while True:
        wave, arrival = feed.next()
        with bf16():
            score = model(wave)
        loss = F.cross_entropy(score.float(), arrival // PATCH)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if pace.done(loss.detach()):
            return


if __name__ == "__main__":
    seed(23)
    net = Picker(size(512, 32), size(8, 1)).to(DEV)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    records = archive(size(128, 6), SAMPLES)
    train(net, adam, Feed(records, RECORDS, SAMPLES, DEV, pin=not TINY), Pace("seismic"))
