"""Spectrograms in shards: many to a file, in .npy files."""
import functools
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

from common import FIX, size

PER_SHARD, SHARDS = size((256, 12), (4, 2))
SHAPE = size((128, 96), (16, 16))


def write_shards():
    """Writes what would lie on a disk."""
    folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    for i in range(SHARDS):
        np.save(folder / f"{i:03}.npy", rng.standard_normal((PER_SHARD, *SHAPE), np.float32).astype(np.float16))
    return folder


@functools.lru_cache(None)
def mapped(path):
    return np.load(path, mmap_mode="r")


class Spectra(Dataset):
    def __init__(self, folder, classes):
        self.paths = sorted(folder.glob("*.npy"))
        self.labels = np.random.default_rng(1).integers(classes, size=len(self))

    def __len__(self):
        return PER_SHARD * len(self.paths)

    def read(self, index):
        shard, row = divmod(index, PER_SHARD)
        if FIX:
            return mapped(self.paths[shard])[row].copy()
        return np.load(self.paths[shard])[row]

    def __getitem__(self, index):
        spectrum = self.read(index)
        return spectrum, self.labels[index]
