"""Land cover from four-band satellite tiles, a class for each pixel."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, drive, seed, size
from segm.backbone import Backbone
from segm.heads import FusionNeck, PixelHead

BATCH = size(16, 2)
SIDE = size(512, 32)
CLASSES = size(12, 4)
WIDTHS = size((128, 256, 512, 512), (8, 8, 16, 16))
BLOCKS = size((2, 3, 4, 2), (1, 1, 1, 1))
NECK = size(192, 8)


class LandCover(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone(WIDTHS, BLOCKS)
        self.neck = FusionNeck(WIDTHS, NECK)
        self.head = PixelHead(NECK, CLASSES)

    def forward(self, tiles):
        return self.head(self.neck(self.backbone(tiles)))


class Tiles:
    """Tiles and labels that lie on the device."""

    def __init__(self, n):
        self.x = [torch.randn(BATCH, 4, SIDE, SIDE, device=DEV).to(memory_format=torch.channels_last) for _ in range(n)]
        self.y = [torch.randint(0, CLASSES, (BATCH, SIDE, SIDE), device=DEV) for _ in range(n)]
        self.at = 0

    def next(self):
        i = self.at % len(self.x)
        self.at += 1
        return self.x[i], self.y[i]


def main():
    seed()
    model = LandCover().to(DEV, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    tiles = Tiles(4)

    def step():
        x, y = tiles.next()
        with bf16():
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("landcover", step)


if __name__ == "__main__":
    main()
