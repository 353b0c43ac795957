"""Greedy decoding with a static cache; no n-gram may come twice. The step is one call of the decoder."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, TINY, drive, seed, size

BATCH, PROMPT, LIMIT = size((64, 192, 512), (3, 12, 40))
VOCAB, D, LAYERS, HEADS = size((32000, 768, 32, 12), (30, 16, 2, 2))
NGRAM = 3
DTYPE = torch.float32 if TINY else torch.bfloat16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(BATCH, HEADS, LIMIT, D // HEADS))

    def forward(self, x, pos, mask):
        q, k, v = self.qkv(x).view(BATCH, 3, HEADS, 1, D // HEADS).unbind(1)
        self.k[:, :, pos] = k.squeeze(2)
        self.v[:, :, pos] = v.squeeze(2)
        return self.out(F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask).reshape(BATCH, D))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn = nn.LayerNorm(D), nn.LayerNorm(D), Attention()
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x, pos, mask):
        x = x + self.attn(self.n1(x), pos, mask)
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, D)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(D)
        self.register_buffer("masks", torch.ones(LIMIT, LIMIT, dtype=torch.bool).tril(), persistent=False)

    def forward(self, token, pos):
        x, mask = self.emb(token), self.masks[pos].view(1, 1, 1, LIMIT)
        for block in self.blocks:
            x = block(x, pos, mask)
        return self.norm(x) @ self.emb.weight.t()


def forbid_repeats(logits, history):
    """-inf for each token that would complete an n-gram which its row has had already."""
    if FIX:
        windows = history.unfold(1, NGRAM, 1)
        hit = (windows[:, :, :-1] == history[:, None, 1 - NGRAM:]).all(-1)
        banned = torch.zeros_like(logits, dtype=torch.int32).scatter_add_(1, windows[:, :, -1], hit.int())
        return logits.masked_fill(banned > 0, float("-inf"))
    for i, row in enumerate(history.tolist()):
        followers = {}
        for j in range(len(row) - NGRAM + 1):
            followers.setdefault(tuple(row[j:j + NGRAM - 1]), []).append(row[j + NGRAM - 1])
        banned = followers.get(tuple(row[1 - NGRAM:]))
        if banned:
            logits[i, banned] = float("-inf")
    return logits


def main():
    seed()
    model = Decoder().to(DEV, DTYPE).eval()
    history = torch.zeros(BATCH, LIMIT, dtype=torch.long, device=DEV)
    prompt = torch.randint(VOCAB, (BATCH, PROMPT), device=DEV)
    history[:, :PROMPT] = prompt
    n = PROMPT

    @torch.inference_mode()
    def step():
        nonlocal n
        if n == LIMIT:
            n = PROMPT
        logits = forbid_repeats(model(history[:, n - 1], n - 1), history[:, :n])
        history[:, n] = logits.argmax(-1)
        n += 1
        return history[:, :n].float()

    drive("decode_constrained", step)


if __name__ == "__main__":
    main()
