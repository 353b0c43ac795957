class Warmup:
    def __init__(self, optimizer, steps, top):
        self.optimizer, self.steps, self.top = optimizer, steps, top

    def after_step(self, number, loss):
        for group in self.optimizer.param_groups:
            group["lr"] = self.top * min(1.0, (number + 1) / self.steps)
