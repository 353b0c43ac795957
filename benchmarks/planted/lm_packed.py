"""Language model on packed documents of many lengths, two loader workers."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from common import DEV, FIX, TINY, bf16, drive, seed, size

ROWS, T = size((64, 1024), (2, 64))
VOCAB, D, LAYERS = size((4096, 256, 4), (64, 16, 1))


class Documents(IterableDataset):
    """Endless documents; a group of them is enough to fill a batch."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rng = np.random.default_rng(info.id if info else 0)
        pool = [rng.integers(1, VOCAB, n).astype(np.int32) for n in rng.integers(T // 8, T, 400)]
        while True:
            group, have = [], 0
            while have < ROWS * T + 1:
                group.append(pool[rng.integers(len(pool))])
                have += len(group[-1])
            yield group


def pack_documents(group):
    """Documents one after the other: tokens, position within the document, labels (none across a border)."""
    need = ROWS * T
    if FIX:
        flat = np.concatenate(group).astype(np.int64)
        pos = np.concatenate([np.arange(len(d)) for d in group])
        labels = np.where(pos[1:need + 1] == 0, -100, flat[1:need + 1])
        return tuple(torch.from_numpy(np.ascontiguousarray(a[:need])).view(ROWS, T) for a in (flat, pos, labels))
    tokens, positions, labels = [], [], []
    for doc in group:
        for i, tok in enumerate(doc):
            if tokens:
                labels.append(-100 if i == 0 else int(tok))
            tokens.append(int(tok))
            positions.append(i)
    return tuple(torch.tensor(a[:need]).view(ROWS, T) for a in (tokens, positions, labels))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 4, D // 4).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, D))
        return x + self.mlp(self.n2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(T, D)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(D, VOCAB, bias=False)

    def forward(self, tokens, positions, labels):
        x = self.blocks(self.tok(tokens) + self.pos(positions))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def main():
    seed()
    model = Model().to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    workers = {} if TINY else dict(num_workers=2, persistent_workers=True, prefetch_factor=4)
    loader = DataLoader(Documents(), batch_size=None, collate_fn=pack_documents, pin_memory=not TINY, **workers)
    batches = iter(loader)

    def step():
        tokens, positions, labels = (t.to(DEV, non_blocking=True) for t in next(batches))
        with bf16():
            loss = model(tokens, positions, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("lm_packed", step)


if __name__ == "__main__":
    main()
