"""Decoding for many conversations at once over a sliding window of keys and values, grouped queries."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, drive, seed, size
from serve.attention import GroupedAttention
from serve.cache import Cache

BATCH = size(64, 2)
WINDOW = size(1024, 16)
DIM = size(4096, 64)
HEADS, KV_HEADS = size((32, 8), (4, 2))
DEPTH = size(12, 2)
WORDS = size(32000, 100)
DTYPE = torch.bfloat16


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.attention = GroupedAttention(DIM, HEADS, KV_HEADS)
        self.gate_up = nn.Linear(DIM, 2 * 6 * DIM, bias=False)
        self.down = nn.Linear(6 * DIM, DIM, bias=False)

    def forward(self, x, cache, at):
        x = x + self.attention(self.norm1(x), cache, at)
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, DIM)
        self.layers = nn.ModuleList([Layer() for _ in range(DEPTH)])
        self.norm = nn.RMSNorm(DIM)
        self.out = nn.Linear(DIM, WORDS, bias=False)

    def forward(self, token, caches, at):
        x = self.words(token)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, at)
        return self.out(self.norm(x))


class Server:
    def __init__(self):
        self.model = Decoder().to(DEV, DTYPE).eval()
        self.caches = [Cache(BATCH, KV_HEADS, WINDOW, DIM // HEADS, DTYPE) for _ in range(DEPTH)]
        self.token = torch.randint(0, WORDS, (BATCH,), device=DEV)
        self.at = 0

    @torch.no_grad()
    def step(self):
        logits = self.model(self.token, self.caches, self.at)
        self.token = logits.argmax(-1)
        self.at += 1
        return logits


if __name__ == "__main__":
    seed()
    drive("chat_server", Server().step)
