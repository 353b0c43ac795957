from torch.nn import functional as F

from common import bf16


class Engine:
    """Accumulates gradients over micro-batches, then one step of the optimizer."""

    def __init__(self, model, opt, micro):
        self.model, self.opt, self.micro = model, opt, micro

    def part(self, x, y, share):
        with bf16():
            loss = F.cross_entropy(self.model(x), y) * share
        loss.backward()
        return loss.detach()

    def step(self, x, y):
        total = 0
        for xs, ys in zip(x.split(self.micro), y.split(self.micro)):
            total = total + self.part(xs, ys, len(xs) / len(x))
        self.opt.step()
        self.opt.zero_grad()
        return total
