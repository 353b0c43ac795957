"""Actor and critic with a common trunk."""
import torch
from torch import nn
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self, obs, actions, hidden):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.policy = nn.Linear(hidden, actions)
        self.critic = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return self.policy(h), self.critic(h).squeeze(-1)


def a2c_loss(logits, value, action, advantage, target, entropy_weight=0.01):
    dist = Categorical(logits=logits, validate_args=False)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy_loss = -(dist.log_prob(action) * advantage).mean()
    value_loss = (value - target).square().mean()
    return policy_loss + 0.5 * value_loss - entropy_weight * dist.entropy().mean()


class Rollouts:
    """Stands for a simulator on the GPU: a ring of recorded rollouts."""

    def __init__(self, steps, envs, obs, actions, device, count=3):
        self.items, self.i = [], 0
        for _ in range(count):
            self.items.append((
                torch.randn(steps + 1, envs, obs, device=device),
                torch.randint(actions, (steps, envs), device=device),
                torch.randn(steps, envs, device=device),
                (torch.rand(steps, envs, device=device) < 0.01).float(),
            ))

    def next(self):
        self.i += 1
        return self.items[self.i % len(self.items)]
