"""Trains a news language model with a wide vocabulary."""
import torch
from torch import nn

from common import DEV, TINY, bf16, compiled, drive, seed, size
from newslib.loss import ChunkedCrossEntropy
from storynet.model import Block

WORDS, LENGTH, DIM, DEPTH = size(32_768, 50), size(1024, 8), size(1024, 32), size(8, 1)
BATCH, CHUNK = size(16, 2), size(4096, 4)


class NewsModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, DIM)
        self.place = nn.Parameter(torch.randn(LENGTH, DIM) * 0.02)
        self.blocks = nn.ModuleList(compiled(Block(DIM)) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Parameter(torch.randn(WORDS, DIM) * 0.02)

    def forward(self, text):
        x = self.words(text[:, :-1]) + self.place
        for block in self.blocks:
            x = block(x)
        dtype = torch.float32 if TINY else torch.bfloat16
        hidden = self.norm(x).flatten(0, 1).to(dtype)
        return ChunkedCrossEntropy.apply(hidden, self.head.to(dtype), text[:, 1:].flatten(), CHUNK)


seed(26)
model = NewsModel().to(DEV)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
tokens = torch.randint(WORDS, (size(2_000_000, 500),), device=DEV)
reach = torch.arange(LENGTH + 1, device=DEV)


def step():
    start = torch.randint(len(tokens) - LENGTH - 1, (BATCH, 1), device=DEV)
    with bf16():
        loss = model(tokens[start + reach])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("newsgpt", step)
