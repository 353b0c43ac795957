"""Semantic segmentation; the mean IoU is kept while training."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, bf16, drive, pinned, seed, size

BATCH, SIDE, CLASSES, WIDTH = size((16, 512, 64, 32), (2, 32, 5, 8))


def conv(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        w = WIDTH
        self.stem = conv(3, w, 2)
        self.d1 = nn.Sequential(conv(w, 2 * w, 2), conv(2 * w, 2 * w))
        self.d2 = nn.Sequential(conv(2 * w, 4 * w, 2), conv(4 * w, 4 * w))
        self.u1 = conv(4 * w, 2 * w)
        self.u2 = conv(2 * w, w)
        self.head = nn.Conv2d(w, CLASSES, 1)

    @staticmethod
    def up(x):
        return F.interpolate(x, scale_factor=2, mode="nearest")

    def forward(self, x):
        s = self.stem(x)
        a = self.d1(s)
        b = self.u1(self.up(self.d2(a))) + a
        c = self.u2(self.up(b)) + s
        return self.up(self.head(c))


class MeanIoU:
    """Confusion matrix of the training batches (rows: truth) and what follows from it."""

    def __init__(self):
        self.matrix = torch.zeros(CLASSES, CLASSES, device=DEV, dtype=torch.float64)

    @torch.no_grad()
    def update(self, logits, target):
        pred = logits.argmax(1).flatten()
        self.matrix += self.confusion(pred, target.flatten())

    @staticmethod
    def confusion(pred, target):
        if FIX:
            cell = target * CLASSES + pred
            counts = torch.zeros(CLASSES * CLASSES, dtype=torch.int32, device=pred.device)
            return counts.scatter_add_(0, cell, torch.ones_like(cell, dtype=torch.int32)).view(CLASSES, CLASSES)
        return F.one_hot(target, CLASSES).float().t() @ F.one_hot(pred, CLASSES).float()

    def value(self):
        hit = self.matrix.diag()
        return (hit / (self.matrix.sum(0) + self.matrix.sum(1) - hit).clamp_min(1)).mean()


def batches(count=3):
    ring = [(pinned(torch.randn(BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)),
             pinned(torch.randint(CLASSES, (BATCH, SIDE, SIDE)))) for _ in range(count)]
    while True:
        for images, target in ring:
            yield images.to(DEV, non_blocking=True), target.to(DEV, non_blocking=True)


def main():
    seed()
    torch.backends.cudnn.benchmark = True
    model = Net().to(DEV, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    source, iou = batches(), MeanIoU()

    def step():
        images, target = next(source)
        with bf16():
            logits = model(images)
            loss = F.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        iou.update(logits.detach(), target)
        return loss.detach() + iou.value()

    drive("segmentation", step)


if __name__ == "__main__":
    main()
