"""Answers many chats at once by self-speculative decoding; one step is one round of proposals and their check."""
import torch

from common import DEV, TINY, drive, seed, size
from serving.lm import Decoder
from serving.speculative import SelfSpeculative

VOCAB = size(32000, 64)
DIM, HEADS, DEPTH = size(2048, 32), size(16, 2), size(20, 3)
ROWS, PROMPT, ROOM = size(32, 3), size(512, 8), size(2048, 40)
EARLY, PROPOSALS = size(4, 1), 4


class Meter:
    """Accepted proposals per round, kept on the device."""

    def __init__(self):
        self.sum, self.rounds = torch.zeros((), device=DEV), 0

    def add(self, agreed):
        self.sum += agreed.float().mean()
        self.rounds += 1

    def __str__(self):
        return f"{float(self.sum) / max(1, self.rounds):.2f} of {PROPOSALS} proposals hold"


def main():
    seed()
    with torch.device(DEV):
        if not TINY:
            torch.set_default_dtype(torch.bfloat16)
        model = Decoder(VOCAB, DIM, HEADS, DEPTH, ROWS, ROOM).eval()
        torch.set_default_dtype(torch.float32)
    decoder = SelfSpeculative(model, EARLY, PROPOSALS, PROMPT, ROOM)
    meter = Meter()

    def step():
        agreed = decoder.round()
        meter.add(agreed)
        return agreed

    drive("quickchat", step)
    print(meter)


if __name__ == "__main__":
    main()
