"""Masked-item sequence recommender: a bidirectional transformer fills in hidden purchases."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, FIX, bf16, drive, seed, size

ITEMS, LENGTH, HIDDEN = size(40_000, 50), size(200, 10), size(40, 2)
BATCH, DIM, DEPTH = size(256, 4), size(256, 32), size(4, 1)
MASK = ITEMS


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS + 1, DIM)
        self.place = nn.Parameter(torch.randn(LENGTH, DIM) * 0.02)
        layer = nn.TransformerEncoderLayer(DIM, DIM // 32, 4 * DIM, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, DEPTH, norm=nn.LayerNorm(DIM), enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(ITEMS))
        nn.init.normal_(self.items.weight, std=0.02)

    def encode(self, seen):
        return self.body(self.items(seen) + self.place)

    def score(self, states):
        return F.linear(states, self.items.weight[:ITEMS], self.bias)


class Objective:
    """Cross entropy of the hidden purchases."""

    def __init__(self, model):
        self.model = model

    def hide(self, baskets):
        where = torch.rand(baskets.shape, device=baskets.device).topk(HIDDEN, dim=1).indices
        seen = baskets.scatter(1, where, MASK)
        target = torch.full_like(baskets, -100).scatter(1, where, baskets.gather(1, where))
        return seen, target, where

    def __call__(self, baskets):
        seen, target, where = self.hide(baskets)
        states = self.model.encode(seen)
        if FIX:
            states = states.gather(1, where[..., None].expand(-1, -1, DIM))
            target = target.gather(1, where)
        logits = self.model.score(states)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100)


seed(2)
model = Recommender().to(DEV)
objective = Objective(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
history = torch.randint(ITEMS, (size(20_000, 20), LENGTH), device=DEV)


def step():
    rows = torch.randint(len(history), (BATCH,), device=DEV)
    with bf16():
        loss = objective(history[rows])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("shoprec", step)
