import torch
from torch import nn
from torch.nn import functional as F


class Down(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.one, self.two = nn.Conv2d(a, a, 3, padding=1), nn.Conv2d(a, b, 4, stride=2, padding=1)
        self.skip = nn.Conv2d(a, b, 1)

    def forward(self, x):
        h = self.two(F.leaky_relu(self.one(F.leaky_relu(x, 0.2)), 0.2))
        return h + self.skip(F.avg_pool2d(x, 2))


class Up(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.one, self.two = nn.ConvTranspose2d(a, b, 4, stride=2, padding=1), nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1)

    def forward(self, x):
        h = self.two(F.leaky_relu(self.one(F.leaky_relu(x, 0.2)), 0.2))
        return h + F.interpolate(self.skip(x), scale_factor=2, mode="nearest")


def widths(base, side):
    out = [base]
    while side > 8:
        out.append(min(out[-1] * 2, 4 * base))
        side //= 2
    return out


class Critic(nn.Module):
    def __init__(self, base, side):
        super().__init__()
        wide = widths(base // 2, side)
        self.enter = nn.Conv2d(3, wide[0], 3, padding=1)
        self.downs = nn.Sequential(*[Down(a, b) for a, b in zip(wide, wide[1:])])
        self.leave = nn.Linear(wide[-1], 1)

    def forward(self, x):
        return self.leave(F.leaky_relu(self.downs(self.enter(x)), 0.2).mean((2, 3)))


class Painter(nn.Module):
    def __init__(self, code, base, side):
        super().__init__()
        wide = widths(base // 2, side)[::-1]
        self.enter = nn.ConvTranspose2d(code, wide[0], 8)
        self.ups = nn.Sequential(*[Up(a, b) for a, b in zip(wide, wide[1:])])
        self.leave = nn.Conv2d(wide[-1], 3, 3, padding=1)

    def forward(self, code):
        x = self.enter(code[..., None, None]).contiguous(memory_format=torch.channels_last)
        return torch.tanh(self.leave(F.leaky_relu(self.ups(x), 0.2)))
