"""Clean: leading subspace of a large bf16 matrix by block iteration, replayed as a CUDA graph."""
import torch

from common import DEV, TINY, drive, seed, size

N, K = size((16384, 8192), (64, 8))


class Subspace:
    def __init__(self):
        self.a = torch.randn(N, N, device=DEV, dtype=torch.bfloat16)
        self.q = torch.randn(N, K, device=DEV, dtype=torch.bfloat16)
        self.graph = None

    def iterate(self):
        y = self.a.t() @ (self.a @ self.q)
        self.q.copy_(y / y.norm(dim=0, keepdim=True))
        return self.q

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.iterate()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.iterate()

    def step(self):
        if TINY:
            return self.iterate()
        self.graph.replay()
        return self.q


if __name__ == "__main__":
    seed()
    subspace = Subspace()
    if not TINY:
        subspace.capture()
    drive("power_iter", subspace.step)
