"""Batches of volumes go to the device on a stream of their own, into two sets of buffers in turn."""
import torch

from common import DEV, FIX, pinned


class Scans:
    """Stands for a reader that leaves its batches in pinned memory."""

    def __init__(self, batch, channels, side, classes, count=3):
        self.items = [(pinned(torch.randn(batch, channels, side, side, side)),
                       pinned(torch.randint(classes, (batch,)))) for _ in range(count)]
        self.n = 0

    def read(self):
        self.n += 1
        return self.items[self.n % len(self.items)]


class Feeder:
    def __init__(self, scans):
        self.scans, self.n = scans, 0
        self.slots = [tuple(torch.empty_like(t, device=DEV) for t in scans.read()) for _ in range(2)]
        self.cuda = DEV == "cuda"
        if self.cuda:
            self.stream = torch.cuda.Stream()
            self.free = [torch.cuda.Event() for _ in self.slots]

    def upload(self, slot):
        for there, here in zip(slot, self.scans.read()):
            there.copy_(here, non_blocking=True)

    def buffer_ready(self, i, now):
        """The copy into a set of buffers has to come after its last use."""
        if FIX:
            self.stream.wait_event(self.free[i])
        else:
            self.stream.wait_stream(now)

    def next(self):
        i = self.n % 2
        self.n += 1
        if not self.cuda:
            self.upload(self.slots[i])
            return self.slots[i]
        now = torch.cuda.current_stream()
        self.free[1 - i].record(now)  # what used the other set has been queued
        self.buffer_ready(i, now)
        with torch.cuda.stream(self.stream):
            self.upload(self.slots[i])
        now.wait_stream(self.stream)
        return self.slots[i]
