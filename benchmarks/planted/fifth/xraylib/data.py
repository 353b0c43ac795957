"""Batched fetches from an in-memory archive, and a prefetcher that copies on its own stream."""
import numpy as np
import torch
from torch.utils.data import Dataset, Sampler

from common import DEV


class Archive(Dataset):
    def __init__(self, count, side):
        rng = np.random.default_rng(24)
        self.films = rng.integers(0, 255, (count, side, side), dtype=np.uint8)
        self.signs = rng.random((count, 14), dtype=np.float32) < 0.1

    def __len__(self):
        return len(self.films)

    def __getitems__(self, rows):
        rows = np.sort(np.asarray(rows))
        return torch.from_numpy(self.films[rows]), torch.from_numpy(self.signs[rows].astype(np.float32))


class Endless(Sampler):
    """Shuffled batches of row numbers without an end, so that the workers never stop."""

    def __init__(self, count, batch):
        self.count, self.batch = count, batch

    def __iter__(self):
        rng = np.random.default_rng(25)
        while True:
            order = rng.permutation(self.count)
            for i in range(0, self.count - self.batch + 1, self.batch):
                yield order[i:i + self.batch]


def ahead(loader):
    """Yields device batches; the next one's copy runs beside the present step."""
    if DEV == "cpu":
        yield from loader
        return
    side, source = torch.cuda.Stream(), iter(loader)

    def fetch():
        host = next(source)
        with torch.cuda.stream(side):
            return [t.to(DEV, non_blocking=True) for t in host]

    coming = fetch()
    while True:
        torch.cuda.current_stream().wait_stream(side)
        batch = coming
        for t in batch:
            t.record_stream(torch.cuda.current_stream())
        coming = fetch()
        yield batch
