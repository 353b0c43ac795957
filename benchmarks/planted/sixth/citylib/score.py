import numpy as np
import torch

from common import FIX


class Score:
    """Confusion counts (truth by guess) with slow forgetting, and the mean IoU from them."""

    def __init__(self, kinds, unmarked, device, keep=0.99):
        self.kinds, self.unmarked, self.keep = kinds, unmarked, keep
        self.counts = torch.zeros(kinds, kinds, device=device) if FIX else np.zeros((kinds, kinds), np.float32)

    def add(self, guess, truth):
        if FIX:
            cell = torch.where(truth == self.unmarked, -1, truth * self.kinds + guess).flatten().float()
            new = torch.histc(cell, self.kinds ** 2, -0.5, self.kinds ** 2 - 0.5)
        else:
            truth, guess = truth.cpu().numpy(), guess.cpu().numpy()
            marked = truth != self.unmarked
            new = np.bincount(truth[marked] * self.kinds + guess[marked], minlength=self.kinds ** 2).astype(np.float32)
        self.counts = self.keep * self.counts + new.reshape(self.kinds, self.kinds)

    def mean(self):
        right = self.counts.diagonal()
        whole = self.counts.sum(0) + self.counts.sum(1) - right
        return torch.as_tensor((right / (whole + 1e-6)).mean())
