"""Table with numbers and categories, a transformer over the columns."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from common import DEV, FIX, TINY, bf16, drive, seed, size

ROWS, BATCH, WORKERS = size((32768, 2048, 4), (64, 16, 0))
NUMBERS, CATEGORIES, VALUES = size((32, 32, 100), (3, 3, 5))
D, LAYERS, HEADS = size((192, 4, 6), (8, 2, 2))


class Table(Dataset):
    """A whole batch of rows is taken at once."""

    def __init__(self):
        self.numbers = torch.randn(ROWS, NUMBERS)
        self.categories = torch.randint(VALUES, (ROWS, CATEGORIES))
        self.target = self.numbers[:, 0] * self.numbers[:, 1] + torch.randn(ROWS) * 0.1

    def __len__(self):
        return ROWS

    def __getitem__(self, rows):
        return self.numbers[rows], self.categories[rows], self.target[rows]


def make_loader(table):
    order = BatchSampler(RandomSampler(table), BATCH, drop_last=True)
    keep = FIX and WORKERS > 0
    return DataLoader(table, sampler=order, batch_size=None, num_workers=WORKERS, pin_memory=not TINY,
                      persistent_workers=keep)


def rows_forever(loader):
    while True:
        for batch in loader:  # one epoch
            yield tuple(t.to(DEV, non_blocking=True) for t in batch)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class ColumnTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(NUMBERS, D)), nn.Parameter(torch.zeros(NUMBERS, D))
        self.values = nn.Embedding(CATEGORIES * VALUES, D)
        self.register_buffer("first", torch.arange(CATEGORIES) * VALUES, persistent=False)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.out = nn.Linear(D, 1)

    def forward(self, numbers, categories):
        x = torch.cat([numbers[..., None] * self.scale + self.shift, self.values(categories + self.first)], 1)
        return self.out(self.blocks(x).mean(1)).squeeze(1)


def main():
    seed()
    model = ColumnTransformer().to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    source = rows_forever(make_loader(Table()))

    def step():
        numbers, categories, target = next(source)
        with bf16():
            predicted = model(numbers, categories)
        loss = F.mse_loss(predicted.float(), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("tabular", step)


if __name__ == "__main__":
    main()
