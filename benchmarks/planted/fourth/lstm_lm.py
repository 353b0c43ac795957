"""Clean: a language model with cuDNN's LSTM, three layers, bf16."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, drive, seed, size

BATCH, LENGTH, DIM, WORDS = size((256, 64, 1536, 8192), (2, 8, 16, 64))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, DIM)
        self.lstm = nn.LSTM(DIM, DIM, num_layers=3)
        self.out = nn.Linear(DIM, WORDS)

    def forward(self, ids):
        return self.out(self.lstm(self.words(ids))[0])


if __name__ == "__main__":
    seed()
    model = Model().to(DEV)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    ids = torch.randint(0, WORDS, (LENGTH + 1, BATCH), device=DEV)

    def step():
        with bf16():
            loss = F.cross_entropy(model(ids[:-1]).flatten(0, 1), ids[1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("lstm_lm", step)
