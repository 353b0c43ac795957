"""Evolves the gait of hopping robots on rough ground: thousands of worlds, policies perturbed by evolution strategies."""
import torch
from torch import nn

from common import DEV, drive, seed, size
from robots.world import World

WORLDS = size(4096, 16)
CELLS = size(128, 16)
HIDDEN = size(128, 8)
HORIZON = size(200, 2)
SIGMA, RATE = 0.05, 0.02


class Population:
    """One centre; each world runs centre + noise, in mirrored pairs, as batched products."""

    def __init__(self, looks, actions):
        shapes = [(looks, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, actions)]
        self.centre = [nn.init.orthogonal_(torch.empty(s, device=DEV)) for s in shapes]
        self.draw()

    def draw(self):
        half = WORLDS // 2
        self.noise = []
        for c in self.centre:
            eps = torch.randn(half, *c.shape, device=DEV)
            self.noise.append(torch.cat([eps, -eps]))
        self.weights = [c + SIGMA * e for c, e in zip(self.centre, self.noise)]

    def act(self, seen):
        x = seen[:, None]
        for w in self.weights[:-1]:
            x = torch.tanh(torch.bmm(x, w))
        return torch.bmm(x, self.weights[-1])[:, 0]

    def learn(self, returns):
        order = returns.argsort().argsort().float() / (WORLDS - 1) - 0.5
        for i, e in enumerate(self.noise):
            self.centre[i] += RATE / (WORLDS * SIGMA) * torch.einsum("n,nij->ij", order, e)
        self.draw()


class Search:
    def __init__(self):
        self.world = World(WORLDS, CELLS)
        self.seen = self.world.observe()
        self.people = Population(self.seen.shape[1], 3)
        self.returns = torch.zeros(WORLDS, device=DEV)
        self.time = 0

    @torch.no_grad()
    def step(self):
        self.seen, reward, done = self.world.step(self.people.act(self.seen))
        self.returns += reward
        self.time += 1
        if self.time % HORIZON == 0:
            self.people.learn(self.returns)
            self.returns.zero_()
        return reward.mean()


def main():
    seed()
    drive("hoppers", Search().step)


if __name__ == "__main__":
    main()
