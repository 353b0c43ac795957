"""Utterances of several lengths with their transcripts."""
import torch
from torch.utils.data import DataLoader, Dataset

from common import FIX, TINY, size

MELS, MAX_FRAMES, SHORTEST, LONGEST = size((80, 3000, 300, 1400), (8, 96, 12, 40))
BATCH, VOCAB = size((32, 1024), (4, 16))


class Utterances(Dataset):
    """Log-mel features; an utterance is a stretch of one long recording."""

    def __init__(self, count=20000):
        g = torch.Generator().manual_seed(3)
        self.recording = torch.randn(LONGEST + 4096, MELS, generator=g)
        self.frames = torch.randint(SHORTEST, LONGEST + 1, (count,), generator=g).tolist()
        self.words = torch.randint(1, VOCAB, (count + 256,), generator=g)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        n, start = self.frames[i], i % 4096
        return self.recording[start:start + n], self.words[i:i + n // 12]


def padded_length(frames):
    if FIX:
        return (max(frames) + 31) // 32 * 32
    return MAX_FRAMES


def collate(items):
    """features (B, frames, MELS), frames of each, transcripts one after another, their lengths."""
    frames = [len(x) for x, _ in items]
    features = torch.zeros(len(items), padded_length(frames), MELS)
    for row, (x, _) in zip(features, items):
        row[:len(x)] = x
    words = [w for _, w in items]
    return features, torch.tensor(frames), torch.cat(words), torch.tensor([len(w) for w in words])


def batches():
    workers = {} if TINY else dict(num_workers=6, persistent_workers=True, prefetch_factor=2)
    loader = DataLoader(Utterances(), BATCH, collate_fn=collate, pin_memory=not TINY, drop_last=True, **workers)
    while True:
        yield from loader
