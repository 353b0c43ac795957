"""Moving averages of a model's weights."""
import copy

import torch

from common import FIX


class Average:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        if FIX:
            torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1 - self.decay)
            return
        source = model.state_dict()
        for name, value in self.model.state_dict().items():
            value.copy_(value * self.decay + source[name].detach() * (1 - self.decay))


class Averages:
    """Several decays; which is best is seen when sampling."""
    def __init__(self, model, decays=(0.999, 0.9999)):
        self.members = [Average(model, decay) for decay in decays]

    def update(self, model):
        for member in self.members:
            member.update(model)
