"""Q-learning with an ensemble of networks, one environment step of 16 actors per update."""
import random
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DEV, drive, seed, size
from memory import ACTIONS, CAPACITY, OBS, make_memory

BATCH, ACTORS = size((2048, 16), (8, 2))
MEMBERS, WIDTH = size((10, 2048), (2, 8))


class Actors:
    """Stands for the environment: cheap, on the host."""
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.drift = self.rng.standard_normal((ACTIONS, OBS), np.float32)
        self.obs = self.rng.standard_normal((ACTORS, OBS), np.float32)

    def act(self):
        actions = self.rng.integers(ACTIONS, size=ACTORS)
        after = 0.9 * self.obs + 0.1 * self.drift[actions]
        rewards, dones = after.mean(1), (self.rng.random(ACTORS) < 0.01).astype(np.float32)
        yield from zip(self.obs, actions, rewards, after, dones)
        self.obs = after


class Members(nn.Module):
    """MEMBERS networks side by side."""
    def __init__(self):
        super().__init__()
        shapes = [(OBS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, ACTIONS)]
        self.weights = nn.ParameterList(torch.randn(MEMBERS, a, b) * (2 / a) ** 0.5 for a, b in shapes)

    def forward(self, obs):
        x = obs.expand(MEMBERS, -1, -1)
        for i, weight in enumerate(self.weights):
            x = torch.bmm(F.relu(x) if i else x, weight)
        return x


class Learner:
    def __init__(self):
        self.online, self.target = Members().to(DEV), Members().to(DEV).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=1e-4, fused=True)

    def learn(self, obs, actions, rewards, after, dones):
        with torch.no_grad():
            best = self.target(after).mean(0).amax(-1)
            wanted = rewards + 0.99 * (1 - dones) * best
        values = self.online(obs).gather(-1, actions.expand(MEMBERS, -1)[..., None]).squeeze(-1)
        loss = F.smooth_l1_loss(values, wanted.expand_as(values))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), 0.005)
        return loss.detach()


def main():
    seed()
    random.seed(0)
    torch.set_float32_matmul_precision("high")
    actors, memory, learner = Actors(), make_memory(), Learner()
    while_filling = CAPACITY // ACTORS
    for _ in range(while_filling):
        for transition in actors.act():
            memory.push(*transition)

    def step():
        for transition in actors.act():
            memory.push(*transition)
        return learner.learn(*memory.sample(BATCH))

    drive("dqn", step)


if __name__ == "__main__":
    main()
