"""Training of a diffusion transformer on latents."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, bf16, compiled, drive, pinned, seed, size

BATCH, SIDE, CH, CLASSES = size((64, 32, 4, 1000), (2, 8, 4, 5))
D, LAYERS, HEADS = size((1024, 12, 16), (16, 2, 2))
TOKENS = (SIDE // 2) ** 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.LayerNorm(D, elementwise_affine=False)
        self.n2 = nn.LayerNorm(D, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.modulation = nn.Linear(D, 6 * D)

    def attention(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.modulation(c)[:, None].chunk(6, -1)
        x = x + g1 * self.attention(self.n1(x) * (1 + s1) + b1)
        return x + g2 * self.down(F.gelu(self.up(self.n2(x) * (1 + s2) + b2), approximate="tanh"))


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.out = nn.Linear(4 * CH, D), nn.Linear(D, 4 * CH)
        self.where = nn.Parameter(torch.randn(TOKENS, D) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, D), nn.SiLU(), nn.Linear(D, D))
        self.label = nn.Embedding(CLASSES, D)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(D)
        self.register_buffer("freq", torch.exp(-torch.linspace(0, 8, 128)), persistent=False)

    def forward(self, latents, noise, t, label):
        """The loss of the velocity between latents and noise at the times t."""
        mixed = torch.lerp(latents, noise, t.view(-1, 1, 1))
        angle = 1000 * t[:, None] * self.freq
        c = F.silu(self.time(torch.cat([angle.sin(), angle.cos()], 1)) + self.label(label))
        x = self.inp(mixed) + self.where
        for block in self.blocks:
            x = block(x, c)
        return F.mse_loss(self.out(self.norm(x)).float(), noise - latents)


class Trainer:
    def __init__(self):
        net = DiT().to(DEV)
        self.model = compiled(net)
        self.opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
        self.ring = [(pinned(torch.randn(BATCH, TOKENS, 4 * CH)), pinned(torch.randint(CLASSES, (BATCH,))))
                     for _ in range(4)]
        self.n = 0

    def step(self):
        latents, label = (t.to(DEV, non_blocking=True) for t in self.ring[self.n % len(self.ring)])
        self.n += 1
        noise, t = torch.randn_like(latents), torch.rand(BATCH, device=DEV)
        with bf16():
            loss = self.model(latents, noise, t, label)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        return loss.detach()


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    drive("dit", Trainer().step)


if __name__ == "__main__":
    main()
