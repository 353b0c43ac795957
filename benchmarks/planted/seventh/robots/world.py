import torch

from common import DEV, FIX
from robots.terrain import Hills


class World:
    """Many one-legged hoppers, each on a field of its own."""

    looks = 7

    def __init__(self, n, cells):
        self.n, self.cells = n, cells
        self.hills = Hills(cells)
        self.field = self.hills.make(n)
        self.place = torch.full((n, 2), cells / 2.0, device=DEV)
        self.speed = torch.zeros(n, 2, device=DEV)
        self.height = torch.ones(n, device=DEV)
        self.rise = torch.zeros(n, device=DEV)
        self.age = torch.randint(0, 400, (n,), device=DEV)
        axis = torch.arange(self.looks, device=DEV) - self.looks // 2
        self.look = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).view(-1, 2)
        self.rows = torch.arange(n, device=DEV)[:, None]

    def ground(self, places):
        cell = places.round().long().clamp(0, self.cells - 1)
        return self.field[self.rows, cell[..., 0], cell[..., 1]]

    def observe(self):
        around = self.ground(self.place[:, None] + self.look)
        own = torch.stack([self.height, self.rise], 1)
        return torch.cat([around - self.height[:, None], own, self.speed], 1)

    def step(self, action):
        push, lift = action[:, :2], action[:, 2].clamp(0, 1)
        for _ in range(4):
            floor = self.ground(self.place[:, None])[:, 0]
            touch = (self.height - floor < 0.3).float()
            self.rise = self.rise + 0.01 * (touch * 60 * lift - 9.81 - 0.5 * self.rise)
            self.speed = self.speed + 0.01 * (touch[:, None] * 4 * push - 0.2 * self.speed)
            self.height = torch.maximum(self.height + 0.01 * self.rise, floor)
            self.rise = torch.where(self.height <= floor, self.rise.clamp(min=0), self.rise)
            self.place = self.place + 0.01 * self.speed
        self.age = self.age + 1
        reward = self.speed[:, 0] - 0.01 * action.square().sum(1)
        out = ((self.place < 1) | (self.place > self.cells - 2)).any(1)
        done = out | (self.age > 400)
        self.reset(done)
        return self.observe(), reward, done

    def reset(self, done):
        if FIX:
            which = done.nonzero()[:, 0]
            if len(which):
                self.field[which] = self.hills.make(len(which))
        else:
            fresh = self.hills.make(self.n)
            self.field = torch.where(done[:, None, None], fresh, self.field)
        middle = torch.full_like(self.place, self.cells / 2.0)
        self.place = torch.where(done[:, None], middle, self.place)
        self.speed = self.speed * ~done[:, None]
        self.height = torch.where(done, torch.ones_like(self.height), self.height)
        self.rise, self.age = self.rise * ~done, self.age * ~done
