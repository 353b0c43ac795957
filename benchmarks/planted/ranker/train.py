"""Click prediction with one large table of categories."""
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import DEV, drive, seed, size  # noqa: E402
from data import Clicks  # noqa: E402
from model import Ranker  # noqa: E402

BATCH, SLOTS, PER_BAG = size((8192, 26, 5), (8, 4, 3))
ROWS, WIDTH, NUMBERS, HIDDEN = size((10_000_000, 64, 13, 1024), (500, 8, 5, 16))


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    torch.sparse.check_sparse_tensor_invariants.disable()
    model = Ranker(ROWS, WIDTH, SLOTS, NUMBERS, HIDDEN).to(DEV)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.01)
    clicks = Clicks(BATCH, SLOTS, PER_BAG, ROWS, NUMBERS)

    def step():
        ids, numbers, label = clicks.next()
        loss = F.binary_cross_entropy_with_logits(model(ids, numbers), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("ranker", step)


if __name__ == "__main__":
    main()
