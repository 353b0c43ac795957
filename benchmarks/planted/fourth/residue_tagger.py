"""Tags each residue of a protein with one of eight states of secondary structure."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, drive, seed, size
from tagger.layers import Encoder

BATCH = size(12, 2)
LENGTH = size(1024, 32)
DIM = size(768, 32)
DEPTH = size(8, 2)
HEADS = size(12, 2)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(25, LENGTH, DIM, HEADS, DEPTH)
        self.states = nn.Linear(DIM, 8)

    def forward(self, ids):
        return self.states(self.encoder(ids))


def make_data():
    ids = torch.randint(0, 25, (8, BATCH, LENGTH), device=DEV)
    return ids, ids % 8


class Training:
    def __init__(self):
        self.model = Tagger().to(DEV)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.ids, self.labels = make_data()
        self.at = 0

    def loss(self, ids, labels):
        with bf16():
            logits = self.model(ids)
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())

    def step(self):
        i = self.at % len(self.ids)
        self.at += 1
        loss = self.loss(self.ids[i], self.labels[i])
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        return loss.detach()


if __name__ == "__main__":
    seed()
    drive("residue_tagger", Training().step)
