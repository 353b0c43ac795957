"""Fits a radiance field to pictures of a statue; rays that pass by its box are dropped when the pictures are read."""
import torch
from torch import nn

from common import DEV, bf16, compiled, drive, seed, size

PICTURES, SIDE = size(40, 2), size(400, 16)
RAYS, SAMPLES = size(16384, 32), size(64, 8)
WIDTH, DEPTH, WAVES = size(256, 16), size(6, 2), size(10, 4)


def cameras():
    """Origins and directions of all pixels of all pictures, on a circle around the statue."""
    angle = torch.linspace(0, 6.2832, PICTURES + 1, device=DEV)[:-1]
    zero = torch.zeros_like(angle)
    eye = torch.stack([3 * angle.cos(), zero, 3 * angle.sin()], 1)
    ahead = -eye / 3
    right = torch.stack([-ahead[:, 2], zero, ahead[:, 0]], 1)
    axis = torch.linspace(-0.7, 0.7, SIDE, device=DEV)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    up = torch.tensor([0.0, 1.0, 0.0], device=DEV)
    d = ahead[:, None, None] + x[..., None] * right[:, None, None] + y[..., None] * up
    d = d / d.norm(dim=-1, keepdim=True)
    return eye[:, None, None].expand_as(d).reshape(-1, 3), d.reshape(-1, 3)


def box(origin, direction, half=0.8):
    """Where rays enter and leave the box."""
    safe = torch.where(direction.abs() < 1e-6, torch.full_like(direction, 1e-6), direction)
    a, b = (-half - origin) / safe, (half - origin) / safe
    return torch.minimum(a, b).amax(1), torch.maximum(a, b).amin(1)


class Rays:
    """Rays that meet the box, with their colours, on the device."""

    def __init__(self):
        origin, direction = cameras()
        near, far = box(origin, direction)
        hit = far > near.clamp(min=0)
        self.rows = torch.cat([origin, direction, near[:, None], far[:, None]], 1)[hit]
        depth = (origin + near[:, None] * direction)[hit]
        self.colour = 0.5 + 0.5 * torch.sin(4 * depth)

    def draw(self):
        i = torch.randint(0, len(self.rows), (RAYS,), device=DEV)
        return self.rows[i], self.colour[i]


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6 * WAVES, WIDTH)
        self.inner = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))
        self.last = nn.Linear(WIDTH, 4)
        self.register_buffer("waves", 2.0 ** torch.arange(WAVES))

    def forward(self, p):
        phase = (p[..., None] * self.waves).flatten(-2)
        x = torch.relu(self.first(torch.cat([phase.sin(), phase.cos()], -1)))
        for layer in self.inner:
            x = torch.relu(layer(x))
        x = self.last(x).float()
        return torch.sigmoid(x[..., :3]), nn.functional.softplus(x[..., 3] - 1)


class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.field = Field()

    def forward(self, rows, jitter):
        origin, direction, near, far = rows[:, :3], rows[:, 3:6], rows[:, 6:7], rows[:, 7:8]
        grid = (torch.arange(SAMPLES, device=rows.device) + jitter) / SAMPLES
        at = near + (far - near) * grid
        colour, density = self.field(origin[:, None] + at[..., None] * direction[:, None])
        through = density * (far - near) / SAMPLES * 4
        before = torch.exp(through - through.cumsum(1))
        weight = before * (1 - torch.exp(-through))
        return (weight[..., None] * colour).sum(1)


def main():
    seed()
    rays, painter = Rays(), Painter().to(DEV)
    paint = compiled(painter, dynamic=False)
    opt = torch.optim.Adam(painter.parameters(), lr=5e-4, fused=True)

    def step():
        rows, colour = rays.draw()
        with bf16():
            out = paint(rows, torch.rand(RAYS, SAMPLES, device=DEV))
        loss = (out - colour).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    drive("radiance", step)


if __name__ == "__main__":
    main()
