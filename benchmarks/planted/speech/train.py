"""Training of a speech recogniser with CTC."""
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import DEV, bf16, drive, seed, size  # noqa: E402
from data import MELS, VOCAB, batches  # noqa: E402
from model import Acoustic  # noqa: E402

D, BLOCKS, WIDTH = size((512, 8, 5), (16, 2, 3))


def train_step(model, opt, batch):
    features, frames, words, word_counts = batch
    features = features.to(DEV, non_blocking=True)
    words = words.to(DEV, non_blocking=True)
    with bf16():
        log_probs, lengths = model(features, frames)
    loss = F.ctc_loss(log_probs, words, lengths, word_counts, zero_infinity=True)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    seed()
    model = Acoustic(MELS, D, BLOCKS, WIDTH, VOCAB).to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    source = batches()
    drive("speech", lambda: train_step(model, opt, next(source)))


if __name__ == "__main__":
    main()
