"""Distils a large vision transformer into a small one."""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DEV, bf16, drive
from settings import Settings, prepare
from vit import ViT


def batches(settings, count=3):
    """Images lie on the device."""
    ring = [(torch.randn(settings.batch, 3, settings.side, settings.side, device=DEV),
             torch.randint(settings.classes, (settings.batch,), device=DEV)) for _ in range(count)]
    while True:
        yield from ring


class Distiller:
    def __init__(self, settings):
        self.settings = settings
        self.teacher = ViT(*settings.teacher, settings.side, settings.classes).to(DEV, torch.bfloat16)
        self.teacher.eval().requires_grad_(False)
        self.student = ViT(*settings.student, settings.side, settings.classes).to(DEV)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=settings.lr, fused=True)

    @torch.no_grad()
    def targets(self, images):
        return (self.teacher(images.bfloat16()).float() / self.settings.temperature).softmax(-1)

    def loss(self, images, labels):
        soft = self.targets(images)
        with bf16():
            logits = self.student(images)
        logits, t = logits.float(), self.settings.temperature
        distance = F.kl_div((logits / t).log_softmax(-1), soft, reduction="batchmean") * t * t
        return self.settings.weight * distance + (1 - self.settings.weight) * F.cross_entropy(logits, labels)

    def step(self, images, labels):
        loss = self.loss(images, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    settings = Settings()
    prepare(settings)
    distiller, source = Distiller(settings), batches(settings)
    drive("distill", lambda: distiller.step(*next(source)))


if __name__ == "__main__":
    main()
