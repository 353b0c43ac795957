"""Street-scene segmentation with a running mean intersection over union."""
import torch
from torch.nn import functional as F

from citylib.net import SegNet
from citylib.score import Score
from common import DEV, bf16, drive, seed, size

FRAMES, HIGH, WIDE, KINDS, UNMARKED = size(4, 2), size(512, 16), size(1024, 32), 19, 255


class Street:
    """Frames whose kinds follow from their colours, kept on the device in bytes."""

    def __init__(self, count):
        self.frames = torch.randint(256, (count, 3, HIGH, WIDE), device=DEV, dtype=torch.uint8)
        self.kinds = (self.frames.sum(1) // 3) % KINDS
        self.kinds[self.frames[:, 0] < 12] = UNMARKED

    def draw(self, n):
        rows = torch.randint(len(self.frames), (n,), device=DEV)
        frames = self.frames[rows].float().div_(255).sub_(0.5)
        return frames.to(memory_format=torch.channels_last), self.kinds[rows]


seed(26)
street, score = Street(size(64, 4)), Score(KINDS, UNMARKED, DEV)
model = SegNet(KINDS, size(64, 8), size(3, 2)).to(DEV, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, fused=True)


def step():
    frames, kinds = street.draw(FRAMES)
    with bf16():
        logits = model(frames)
        loss = F.cross_entropy(logits, kinds, ignore_index=UNMARKED)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    score.add(logits.detach().argmax(1), kinds)
    return score.mean()


if __name__ == "__main__":
    drive("cityscene", step)
