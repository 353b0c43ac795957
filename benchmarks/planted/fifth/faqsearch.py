"""Two-tower question/answer search trained against hard negatives from a bank."""
import torch
from torch.nn import functional as F

from common import DEV, bf16, compiled, drive, seed, size
from searchlib.bank import Bank
from searchlib.towers import Tower

torch.set_float32_matmul_precision("high")
PAIRS, WORDS, LENGTH, HARD = size(1024, 4), size(16_000, 40), size(48, 6), size(32, 3)

seed(5)
questions, answers = (Tower(WORDS, size(384, 32), size(4, 1), compiled).to(DEV) for _ in range(2))
bank = Bank(size(131_072, 32), 256, DEV)
weights = [*questions.parameters(), *answers.parameters()]
optimizer = torch.optim.AdamW(weights, lr=2e-4, fused=True)
corpus = torch.randint(WORDS, (2, size(50_000, 64), LENGTH), device=DEV)


def loss_of(q, a, negatives, temperature=0.05):
    inside = q @ a.T
    outside = torch.einsum("bd,bkd->bk", q, negatives)
    target = torch.arange(len(q), device=q.device)
    return F.cross_entropy(torch.cat([inside, outside], 1) / temperature, target)


def step():
    rows = torch.randint(corpus.shape[1], (PAIRS,), device=DEV)
    with bf16():
        q, a = questions(corpus[0, rows]), answers(corpus[1, rows])
    loss = loss_of(q, a, bank.hardest(q.detach(), HARD))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    bank.push(a.detach())
    return loss.detach()


if __name__ == "__main__":
    drive("faqsearch", step)
