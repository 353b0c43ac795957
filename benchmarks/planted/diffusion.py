"""Sampling with a guided latent diffusion transformer; the step is one call of the denoiser."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, TINY, drive, seed, size

IMAGES, SIDE, CH = size((16, 32, 4), (1, 4, 4))
WORDS, TEXT_D, TEXT_LAYERS = size((256, 1024, 24), (8, 16, 2))
D, LAYERS, HEADS = size((768, 12, 12), (16, 2, 2))
STEPS = 50
DTYPE = torch.float32 if TINY else torch.bfloat16


def attend(q, k, v, heads):
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, d, heads, context=None):
        super().__init__()
        self.heads = heads
        self.n1, self.qkv, self.o1 = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        if context:
            self.n2, self.q, self.kv, self.o2 = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(context, 2 * d), nn.Linear(d, d)
        self.n3, self.mlp = nn.LayerNorm(d), nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, context=None):
        x = x + self.o1(attend(*self.qkv(self.n1(x)).chunk(3, -1), self.heads))
        if context is not None:
            x = x + self.o2(attend(self.q(self.n2(x)), *self.kv(context).chunk(2, -1), self.heads))
        return x + self.mlp(self.n3(x))


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(1000, TEXT_D)
        self.blocks = nn.Sequential(*(Block(TEXT_D, TEXT_D // 64 or 1) for _ in range(TEXT_LAYERS)))

    def forward(self, words):
        return self.blocks(self.emb(words))


class GuidedDenoiser(nn.Module):
    """Predicted noise with classifier-free guidance: prompt and empty prompt in one batch."""

    def __init__(self, guidance=5.0):
        super().__init__()
        self.guidance = guidance
        self.text = TextEncoder()
        self.inp, self.out = nn.Linear(CH, D), nn.Linear(D, CH)
        self.time = nn.Sequential(nn.Linear(1, D), nn.SiLU(), nn.Linear(D, D))
        self.blocks = nn.ModuleList(Block(D, HEADS, TEXT_D) for _ in range(LAYERS))
        self._context = None

    def conditioning(self, words):
        if FIX:
            if self._context is None:
                self._context = self.text(words)
            return self._context
        return self.text(words)

    def forward(self, latents, t, words):
        context = self.conditioning(words)
        x = self.inp(torch.cat([latents, latents])) + self.time(t)
        for block in self.blocks:
            x = block(x, context)
        with_prompt, without = self.out(x).chunk(2)
        return without + self.guidance * (with_prompt - without)


def main():
    seed()
    model = GuidedDenoiser().to(DEV, DTYPE).eval()
    words = torch.randint(1000, (2 * IMAGES, WORDS), device=DEV)
    times = torch.linspace(1, 0, STEPS, device=DEV, dtype=DTYPE).view(STEPS, 1, 1)
    betas = torch.linspace(1e-4, 0.02, STEPS).tolist()
    state = {"i": 0, "x": torch.randn(IMAGES, SIDE * SIDE, CH, device=DEV, dtype=DTYPE)}

    @torch.inference_mode()
    def step():
        i = state["i"] % STEPS
        if i == 0:
            state["x"] = torch.randn(IMAGES, SIDE * SIDE, CH, device=DEV, dtype=DTYPE)
        noise = model(state["x"], times[i], words)
        beta = betas[STEPS - 1 - i]
        state["x"] = (state["x"] - beta * noise) / (1 - beta) ** 0.5
        state["i"] += 1
        return state["x"]

    drive("diffusion", step)


if __name__ == "__main__":
    main()
