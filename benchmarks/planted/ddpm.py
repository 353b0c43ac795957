"""Training of a denoising diffusion model on small images."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, bf16, drive, pinned, seed, size

BATCH, SIDE, CH = size((96, 96, 3), (2, 16, 3))
WIDTHS, TIME_D = size((128, 256, 384), (8, 16, 16)), size(256, 16)
TIMES = 1000


class ResBlock(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, inp), nn.Conv2d(inp, out, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(TIME_D, out)
        self.skip = nn.Conv2d(inp, out, 1) if inp != out else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        w = WIDTHS
        self.time = nn.Sequential(nn.Linear(TIME_D, TIME_D), nn.SiLU(), nn.Linear(TIME_D, TIME_D))
        self.inp = nn.Conv2d(CH, w[0], 3, stride=2, padding=1)
        self.down = nn.ModuleList(ResBlock(w[max(i - 1, 0)], w[i]) for i in range(3))
        self.up = nn.ModuleList(ResBlock(w[i] + w[min(i + 1, 2)], w[i]) for i in reversed(range(3)))
        self.mid = ResBlock(w[2], w[2])
        self.out = nn.Conv2d(w[0], CH * 4, 3, padding=1)
        self.register_buffer("freq", torch.exp(-torch.linspace(0, 8, TIME_D // 2)), persistent=False)

    def forward(self, x, t):
        angle = t[:, None] * self.freq
        t = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        x, kept = self.inp(x), []
        for block in self.down:
            x = block(x, t)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.mid(x, t)
        for block in self.up:
            x = torch.cat([F.interpolate(x, scale_factor=2.0), kept.pop()], 1)
            x = block(x, t)
        return F.pixel_shuffle(self.out(x), 2)


class Schedule:
    def __init__(self):
        alpha = (1 - torch.linspace(1e-4, 0.02, TIMES, device=DEV)).cumprod(0)
        self.signal, self.sigma = alpha.sqrt(), (1 - alpha).sqrt()

    def draw_noise(self, images):
        if FIX:
            return torch.randn_like(images)
        return torch.randn(images.shape).to(images.device)

    def corrupt(self, images):
        noise = self.draw_noise(images)
        t = torch.randint(TIMES, (images.size(0),), device=images.device)
        mixed = self.signal[t].view(-1, 1, 1, 1) * images + self.sigma[t].view(-1, 1, 1, 1) * noise
        return mixed, noise, t.float()


class Trainer:
    def __init__(self):
        self.model = UNet().to(DEV, memory_format=torch.channels_last)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.schedule = Schedule()
        self.ring = [pinned(torch.rand(BATCH, CH, SIDE, SIDE) * 2 - 1) for _ in range(4)]
        self.n = 0

    def step(self):
        images = self.ring[self.n % len(self.ring)].to(DEV, non_blocking=True)
        self.n += 1
        mixed, noise, t = self.schedule.corrupt(images)
        with bf16():
            predicted = self.model(mixed.contiguous(memory_format=torch.channels_last), t)
        loss = F.mse_loss(predicted.float(), noise)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    seed()
    torch.backends.cudnn.benchmark = True
    drive("ddpm", Trainer().step)


if __name__ == "__main__":
    main()
