"""Batch decoding with a static cache, compiled; the step is one call of the decoder."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, TINY, compiled, drive, seed, size

BATCH, PROMPT, LIMIT = size((128, 768, 1024), (3, 16, 32))
VOCAB, D, LAYERS, HEADS = size((32000, 2048, 16, 16), (30, 16, 2, 2))
DTYPE = torch.float32 if TINY else torch.bfloat16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        for name in ("k", "v"):
            self.register_buffer(name, torch.randn(BATCH, HEADS, LIMIT, D // HEADS), persistent=False)

    def forward(self, x, pos, mask):
        q, k, v = self.qkv(x).view(BATCH, 3, HEADS, 1, D // HEADS).unbind(1)
        self.k.index_copy_(2, pos, k)
        self.v.index_copy_(2, pos, v)
        return self.out(F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask).reshape(BATCH, D))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn = nn.RMSNorm(D), nn.RMSNorm(D), Attention()
        self.gate, self.up = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, 3 * D, bias=False)
        self.down = nn.Linear(3 * D, D, bias=False)

    def forward(self, x, pos, mask):
        x = x + self.attn(self.n1(x), pos, mask)
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """Next token of each row, chosen on the GPU."""

    def __init__(self):
        super().__init__()
        self.emb, self.norm = nn.Embedding(VOCAB, D), nn.RMSNorm(D)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(D, VOCAB, bias=False)
        self.register_buffer("where", torch.arange(LIMIT), persistent=False)

    def forward(self, token, pos):
        mask = (self.where <= pos).view(1, 1, 1, LIMIT)
        x = self.emb(token)
        for block in self.blocks:
            x = block(x, pos, mask)
        return self.head(self.norm(x)).argmax(-1), pos + 1


def main():
    seed()
    model = Decoder().to(DEV, DTYPE).eval()
    decoder = compiled(model, mode="reduce-overhead", fullgraph=True)
    start = torch.randint(VOCAB, (BATCH,), device=DEV)
    first = torch.full((1,), PROMPT, device=DEV)  # the caches stand for a prompt that was read before
    token, pos, n = start.clone(), first.clone(), PROMPT

    @torch.no_grad()
    def step():
        nonlocal n
        if n == LIMIT:
            token.copy_(start)
            pos.copy_(first)
            n = PROMPT
        new_token, new_pos = decoder(token, pos)
        token.copy_(new_token)
        pos.copy_(new_pos)
        n += 1
        return token

    drive("decode_batch", step)


if __name__ == "__main__":
    main()
