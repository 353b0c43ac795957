"""Recorded experience on the device, in minibatches."""
import torch

from common import DEV


class Experience:
    def __init__(self, count, obs, choices):
        self.obs = torch.randn(count, obs, device=DEV)
        self.actions = torch.stack([torch.randint(n, (count,), device=DEV) for n in choices])
        self.log_prob = torch.full((count,), -1.5 * len(choices), device=DEV)
        self.advantage = torch.randn(count, device=DEV)
        self.returns = torch.randn(count, device=DEV)

    def minibatches(self, batch):
        while True:
            order = torch.randperm(self.obs.size(0), device=DEV)
            for pick in order.split(batch):
                yield (self.obs[pick], self.actions[:, pick], self.log_prob[pick],
                       self.advantage[pick], self.returns[pick])
