"""Adapts a frozen language model to customer letters through low-rank adapters."""
import torch
from torch import nn
from torch.nn import functional as F

from adapters.layers import Layer
from common import DEV, TINY, drive, seed, size

WORDS, DIM, DEPTH = size(8192, 40), size(4096, 32), size(6, 1)
BATCH, LENGTH = size(4, 2), size(1024, 12)


class Letters(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, DIM).requires_grad_(False)
        self.layers = nn.Sequential(*[Layer(DIM, DIM // 128 or 1) for _ in range(DEPTH)])
        self.norm = nn.RMSNorm(DIM)

    def forward(self, text):
        hidden = self.norm(self.layers(self.words(text[:, :-1])))
        logits = F.linear(hidden, self.words.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())


seed(10)
torch.set_default_dtype(torch.float32 if TINY else torch.bfloat16)
with torch.device(DEV):
    model = Letters()
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-4, fused=True)
letters = torch.randint(WORDS, (64, BATCH, LENGTH + 1), device=DEV)
page = 0


def step():
    global page
    page = (page + 1) % len(letters)
    loss = model(letters[page])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("adapter_tune", step)
