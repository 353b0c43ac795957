"""Fine-tuning of a language model on pairs of a long prompt and a short answer."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, bf16, drive, pinned, seed, size

BATCH, T, VOCAB, IGNORE = size((4, 2048, 128256, -100), (2, 24, 50, -100))
D, LAYERS, HEADS = size((1024, 12, 16), (16, 2, 2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.up, self.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def attention(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, D))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(T, D)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.RMSNorm(D), nn.Linear(D, VOCAB, bias=False)
        for table in (self.tok, self.pos):
            nn.init.normal_(table.weight, std=0.02)
            table.weight.requires_grad_(False)  # only the layers and the output are tuned

    def answer_loss(self, x, labels, answer):
        if FIX:
            x, labels = x.flatten(0, 1)[answer], labels.flatten()[answer]
            return F.cross_entropy(self.head(self.norm(x)).float(), labels)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORE)

    def forward(self, tokens, labels, answer):
        x = self.tok(tokens) + self.pos.weight
        return self.answer_loss(self.blocks(x), labels, answer)


def conversation(generator):
    """Tokens and labels of one row; only the answer at the end has labels."""
    tokens = torch.randint(VOCAB, (T + 1,), generator=generator)
    labels = tokens[1:].clone()
    answer = int(torch.randint(T // 12, T // 6, (), generator=generator))
    labels[:T - answer] = IGNORE
    return tokens[:-1], labels


def batches(count=8):
    generator, ring = torch.Generator().manual_seed(5), []
    for _ in range(count):
        tokens, labels = map(torch.stack, zip(*(conversation(generator) for _ in range(BATCH))))
        answer = (labels.flatten() != IGNORE).nonzero().squeeze(1)
        ring.append(tuple(map(pinned, (tokens, labels, answer))))
    while True:
        for batch in ring:
            yield tuple(t.to(DEV, non_blocking=True) for t in batch)


def main():
    seed()
    model = LanguageModel().to(DEV)
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    source = batches()

    def step():
        with bf16():
            loss = model(*next(source))
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("sft", step)


if __name__ == "__main__":
    main()
