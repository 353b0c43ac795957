"""Learning to serve queues: an event simulation on the host, while the device trains on what came before."""
import heapq
import random

import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, bf16, compiled, drive, pinned, seed, size

YARDS, CRANES, EVENTS = size((96, 8, 60), (2, 2, 5))
WIDTH, ROWS, KEPT = size((2048, 8192, 40_000), (16, 8, 20))
OBS = 2 * CRANES


class Yard:
    """Jobs come and are done at random times; an action says which crane the next jobs prefer."""
    def __init__(self, number):
        self.random = random.Random(number)
        self.now, self.events, self.waiting = 0.0, [], [0] * CRANES
        self.busy = [False] * CRANES
        heapq.heappush(self.events, (0.0, -1))

    def start(self, crane):
        if not self.busy[crane] and self.waiting[crane]:
            self.waiting[crane] -= 1
            self.busy[crane] = True
            heapq.heappush(self.events, (self.now + self.random.expovariate(1.0), crane))

    def advance(self, preferred):
        for _ in range(EVENTS):
            self.now, crane = heapq.heappop(self.events)
            if crane < 0:
                to = preferred if self.random.random() < 0.5 else self.random.randrange(CRANES)
                self.waiting[to] += 1
                heapq.heappush(self.events, (self.now + self.random.expovariate(CRANES * 0.9), -1))
                self.start(to)
            else:
                self.busy[crane] = False
                self.start(crane)
        return [min(w, 50) / 50 for w in self.waiting] + [float(b) for b in self.busy]


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, WIDTH), nn.ReLU(), *(
            layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))
        self.policy, self.value = nn.Linear(WIDTH, CRANES), nn.Linear(WIDTH, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.policy(h), self.value(h).squeeze(-1)


def main():
    seed()
    yards, agent = [Yard(i) for i in range(YARDS)], Agent().to(DEV)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-4, fused=True)
    forward = compiled(agent)
    seen = torch.rand(KEPT, OBS, device=DEV)
    obs = torch.zeros(YARDS, OBS, device=DEV)

    def learn():
        batch = seen[torch.randint(KEPT, (ROWS,), device=DEV)]
        with bf16():
            logits, values = forward(batch)
        logp, worth = logits.float().log_softmax(-1), -batch[:, :CRANES].sum(-1)
        chosen = logp.gather(-1, logp.detach().exp().multinomial(1)).squeeze(-1)
        loss = -(chosen * (worth - values.detach())).mean() + F.mse_loss(values.float(), worth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step():
        nonlocal obs, seen
        with torch.no_grad(), bf16():
            actions = agent(obs)[0].float().softmax(-1).multinomial(1).flatten().tolist()
        loss = learn()  # runs on the device during the simulation below
        rows = [yard.advance(action) for yard, action in zip(yards, actions)]
        obs = pinned(torch.tensor(rows)).to(DEV, non_blocking=True)
        seen[torch.randint(KEPT, (YARDS,), device=DEV)] = obs
        return loss

    drive("rollout", step)


if __name__ == "__main__":
    main()
