"""Language model of long documents."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, drive, seed
from longdoc import config as c
from longdoc.memory import MemoryPlan


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(c.DIM), nn.LayerNorm(c.DIM)
        self.qkv, self.out = nn.Linear(c.DIM, 3 * c.DIM), nn.Linear(c.DIM, c.DIM)
        self.up, self.down = nn.Linear(c.DIM, 2 * c.DIM), nn.Linear(2 * c.DIM, c.DIM)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, c.HEADS, d // c.HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.relu(self.up(self.norm2(x))))


class LongDocumentLM(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.words = nn.Embedding(c.WORDS, c.DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(c.DEPTH)])
        self.norm, self.head = nn.LayerNorm(c.DIM), nn.Linear(c.DIM, c.WORDS)
        self.plan = plan

    def forward(self, ids):
        x = self.words(ids)
        for i, block in enumerate(self.blocks):
            with self.plan.around(i):
                x = block(x)
        return self.head(self.norm(x))


def main():
    seed()
    model = LongDocumentLM(MemoryPlan(c.OFFLOAD_LAYERS)).to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, c.WORDS, (c.BATCH, c.LENGTH + 1), device=DEV)

    def step():
        with bf16():
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("longdoc_lm", step)


if __name__ == "__main__":
    main()
