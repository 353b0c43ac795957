"""A convolutional classifier on images that lie on the device, compiled, channels last."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, bf16, compiled, drive, seed, size

IMAGES, BATCH, SIDE, CLASSES = size((40_000, 1024, 64, 200), (8, 2, 16, 5))
WIDTHS, DEPTHS = size(((128, 256, 512), (2, 2, 2)), ((4, 4, 4), (1, 1, 1)))


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                                  nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
        self.skip = nn.Identity() if a == b and stride == 1 else nn.Conv2d(a, b, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTHS[0], 4, 4)
        blocks, a = [], WIDTHS[0]
        for i, (b, depth) in enumerate(zip(WIDTHS, DEPTHS)):
            for j in range(depth):
                blocks.append(Residual(a, b, 2 if i and not j else 1))
                a = b
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(a, CLASSES)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Images:
    def __init__(self):
        self.images = torch.randint(256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8, device=DEV)
        self.images = self.images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(CLASSES, (IMAGES,), device=DEV)

    def batch(self):
        rows = torch.randint(IMAGES, (BATCH,), device=DEV)
        images = self.images[rows].to(torch.bfloat16).div_(127.5).sub_(1)
        images = torch.where(torch.rand(BATCH, 1, 1, 1, device=DEV) < 0.5, images, images.flip(-1))
        return images.contiguous(memory_format=torch.channels_last), self.labels[rows]


def main():
    seed()
    images = Images()
    model = Net().to(DEV, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    forward = compiled(model)

    def step():
        x, y = images.batch()
        with bf16():
            loss = F.cross_entropy(forward(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("convs", step)


if __name__ == "__main__":
    main()
