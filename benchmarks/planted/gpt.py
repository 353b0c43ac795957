"""A GPT, one compiled training step."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, bf16, compiled, drive, pinned, seed, size

BATCH, T, VOCAB = size((16, 1024, 32768), (2, 16, 64))
D, LAYERS, HEADS = size((1024, 8, 16), (16, 2, 2))


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


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(D), nn.Linear(D, VOCAB, bias=False)
        self.register_buffer("where", torch.arange(T), persistent=False)

    def forward(self, tokens, labels):
        x = self.tok(tokens) + self.pos(self.where)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def batches(count=8):
    ring = [pinned(torch.randint(VOCAB, (BATCH, T + 1))) for _ in range(count)]
    while True:
        for tokens in ring:
            tokens = tokens.to(DEV, non_blocking=True)
            yield tokens[:, :-1], tokens[:, 1:]


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    model = compiled(GPT().to(DEV))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
    source = batches()

    def step():
        tokens, labels = next(source)
        with bf16():
            loss = model(tokens, labels)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("gpt", step)


if __name__ == "__main__":
    main()
