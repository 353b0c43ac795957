"""Trains a speaker classifier on four-second utterances."""
import torch
from torch.nn import functional as F

from common import DEV, FIX, bf16, drive, pinned, seed, size
from speech.encoder import SpeakerNet
from speech.features import LogMel

BATCH, SAMPLES, SPEAKERS = size(96, 2), size(64000, 4000), size(5994, 20)


def utterances():
    """Yields pinned batches, for ever, out of a small pool of recordings."""
    pool = [(pinned(torch.randn(BATCH, SAMPLES) * 0.1), pinned(torch.randint(SPEAKERS, (BATCH,))))
            for _ in range(size(8, 2))]
    while True:
        yield from pool


seed(1)
features = LogMel(keep=FIX)
model = SpeakerNet(80, size(512, 64), size(8, 1), SPEAKERS).to(DEV)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
batches = utterances()


def step():
    wave, who = (t.to(DEV, non_blocking=True) for t in next(batches))
    mel = features(wave)
    with bf16():
        loss = F.cross_entropy(model(mel - mel.mean(-1, keepdim=True)), who)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


if __name__ == "__main__":
    drive("speaker_id", step)
