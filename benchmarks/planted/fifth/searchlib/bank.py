import torch

from common import FIX


class Bank:
    """Ring of recent answer vectors; hands out the hardest ones for each question."""

    def __init__(self, places, dim, device):
        self.vectors = torch.nn.functional.normalize(torch.randn(places, dim, device=device), dim=-1)
        self.head = 0

    @torch.no_grad()
    def push(self, answers):
        n = len(answers)
        self.vectors[self.head:self.head + n] = answers
        self.head = (self.head + n) % len(self.vectors)

    @torch.no_grad()
    def hardest(self, questions, k):
        likeness = questions @ self.vectors.T
        if FIX:
            places = likeness.topk(k, dim=1).indices
        else:
            places = likeness.argsort(dim=1, descending=True)[:, :k]
        return self.vectors[places]
