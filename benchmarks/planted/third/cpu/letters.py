"""A language model on letters with nn.LSTM, trained on the CPU."""
import torch
import torch.nn.functional as F
from torch import nn

from common import drive, seed, size

BATCH, LENGTH, LETTERS, WIDTH, LAYERS = size((16, 64, 96, 256, 2), (2, 6, 10, 8, 1))


class Letters(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.out = nn.Linear(WIDTH, LETTERS)

    def forward(self, x):
        return self.out(self.lstm(self.letters(x))[0])


class Text:
    def __init__(self, count=size(1_000_000, 200)):
        self.letters = torch.randint(LETTERS, (count,))
        self.span = torch.arange(LENGTH + 1)

    def batch(self):
        starts = torch.randint(len(self.letters) - LENGTH - 1, (BATCH, 1))
        rows = self.letters[starts + self.span]
        return rows[:, :-1], rows[:, 1:]


def main():
    seed()
    text, model = Text(), Letters()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step():
        x, y = text.batch()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    drive("cpu/letters", step)


if __name__ == "__main__":
    main()
