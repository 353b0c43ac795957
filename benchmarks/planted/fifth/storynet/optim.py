import torch


class HostAdamW:
    """AdamW whose master weights and moments live in pinned host memory."""

    def __init__(self, params, **settings):
        self.params = list(params)
        pin = self.params[0].is_cuda
        self.masters = [torch.empty(p.shape, pin_memory=pin).copy_(p.detach()) for p in self.params]
        for m in self.masters:
            m.grad = torch.empty(m.shape, pin_memory=pin)
        self.inner = torch.optim.AdamW(self.masters, fused=True, **settings)
        self.wait = torch.cuda.current_stream().synchronize if pin else lambda: None

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.params, self.masters):
            m.grad.copy_(p.grad, non_blocking=True)
        self.wait()
        self.inner.step()
        for p, m in zip(self.params, self.masters):
            p.copy_(m, non_blocking=True)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


def make_optimizer(params, host, **settings):
    if host:
        return HostAdamW(params, **settings)
    return torch.optim.AdamW(params, fused=True, **settings)
