"""A vocoder trained against discriminators."""
import math
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from adversary import Adversaries
from common import DEV, bf16, drive, seed, size
from nets import MELS, UP, Discriminator, Generator

BATCH, FRAMES, WINDOW = size((64, 64, 1024), (2, 16, 64))


def sounds(count=3):
    ring = [(torch.randn(BATCH, MELS, FRAMES, device=DEV),
             torch.randn(BATCH, 1, FRAMES * math.prod(UP), device=DEV).tanh()) for _ in range(count)]
    while True:
        yield from ring


def main():
    seed()
    adversaries = Adversaries(Generator().to(DEV), Discriminator().to(DEV))
    source = sounds()

    def step():
        mel, real = next(source)
        with bf16():
            fake = adversaries.generator(mel)
        adversaries.discriminate(real, fake)
        return adversaries.generate(real, fake, WINDOW)

    drive("vocoder", step)


if __name__ == "__main__":
    main()
