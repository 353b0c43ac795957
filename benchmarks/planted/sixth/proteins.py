"""Masked-residue pre-training of a protein language model."""
import torch
from torch.nn import functional as F

from common import DEV, bf16, drive, seed, size
from proteinlib.model import ProteinModel

CHAINS, LENGTH, RESIDUES = size(12, 2), size(1024, 16), 33
MASK = RESIDUES - 1

seed(24)
model = ProteinModel(RESIDUES, size(1024, 32), heads=size(16, 2), stages=size(3, 2), per_stage=size(4, 2)).to(DEV)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
library = torch.randint(RESIDUES - 1, (size(20_000, 20), LENGTH), device=DEV, dtype=torch.uint8)


def masked(rows):
    chain = library[rows].long()
    hidden = torch.rand(chain.shape, device=DEV) < 0.15
    return chain.masked_fill(hidden, MASK), chain, hidden


def step():
    shown, chain, hidden = masked(torch.randint(len(library), (CHAINS,), device=DEV))
    with bf16():
        logits = model(shown)
    each = F.cross_entropy(logits.float().flatten(0, 1), chain.flatten(), reduction="none")
    loss = (each * hidden.flatten()).sum() / hidden.sum()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("proteins", step)
