"""Generator of sound from mel spectra, and discriminators at three scales."""
import torch.nn.functional as F
from torch import nn

from common import size

MELS, WIDTH = size((80, 512), (4, 16))
UP = size((8, 8, 4), (4, 4))
KERNELS, DILATIONS = size(((3, 7), (1, 3)), ((3,), (1,)))


def same(channels, kernel, dilation):
    return nn.Conv1d(channels, channels, kernel, padding=dilation * (kernel - 1) // 2, dilation=dilation)


class ResBlock(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.convs = nn.ModuleList(same(channels, kernel, d) for d in DILATIONS)

    def forward(self, x):
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return x


class Stage(nn.Module):
    def __init__(self, channels, up):
        super().__init__()
        self.up = nn.ConvTranspose1d(channels, channels // 2, 2 * up, up, up // 2)
        self.blocks = nn.ModuleList(ResBlock(channels // 2, k) for k in KERNELS)

    def forward(self, x):
        x = self.up(F.leaky_relu(x, 0.1))
        return sum(block(x) for block in self.blocks) / len(self.blocks)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Conv1d(MELS, WIDTH, 7, padding=3)
        self.stages = nn.Sequential(*(Stage(WIDTH >> i, up) for i, up in enumerate(UP)))
        self.leave = nn.Conv1d(WIDTH >> len(UP), 1, 7, padding=3)

    def forward(self, mel):
        return self.leave(F.leaky_relu(self.stages(self.enter(mel)))).tanh()


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(1, width, 15, 4, 7), nn.Conv1d(width, 2 * width, 21, 4, 10),
                                    nn.Conv1d(2 * width, 4 * width, 21, 4, 10)])
        self.out = nn.Conv1d(4 * width, 1, 3, padding=1)

    def forward(self, x):
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
        return self.out(x)


class Discriminator(nn.Module):
    def __init__(self, width=size(32, 4)):
        super().__init__()
        self.scales = nn.ModuleList(Scale(width) for _ in range(3))

    def forward(self, x):
        return [scale(F.avg_pool1d(x, 2**i) if i else x) for i, scale in enumerate(self.scales)]
