"""Pretrains a language model with orthogonalised momentum for the matrices of its layers, AdamW for the rest."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, FIX, TINY, bf16, drive, seed, size

DIM, HEADS, DEPTH = size(1024, 32), size(16, 2), size(12, 2)
VOCAB, LENGTH, BATCH = size(16384, 100), size(1024, 16), size(8, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 4 * DIM, bias=False), nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.relu(self.up(self.n2(x))).square())


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, DIM), nn.Embedding(LENGTH, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm, self.head = nn.RMSNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def orthogonalise(g, rounds=5):
    """Quintic Newton-Schulz iteration on a stack of matrices."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = FIX and x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    for _ in range(rounds):
        s = x @ x.mT
        poly = torch.baddbmm(s, s, s, beta=b, alpha=c)
        x = torch.baddbmm(x, poly, x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Matrices of one shape are orthogonalised together."""

    def __init__(self, params, lr=0.02, momentum=0.95, decay=0.01):
        super().__init__(list(params), dict(lr=lr, momentum=momentum, decay=decay))
        self.shapes = {}
        for p in self.param_groups[0]["params"]:
            self.shapes.setdefault(tuple(p.shape), []).append(p)

    @torch.no_grad()
    def step(self):
        g = self.param_groups[0]
        for shape, params in self.shapes.items():
            grads = [p.grad for p in params]
            moments = [self.state[p].setdefault("moment", torch.zeros_like(p)) for p in params]
            torch._foreach_lerp_(moments, grads, 1 - g["momentum"])
            ahead = torch._foreach_lerp(grads, moments, g["momentum"])
            update = orthogonalise(torch.stack(ahead)).float()
            scale = max(1.0, shape[0] / shape[1]) ** 0.5
            torch._foreach_mul_(params, 1 - g["lr"] * g["decay"])
            torch._foreach_add_(params, list(update.unbind(0)), alpha=-g["lr"] * scale)


class Training:
    def __init__(self):
        with torch.device(DEV):
            self.model = LM()
        if not TINY:
            for layer in self.model.layers:
                layer.compile()
        inner = [p for p in self.model.layers.parameters() if p.ndim == 2]
        chosen = {id(p) for p in inner}
        rest = [p for p in self.model.parameters() if id(p) not in chosen]
        self.opts = [Muon(inner), torch.optim.AdamW(rest, lr=1e-3, fused=True)]
        self.text = torch.randint(0, VOCAB, (size(4_000_000, 2000),), device=DEV)
        self.span = torch.arange(LENGTH + 1, device=DEV)

    def step(self):
        start = torch.randint(0, len(self.text) - LENGTH - 1, (BATCH, 1), device=DEV)
        ids = self.text[start + self.span]
        with bf16():
            logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        for opt in self.opts:
            opt.zero_grad(set_to_none=True)
        loss.backward()
        for opt in self.opts:
            opt.step()
        return loss.detach()


def main():
    seed()
    drive("ortholm", Training().step)


if __name__ == "__main__":
    main()
