"""Verifies handwritten signatures: a genuine one lies near its model, forgeries lie apart."""
import torch

from common import DEV, TINY, drive, seed, size
from signlib.loss import quintet_loss
from signlib.mixer import Mixer

WRITERS, HIGH, WIDE, PATCH, FORGED = size(160, 3), size(128, 32), size(256, 32), 16, 3


class Folder:
    """Scans of each writer: first the model, then a genuine one, then forgeries."""

    def __init__(self, writers):
        self.scans = torch.randint(256, (writers, 2 + FORGED, HIGH, WIDE), device=DEV, dtype=torch.uint8)

    def draw(self, n):
        rows = torch.randint(len(self.scans), (n,), device=DEV)
        scans = self.scans[rows].float().div_(255)
        return scans[:, 0], scans[:, 1], [scans[:, 2 + i] for i in range(FORGED)]


seed(27)
folder = Folder(size(4000, 12))
encoder = Mixer(HIGH, WIDE, PATCH, size(512, 24), size(8, 2)).to(DEV)
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-4, weight_decay=0.05, fused=True)


def step():
    model, genuine, forged = folder.draw(WRITERS)
    with torch.autocast(DEV, torch.bfloat16, enabled=not TINY):
        loss = quintet_loss(encoder, model, genuine, forged)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("signatures", step)
