"""Batch decoding with temperature, top-k and top-p; the step is one token for each row."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, TINY, drive, seed, size

ROWS, PROMPT, LIMIT = size((192, 256, 512), (3, 8, 16))
VOCAB, D, LAYERS, HEADS = size((128256, 2048, 10, 16), (40, 16, 2, 2))
DTYPE = torch.float32 if TINY else torch.bfloat16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.up, self.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)
        for name in ("k", "v"):
            self.register_buffer(name, torch.randn(ROWS, HEADS, LIMIT, D // HEADS), persistent=False)

    def forward(self, x, pos):
        q, k, v = self.qkv(self.n1(x)).view(ROWS, 3, HEADS, 1, D // HEADS).unbind(1)
        self.k[:, :, pos:pos + 1] = k
        self.v[:, :, pos:pos + 1] = v
        y = F.scaled_dot_product_attention(q, self.k[:, :, :pos + 1], self.v[:, :, :pos + 1])
        x = x + self.out(y.reshape(ROWS, D))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.norm = nn.Embedding(VOCAB, D), nn.RMSNorm(D)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(D, VOCAB, bias=False)

    def forward(self, token, pos):
        x = self.emb(token)
        for block in self.blocks:
            x = block(x, pos)
        return self.head(self.norm(x))


class TopK:
    def __init__(self, k):
        self.k = k

    def __call__(self, scores):
        least = scores.topk(self.k).values[:, -1:]
        return scores.masked_fill(scores < least, float("-inf"))


class TopP:
    """Keeps the most probable words that together have the probability p (after top-k)."""

    def __init__(self, p, among):
        self.p, self.among = p, among

    def ordered(self, scores):
        if FIX:
            return scores.topk(self.among)
        return scores.sort(descending=True)

    def __call__(self, scores):
        values, index = self.ordered(scores)
        p = values.softmax(-1)
        values = values.masked_fill(p.cumsum(-1) - p > self.p, float("-inf"))
        return torch.full_like(scores, float("-inf")).scatter(1, index, values)


class Sampler:
    def __init__(self, temperature=0.8, k=50, p=0.9):
        k = min(k, VOCAB // 2)
        self.temperature, self.warpers = temperature, [TopK(k), TopP(p, k)]

    def __call__(self, logits):
        scores = logits.float() / self.temperature
        for warper in self.warpers:
            scores = warper(scores)
        return torch.multinomial(scores.softmax(-1), 1).squeeze(1)


@torch.inference_mode()
def generate(model, sampler):
    while True:
        token = torch.randint(VOCAB, (ROWS,), device=DEV)
        for pos in range(PROMPT, LIMIT):  # the caches stand for a prompt that was read before
            token = sampler(model(token, pos))
            yield token


def main():
    seed()
    tokens = generate(Decoder().to(DEV, DTYPE).eval(), Sampler())
    drive("decode_topp", lambda: next(tokens))


if __name__ == "__main__":
    main()
