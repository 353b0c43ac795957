"""A thread that cuts batches out of long texts while the device computes."""
import queue
import threading
import time

import numpy as np
import torch

from common import DEV, FIX, pinned


class Cutter:
    """Rows of `length` + 1 words at random places."""
    def __init__(self, words, batch, length):
        self.words, self.batch, self.length = words, batch, length
        self.rng = np.random.default_rng(0)

    def cut(self):
        starts = self.rng.integers(len(self.words) - self.length - 1, size=self.batch)
        return pinned(torch.from_numpy(self.words[starts[:, None] + np.arange(self.length + 1)]))


class Feed(threading.Thread):
    """Holds one batch ready."""
    def __init__(self, cutter):
        super().__init__(daemon=True)
        self.cutter, self.slot = cutter, None
        self.start()

    def run(self):
        while True:
            batch = self.cutter.cut()
            while self.slot is not None:
                time.sleep(0.02)
            self.slot = batch

    def take(self):
        while self.slot is None:
            time.sleep(0.02)
        batch, self.slot = self.slot, None
        return batch.to(DEV, non_blocking=True)


class QueuedFeed(threading.Thread):
    def __init__(self, cutter):
        super().__init__(daemon=True)
        self.cutter, self.ready = cutter, queue.Queue(2)
        self.start()

    def run(self):
        while True:
            self.ready.put(self.cutter.cut())

    def take(self):
        return self.ready.get().to(DEV, non_blocking=True)


def make_feed(*settings):
    return (QueuedFeed if FIX else Feed)(Cutter(*settings))
