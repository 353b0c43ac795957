"""Analytic policy gradient for a pendulum: the rollout is differentiable, so the return is simply descended."""
import torch
from torch import nn

from common import DEV, TINY, drive, seed, size

ENVS, HORIZON, WIDTH, DT = size(2048, 16), size(160, 6), 64, 0.05


class Pendulum:
    """Torque-limited, vectorised; the state is angle and velocity."""

    def reset(self):
        angle = (torch.rand(ENVS, device=DEV) * 2 - 1) * 3.14159
        return angle, torch.randn(ENVS, device=DEV)

    def advance(self, angle, speed, push):
        speed = (speed + (14.7 * torch.sin(angle) + 3.0 * push) * DT).clamp(-8, 8)
        angle = angle + speed * DT
        cost = (1 - torch.cos(angle)) + 0.1 * speed.square() + 0.001 * push.square()
        return angle, speed, cost


class Learner:
    """One update is one CUDA graph: rollout, backward, Adam."""

    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(3, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(),
                                    nn.Linear(WIDTH, 1), nn.Tanh()).to(DEV)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-4, capturable=not TINY)
        self.world = Pendulum()
        self.loss = torch.zeros((), device=DEV)
        self.graph = None if TINY else self.capture()

    def update(self):
        angle, speed = self.world.reset()
        total = 0.0
        for _ in range(HORIZON):
            seen = torch.stack([angle.sin(), angle.cos(), speed / 8], 1)
            angle, speed, cost = self.world.advance(angle, speed, 2 * self.policy(seen).squeeze(1))
            total = total + cost.mean()
        loss = total / HORIZON
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.update()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.update()
        return graph

    def __call__(self):
        if self.graph is None:
            self.update()
        else:
            self.graph.replay()
        return self.loss


if __name__ == "__main__":
    seed(21)
    drive("swingup", Learner())
