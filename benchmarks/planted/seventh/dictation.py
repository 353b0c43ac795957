"""Trains a large frame classifier for dictation: convolution down to 40 ms frames, a transformer, phone labels."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, TINY, bf16, seed, size
from pace import Pace

DIM, HEADS, DEPTH = size(1024, 32), size(16, 2), size(16, 2)
MELS, FRAMES, BATCH, PHONES = size(80, 8), size(2048, 32), size(48, 2), size(200, 10)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Dictation(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(MELS, DIM, 3, 2, 1), nn.Conv1d(DIM, DIM, 3, 2, 1)
        self.place = nn.Parameter(torch.randn(FRAMES // 4, DIM) * 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, PHONES)

    def forward(self, mel):
        x = F.gelu(self.c2(F.gelu(self.c1(mel), approximate="tanh")), approximate="tanh")
        x = x.transpose(1, 2) + self.place
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Guard:
    """Stops the run when the loss is not a number any more or leaps."""

    def __init__(self):
        self.mean = None

    def check(self, loss):
        if loss != loss or (self.mean is not None and loss > 10 * self.mean):
            raise FloatingPointError(f"loss {loss} after a mean of {self.mean}")
        self.mean = loss if self.mean is None else 0.99 * self.mean + 0.01 * loss


def main():
    seed()
    with torch.device(DEV):
        model = Dictation()
    if not TINY:
        for layer in model.layers:
            layer.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    pool = [(torch.randn(BATCH, MELS, FRAMES, device=DEV), torch.randint(0, PHONES, (BATCH, FRAMES // 4), device=DEV))
            for _ in range(4)]
    guard, pace, number = Guard(), Pace("dictation"), 0
    while True:
        mel, phones = pool[number % len(pool)]
        with bf16():
            logits = model(mel)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), phones.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        guard.check(loss.item())
        opt.step()
        number += 1
        if pace.done(loss.detach()):
            break


if __name__ == "__main__":
    main()
