"""A transformer over the items of a session; scores against sampled negatives."""
import torch
import torch.nn.functional as F
from torch import nn

from common import bf16
from layers import Block


class Sessions(nn.Module):
    def __init__(self, items, width, depth, heads, length):
        super().__init__()
        self.items = nn.Embedding(items, width, sparse=True)
        nn.init.normal_(self.items.weight, std=0.05)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=True) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def loss(self, history, wanted, negatives):
        with bf16():
            h = self.norm(self.blocks(self.items(history) + self.position)).flatten(0, 1)
            others = h @ self.items(negatives).T
            own = (h * self.items(wanted).flatten(0, 1)).sum(-1, keepdim=True)
        own, others = own.float(), others.float()
        return (torch.logaddexp(own, others.logsumexp(-1, keepdim=True)) - own).mean()

    def dense_parameters(self):
        return [p for name, p in self.named_parameters() if not name.startswith("items.")]
