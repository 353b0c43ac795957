"""Flow matching on latent images; keeps two averages of the weights."""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DEV, bf16, drive, seed, size
from ema import Averages
from model import Velocity

BATCH, TOKENS, CHANNELS = size((32, 256, 16), (2, 8, 4))
WIDTH, DEPTH, HEADS = size((384, 16, 6), (16, 2, 2))


class Latents:
    """All latents lie on the device."""
    def __init__(self, count=size(20000, 16)):
        self.rows = torch.randn(count, TOKENS, CHANNELS, device=DEV)

    def batch(self):
        return self.rows[torch.randint(len(self.rows), (BATCH,), device=DEV)]


def flow_loss(model, clean):
    noise = torch.randn_like(clean)
    t = torch.rand(len(clean), device=DEV)
    mixed = torch.lerp(noise, clean, t[:, None, None])
    with bf16():
        velocity = model(mixed, t)
    return F.mse_loss(velocity.float(), clean - noise)


def main():
    seed()
    latents = Latents()
    model = Velocity(CHANNELS, WIDTH, DEPTH, HEADS, TOKENS).to(DEV)
    averages = Averages(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        loss = flow_loss(model, latents.batch())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averages.update(model)
        return loss.detach()

    drive("flow", step)


if __name__ == "__main__":
    main()
