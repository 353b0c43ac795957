"""Generates faces with a hinge-loss adversarial pair of residual networks."""
import torch

from common import DEV, bf16, drive, seed, size
from facelib.nets import Critic, Painter

FACES, SIDE, CODE, BASE = size(64, 2), size(128, 16), size(256, 8), size(128, 8)


class Portraits:
    def __init__(self, count):
        self.bytes = torch.randint(256, (count, 3, SIDE, SIDE), device=DEV, dtype=torch.uint8)

    def draw(self, n):
        rows = torch.randint(len(self.bytes), (n,), device=DEV)
        real = self.bytes[rows].float().div_(127.5).sub_(1)
        return real.contiguous(memory_format=torch.channels_last)


seed(28)
portraits = Portraits(size(8000, 8))
painter = Painter(CODE, BASE, SIDE).to(DEV, memory_format=torch.channels_last)
critic = Critic(BASE, SIDE).to(DEV, memory_format=torch.channels_last)
paint_opt = torch.optim.Adam(painter.parameters(), lr=5e-5, betas=(0.0, 0.99), fused=True)
judge_opt = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.0, 0.99), fused=True)


def learn(loss, optimizer):
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def step():
    real = portraits.draw(FACES)
    with bf16():
        fake = painter(torch.randn(FACES, CODE, device=DEV))
        good, bad = critic(torch.cat([real, fake.detach().float()])).chunk(2)
    judged = (1 - good.float()).relu().mean() + (1 + bad.float()).relu().mean()
    learn(judged, judge_opt)

    critic.requires_grad_(False)
    with bf16():
        painted = -critic(fake).float().mean()
    learn(painted, paint_opt)
    critic.requires_grad_(True)
    return judged.detach() + painted.detach()


if __name__ == "__main__":
    drive("ganfaces", step)
