"""Packed clips: 16-bit stereo differences, deflated; unpacked by a pool of threads while the device computes."""
import threading
import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from common import DEV, FIX, pinned


def pack(samples):
    """samples: int16, (channels, length)."""
    delta = np.diff(samples, axis=1, prepend=np.zeros((samples.shape[0], 1), np.int16))
    return zlib.compress(delta.tobytes(), 1)


class Archive:
    def __init__(self, packed, channels):
        self.packed, self.channels = packed, channels
        self.lock = threading.Lock()
        self.clips_read = self.bytes_read = 0

    def __len__(self):
        return len(self.packed)

    def _unpack(self, data):
        delta = np.frombuffer(zlib.decompress(data), np.int16).reshape(self.channels, -1)
        wave = np.cumsum(delta, axis=1, dtype=np.int16).astype(np.float32)
        wave *= 1 / 32768
        return wave

    def _count(self, data):
        self.clips_read += 1
        self.bytes_read += len(data)

    def read(self, index, out):
        """Unpacks one clip into `out`."""
        data = self.packed[index]
        if FIX:
            with self.lock:
                self._count(data)
            out[:] = self._unpack(data)
        else:
            with self.lock:
                self._count(data)
                out[:] = self._unpack(data)


class Feeder:
    """Keeps some batches under way; buffers are pinned and used in turn."""

    def __init__(self, archive, batch, length, threads=8, ahead=2, seed=0):
        self.archive, self.batch = archive, batch
        self.pool = ThreadPoolExecutor(threads)
        self.random = np.random.default_rng(seed)
        self.free = deque(pinned(torch.empty(batch, archive.channels, length)) for _ in range(ahead + 1))
        self.busy, self.waiting = deque(), deque()
        for _ in range(ahead):
            self._order()

    def _order(self):
        buffer = self.free.popleft()
        rows = buffer.numpy()
        picks = self.random.integers(0, len(self.archive), self.batch)
        jobs = [self.pool.submit(self.archive.read, int(p), rows[i]) for i, p in enumerate(picks)]
        self.waiting.append((buffer, jobs))

    def next(self):
        buffer, jobs = self.waiting.popleft()
        for job in jobs:
            job.result()
        wave = buffer.to(DEV, non_blocking=True)
        done = None
        if DEV == "cuda":
            done = torch.cuda.Event()
            done.record()
        self.busy.append((buffer, done))
        if len(self.busy) > 1 or not self.free:
            old, event = self.busy.popleft()
            if event is not None:
                event.synchronize()
            self.free.append(old)
        self._order()
        return wave
