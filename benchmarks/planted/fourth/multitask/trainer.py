from common import FIX, bf16


class MultiTaskTrainer:
    def __init__(self, model, opt, criteria, weighting):
        self.model = model
        self.opt = opt
        self.criteria = criteria
        self.weighting = weighting

    def losses(self, batch):
        with bf16():
            out = self.model(batch["patches"])
        return {name: f(out[name], batch[name]) for name, f in self.criteria.items()}

    def backward(self, losses, weights):
        if FIX:
            sum(weights[name] * loss for name, loss in losses.items()).backward()
            return
        for name, loss in losses.items():
            (weights[name] * loss).backward(retain_graph=True)

    def step(self, batch):
        losses = self.losses(batch)
        self.backward(losses, self.weighting(losses))
        self.opt.step()
        self.opt.zero_grad()
        return sum(loss.detach() for loss in losses.values())
