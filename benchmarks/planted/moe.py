"""Transformer with mixtures of experts (top 1, with a capacity)."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, bf16, drive, seed, size

BATCH, T, VOCAB = size((16, 1024, 4096), (2, 16, 50))
D, HIDDEN, LAYERS, EXPERTS = size((512, 1024, 4, 16), (16, 32, 2, 4))
CAPACITY = int(1.5 * BATCH * T / EXPERTS)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(D, EXPERTS, bias=False)
        self.w1 = nn.Parameter(torch.randn(EXPERTS, D, HIDDEN) * D ** -0.5)
        self.w2 = nn.Parameter(torch.randn(EXPERTS, HIDDEN, D) * HIDDEN ** -0.5)

    def dispatch(self, x, choice):
        """Each token through its expert; what is over the expert's capacity gives zero."""
        if FIX:
            mine = choice[:, None] == torch.arange(EXPERTS, device=x.device)
            rank = (mine.int().cumsum(0) - 1).gather(1, choice[:, None]).squeeze(1)
            slot = torch.where(rank < CAPACITY, choice * CAPACITY + rank, EXPERTS * CAPACITY)
            rows = x.new_zeros(EXPERTS * CAPACITY + 1, D).index_copy(0, slot, x)
            h = torch.bmm(rows[:-1].view(EXPERTS, CAPACITY, D), self.w1)
            y = torch.bmm(F.gelu(h), self.w2).flatten(0, 1)
            return torch.cat([y, y.new_zeros(1, D)]).index_select(0, slot)
        out = torch.zeros_like(x)
        for e, (w1, w2) in enumerate(zip(self.w1.unbind(0), self.w2.unbind(0))):
            rows = (choice == e).nonzero().squeeze(1)[:CAPACITY]
            if rows.numel():
                y = F.gelu(x[rows] @ w1) @ w2
                out.index_add_(0, rows, y.to(out.dtype))
        return out

    def forward(self, x):
        flat = x.flatten(0, 1)
        p, choice = self.gate(flat).softmax(-1).max(-1)
        return (self.dispatch(flat, choice) * p[:, None]).view_as(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out, self.experts = nn.Linear(D, 3 * D), nn.Linear(D, D), Experts()

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 8, D // 8).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, D))
        return x + self.experts(self.n2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, D)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(D, VOCAB, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.emb(tokens)))


def main():
    seed()
    model = Model().to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(VOCAB, (BATCH, T + 1), device=DEV)

    def step():
        with bf16():
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("moe", step)


if __name__ == "__main__":
    main()
