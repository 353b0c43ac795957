"""Clean: masked words, compiled; only the masked places go to the output layer."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, compiled, drive, seed, size

DIM, HEADS, DEPTH, BATCH, LENGTH, WORDS, MASKED = size((1024, 16, 8, 64, 256, 32768, 2048), (32, 2, 2, 2, 8, 64, 4))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, DIM)
        layer = lambda: nn.ModuleDict({"n1": nn.LayerNorm(DIM), "n2": nn.LayerNorm(DIM), "qkv": nn.Linear(DIM, 3 * DIM),
                                       "o": nn.Linear(DIM, DIM), "up": nn.Linear(DIM, 4 * DIM),
                                       "down": nn.Linear(4 * DIM, DIM)})
        self.layers = nn.ModuleList([layer() for _ in range(DEPTH)])
        self.out = nn.Linear(DIM, WORDS)

    def forward(self, ids, places):
        x = self.words(ids)
        b, n, d = x.shape
        for m in self.layers:
            q, k, v = m["qkv"](m["n1"](x)).view(b, n, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
            x = x + m["o"](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
            x = x + m["down"](F.gelu(m["up"](m["n2"](x))))
        return self.out(x.flatten(0, 1).index_select(0, places))


if __name__ == "__main__":
    seed()
    model = Model().to(DEV)
    run = compiled(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, WORDS, (BATCH, LENGTH), device=DEV)
    places = torch.randperm(BATCH * LENGTH, device=DEV)[:MASKED]

    def step():
        with bf16():
            loss = F.cross_entropy(run(ids, places), ids.flatten()[places])
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("mlm", step)
