"""Grading of tumours in magnetic resonance volumes (five channels)."""
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import DEV, bf16, drive, seed, size  # noqa: E402
from feeder import Feeder, Scans  # noqa: E402
from net import VolumeNet  # noqa: E402

BATCH, CHANNELS, SIDE, CLASSES = size((16, 5, 128, 4), (2, 2, 16, 3))
WIDTHS = size((128, 256, 384, 512), (4, 8, 8))


def main():
    seed()
    torch.backends.cudnn.benchmark = True
    model = VolumeNet(CHANNELS, WIDTHS, CLASSES).to(DEV, memory_format=torch.channels_last_3d)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    feeder = Feeder(Scans(BATCH, CHANNELS, SIDE, CLASSES))

    def step():
        volumes, grade = feeder.next()
        with bf16():
            loss = F.cross_entropy(model(volumes), grade)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("volumes", step)


if __name__ == "__main__":
    main()
