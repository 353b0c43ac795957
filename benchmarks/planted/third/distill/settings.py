"""Settings of a run, and what they switch in the process."""
from dataclasses import dataclass

import torch

from common import FIX, size


@dataclass
class Settings:
    batch: int = size(192, 2)
    side: int = size(224, 32)
    classes: int = size(1000, 5)
    temperature: float = 3.0
    weight: float = 0.7
    lr: float = 3e-4
    teacher: tuple = size((768, 12, 12), (16, 2, 2))
    student: tuple = size((384, 3, 6), (16, 1, 2))
    debug: bool = not FIX


def prepare(settings):
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.autograd.set_detect_anomaly(settings.debug)
