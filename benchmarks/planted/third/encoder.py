"""Masked language model, compiled, data on the device."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, bf16, compiled, drive, seed, size
from layers import Block

BATCH, LENGTH, WORDS, MASKED = size((64, 512, 30528, 76), (2, 8, 30, 2))
WIDTH, DEPTH, HEADS = size((768, 6, 12), (16, 2, 2))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(DEPTH)))
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words, places, wanted):
        """Only the masked places, as many in each row, come to the output layer."""
        x = self.blocks(self.words(words) + self.position)
        x = x.gather(1, places[..., None].expand(-1, -1, WIDTH))
        return F.cross_entropy(self.out(self.norm(x)).flatten(0, 1).float(), wanted.flatten())


class Corpus:
    def __init__(self, rows=size(100_000, 8)):
        self.rows = torch.randint(3, WORDS, (rows, LENGTH), device=DEV, dtype=torch.int32)

    def batch(self):
        words = self.rows[torch.randint(len(self.rows), (BATCH,), device=DEV)].long()
        places = torch.rand(words.shape, device=DEV).topk(MASKED, -1).indices
        return words.scatter(1, places, 2), places, words.gather(1, places)


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    corpus, model = Corpus(), Encoder().to(DEV)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loss_of = compiled(model)

    def step():
        with bf16():
            loss = loss_of(*corpus.batch())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("encoder", step)


if __name__ == "__main__":
    main()
