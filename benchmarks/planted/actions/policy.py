"""A policy that chooses the parts of an action one after another, each with a look at the former ones."""
import torch
from torch import nn
from torch.distributions import Categorical

from common import FIX

KWARGS = {"validate_args": False} if FIX else {}


class Policy(nn.Module):
    def __init__(self, obs, hidden, choices):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(hidden, n) for n in choices)
        self.chosen = nn.ModuleList(nn.Embedding(n, hidden) for n in choices)
        self.value = nn.Linear(hidden, 1)

    def evaluate(self, obs, actions):
        """Log probability and entropy of the whole action, and the value of the state."""
        h = self.trunk(obs)
        value = self.value(h).squeeze(1)
        log_prob, entropy = 0, 0
        for i, (head, chosen) in enumerate(zip(self.heads, self.chosen)):
            part = Categorical(logits=head(h), **KWARGS)
            log_prob = log_prob + part.log_prob(actions[i])
            entropy = entropy + part.entropy()
            h = h + chosen(actions[i])
        return log_prob, entropy, value
