"""Finds boats of eight kinds in aerial pictures with an anchor-free detector."""
import torch
from torch.nn import functional as F

from boatlib.assign import TaskAligned
from boatlib.net import Detector, places
from common import DEV, FIX, bf16, drive, seed, size

SIDE = size(640, 64)
BATCH = size(32, 2)
CLASSES = 8
MAX_OBJECTS = size(512, 48)
USUAL = size(20, 5)


def harbour(gen):
    """One picture's objects: corners and kinds."""
    n = int(torch.randint(3, USUAL, (), generator=gen))
    centre = torch.rand(n, 2, generator=gen) * SIDE
    extent = (torch.rand(n, 2, generator=gen) * 0.15 + 0.05) * SIDE
    corners = torch.cat([centre - extent / 2, centre + extent / 2], 1).clamp(0, SIDE)
    return corners, torch.randint(0, CLASSES, (n,), generator=gen)


def collate(items):
    room = max(len(kinds) for _, kinds in items) if FIX else MAX_OBJECTS
    corners = torch.zeros(len(items), room, 4)
    kinds = torch.zeros(len(items), room, dtype=torch.long)
    real = torch.zeros(len(items), room)
    for i, (box, kind) in enumerate(items):
        corners[i, : len(kind)], kinds[i, : len(kind)], real[i, : len(kind)] = box, kind, 1
    return corners, kinds, real


def box_loss(pred, goal):
    low, high = torch.maximum(pred[..., :2], goal[..., :2]), torch.minimum(pred[..., 2:], goal[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    both = (pred[..., 2:] - pred[..., :2]).prod(-1) + (goal[..., 2:] - goal[..., :2]).prod(-1) - shared
    outer = (torch.maximum(pred[..., 2:], goal[..., 2:]) - torch.minimum(pred[..., :2], goal[..., :2])).prod(-1)
    return 1 - shared / (both + 1e-7) + (outer - both) / (outer + 1e-7)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.assign = TaskAligned()
        self.opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=True)
        self.xy, self.stride = places(SIDE, model.strides, DEV)

    def step(self, pictures, corners, kinds, real):
        with bf16():
            scores, sides = self.model(pictures)
        sides = sides * self.stride[:, None]
        boxes = torch.cat([self.xy - sides[..., :2], self.xy + sides[..., 2:]], -1)
        owner, taken, quality = self.assign(scores, boxes, self.xy, corners, kinds, real)
        goal = corners.gather(1, owner[..., None].expand(-1, -1, 4))
        kind = F.one_hot(kinds.gather(1, owner), CLASSES) * (quality * taken)[..., None]
        count = taken.sum().clamp(min=1)
        loss = F.binary_cross_entropy_with_logits(scores, kind, reduction="sum") / count
        loss = loss + 2 * (box_loss(boxes, goal) * taken).sum() / count
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    seed()
    gen = torch.Generator().manual_seed(1)
    model = Detector(CLASSES, size(32, 8)).to(DEV, memory_format=torch.channels_last)
    trainer = Trainer(model)
    pictures = [torch.randn(BATCH, 3, SIDE, SIDE, device=DEV).contiguous(memory_format=torch.channels_last)
                for _ in range(4)]
    notes = [[t.to(DEV) for t in collate([harbour(gen) for _ in range(BATCH)])] for _ in range(4)]
    turn = iter(range(10 ** 12))

    def step():
        i = next(turn) % 4
        return trainer.step(pictures[i], *notes[i])

    drive("boats", step)


if __name__ == "__main__":
    main()
