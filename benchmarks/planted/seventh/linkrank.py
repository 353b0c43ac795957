"""Filtered ranking of a knowledge graph's completed links: mean reciprocal rank and hits at 1, 3 and 10."""
import torch
from torch import nn

from common import DEV, FIX, drive, seed, size

ENTITIES = size(150_000, 300)
RELATIONS = size(500, 10)
RANK = size(200, 8)
BATCH = size(256, 8)
KNOWN = size(12, 3)

torch.set_float32_matmul_precision("high")


class ComplEx(nn.Module):
    """Scores of (head, relation, tail) with complex vectors, held as [real, imaginary]."""

    def __init__(self):
        super().__init__()
        self.entity = nn.Embedding(ENTITIES, 2 * RANK)
        self.relation = nn.Embedding(RELATIONS, 2 * RANK)

    @staticmethod
    def _times(a, b, conjugate=False):
        (ar, ai), (br, bi) = a.chunk(2, -1), b.chunk(2, -1)
        if conjugate:
            bi = -bi
        return torch.cat([ar * br - ai * bi, ar * bi + ai * br], -1)

    def tails(self, head, relation):
        return self._times(self.entity(head), self.relation(relation)) @ self.entity.weight.T

    def heads(self, tail, relation):
        return self._times(self.entity(tail), self.relation(relation), conjugate=True) @ self.entity.weight.T


class Ranking:
    """Collects ranks; everything stays on the device until `report`."""

    def __init__(self):
        self.reciprocal = torch.zeros((), device=DEV)
        self.hits = {k: torch.zeros((), device=DEV) for k in (1, 3, 10)}
        self.count = 0

    def add(self, ranks):
        self.reciprocal += (1.0 / ranks).sum()
        for k in self.hits:
            self.hits[k] += (ranks <= k).sum()
        self.count += len(ranks)

    def report(self):
        return float(self.reciprocal) / self.count, {k: float(v) / self.count for k, v in self.hits.items()}


def without_known(scores, gold, known):
    """Other true answers may not push the wanted one down."""
    own = scores.gather(1, gold[:, None])
    return scores.scatter(1, known, float("-inf")).scatter(1, gold[:, None], own)


def rank_of(scores, gold):
    if FIX:
        return (scores > scores.gather(1, gold[:, None])).sum(1) + 1
    order = scores.argsort(dim=1, descending=True)
    return (order == gold[:, None]).int().argmax(1) + 1


class Evaluation:
    def __init__(self, model):
        self.model, self.ranking = model, Ranking()

    @torch.inference_mode()
    def batch(self, triples, known_tails, known_heads):
        head, relation, tail = triples.unbind(1)
        seen = []
        for scores, gold, known in ((self.model.tails(head, relation), tail, known_tails),
                                    (self.model.heads(tail, relation), head, known_heads)):
            ranks = rank_of(without_known(scores, gold, known), gold)
            self.ranking.add(ranks)
            seen.append(ranks)
        return torch.cat(seen)


def main():
    seed()
    with torch.device(DEV):
        model = ComplEx().eval()
    n = 20
    ends = torch.randint(0, ENTITIES, (n, BATCH, 2), device=DEV)
    kinds = torch.randint(0, RELATIONS, (n, BATCH, 1), device=DEV)
    triples = torch.cat([ends[..., :1], kinds, ends[..., 1:]], -1)
    known = torch.randint(0, ENTITIES, (n, 2, BATCH, KNOWN), device=DEV)
    evaluation = Evaluation(model)
    turn = iter(range(10 ** 12))

    def step():
        i = next(turn) % n
        return evaluation.batch(triples[i], known[i, 0], known[i, 1])

    drive("linkrank", step)
    print("mrr %.5f, hits %s" % evaluation.ranking.report())


if __name__ == "__main__":
    main()
