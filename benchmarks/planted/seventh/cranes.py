"""Teaches cranes to carry swinging loads: proximal policy optimisation over very many simulated cranes."""
import torch
from torch import nn

from common import DEV, TINY, bf16, compiled, drive, seed, size

CRANES, HORIZON = size(32768, 16), size(32, 4)
HIDDEN, EPOCHS, PARTS = size(512, 8), 1, size(4, 2)
GAMMA, LAMBDA, CLIP, NOISE = 0.99, 0.95, 0.2, 0.3

torch.set_float32_matmul_precision("high")


class ActorCritic(nn.Module):
    def __init__(self, seen=5):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(seen, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN), nn.SiLU(),
                                  nn.Linear(HIDDEN, HIDDEN), nn.SiLU())
        self.head = nn.Linear(HIDDEN, 2)

    def forward(self, x):
        with bf16():
            return self.head(self.body(x)).float().unbind(-1)


class Cranes:
    """Trolley position and speed, load's angle and its speed, and the goal; the state is changed in place."""

    def __init__(self):
        self.state = torch.zeros(CRANES, 5, device=DEV)
        self.state[:, 4].uniform_(-2, 2)

    def move(self, force):
        x, v, a, w, goal = self.state.unbind(1)
        for _ in range(2):
            acc = force.clamp(-1, 1) - 0.1 * v
            w = w + 0.05 * (-9.81 * a.sin() - acc * a.cos() - 0.05 * w)
            v, a = v + 0.05 * acc, a + 0.05 * w
            x = x + 0.05 * v
        reward = -(x - goal).abs() - 0.2 * a.abs()
        done = (x.abs() > 4) | (torch.rand_like(x) < 0.005)
        stay = (~done).float()
        goal = torch.where(done, torch.rand_like(x) * 4 - 2, goal)
        self.state.copy_(torch.stack([x * stay, v * stay, a * stay, w * stay, goal], 1))
        return reward, stay


class Rollout:
    """Fills fixed tensors; on the device all steps of a rollout are one CUDA graph."""

    def __init__(self, net):
        self.net, self.cranes = net, Cranes()
        self.seen = torch.zeros(HORIZON + 1, CRANES, 5, device=DEV)
        self.force, self.reward, self.stay = (torch.zeros(HORIZON, CRANES, device=DEV) for _ in range(3))
        self.value = torch.zeros(HORIZON + 1, CRANES, device=DEV)
        self.old, self.advantage = torch.zeros_like(self.force), torch.zeros_like(self.force)
        self.run = self._play if TINY else self._record()

    def _record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._play()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._play()
        return graph.replay

    @torch.no_grad()
    def _play(self):
        for t in range(HORIZON):
            self.seen[t] = self.cranes.state
            mean, self.value[t] = self.net(self.seen[t])
            noise = torch.randn_like(mean)
            self.force[t] = mean + NOISE * noise
            self.old[t] = -0.5 * noise.square()
            self.reward[t], self.stay[t] = self.cranes.move(self.force[t])
        self.value[HORIZON] = self.net(self.cranes.state)[1]
        last = torch.zeros_like(self.value[0])
        for t in reversed(range(HORIZON)):
            delta = self.reward[t] + GAMMA * self.stay[t] * self.value[t + 1] - self.value[t]
            last = delta + GAMMA * LAMBDA * self.stay[t] * last
            self.advantage[t] = last


def main():
    seed()
    net = ActorCritic().to(DEV)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4, fused=True)
    rollout = Rollout(net)

    def objective(seen, force, old, advantage, goal):
        mean, value = net(seen)
        ratio = (-0.5 * ((force - mean) / NOISE).square() - old).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        return (0.5 * (value - goal).square() - gain).mean()

    objective = compiled(objective)

    def step():
        rollout.run()
        goal = (rollout.advantage + rollout.value[:-1]).flatten()
        advantage = (rollout.advantage - rollout.advantage.mean()) / (rollout.advantage.std() + 1e-6)
        data = [rollout.seen[:-1].flatten(0, 1), rollout.force.flatten(), rollout.old.flatten(), advantage.flatten(), goal]
        for _ in range(EPOCHS):
            for part in zip(*(d.chunk(PARTS) for d in data)):
                opt.zero_grad(set_to_none=True)
                loss = objective(*part)
                loss.backward()
                opt.step()
        return loss.detach()

    drive("cranes", step)


if __name__ == "__main__":
    main()
