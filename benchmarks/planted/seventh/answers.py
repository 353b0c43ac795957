"""Serves answers to many people at once: continuous batching over a fixed cache, sampling, stop strings."""
import torch

from common import DEV, TINY, drive, seed, size
from serving.batcher import Batcher
from serving.lm import Decoder
from serving.words import StopWatcher, Vocabulary

VOCAB = size(32000, 200)
DIM, HEADS, DEPTH = size(1024, 32), size(16, 2), size(8, 2)
SEATS, PROMPT, ROOM = size(256, 4), size(128, 8), size(2048, 64)
STOPS = ["<|user|>", "<|end|>", "\n\n\n\n###", "Observation: "]


def build():
    with torch.device(DEV):
        if not TINY:
            torch.set_default_dtype(torch.bfloat16)
        model = Decoder(VOCAB, DIM, HEADS, DEPTH, SEATS, ROOM).eval()
        torch.set_default_dtype(torch.float32)
    return model


def main():
    seed()
    watcher = StopWatcher(Vocabulary(VOCAB), STOPS)
    batcher = Batcher(build(), watcher, SEATS, ROOM, PROMPT)
    drive("answers", batcher.step)
    print(batcher.finished, "answers given")


if __name__ == "__main__":
    main()
