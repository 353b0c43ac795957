import queue
import threading

import numpy as np
import torch


class FlowFeed:
    """Threads fill pinned slots with random rows; filled and empty slots travel in two queues."""

    def __init__(self, count, fields, kinds, batch, device, threads, pin):
        rng = np.random.default_rng(30)
        self.flows = rng.integers(0, 256, (count, fields), dtype=np.uint8)
        self.kinds = rng.integers(0, kinds, count, dtype=np.uint8)
        self.batch, self.device, self.pin = batch, device, pin
        self.side = torch.cuda.Stream() if pin else None
        self.lock, self.order, self.rng, self.open = threading.Lock(), None, rng, True
        self.empty, self.full = queue.Queue(), queue.Queue()
        for _ in range(threads + 2):
            self.empty.put((torch.empty(batch, fields, dtype=torch.uint8, pin_memory=pin),
                            torch.empty(batch, dtype=torch.uint8, pin_memory=pin)))
        for _ in range(threads):
            threading.Thread(target=self._fill, daemon=True).start()

    def _rows(self):
        with self.lock:
            if self.order is None or len(self.order) < self.batch:
                self.order = self.rng.permutation(len(self.flows))
            rows, self.order = self.order[:self.batch], self.order[self.batch:]
            return rows

    def _fill(self):
        while self.open:
            flows, kinds = self.empty.get()
            rows = self._rows()
            np.take(self.flows, rows, axis=0, out=flows.numpy(), mode="clip")
            np.take(self.kinds, rows, out=kinds.numpy(), mode="clip")
            self.full.put((flows, kinds))

    def _send(self):
        slot = self.full.get()
        if self.side is None:
            return slot, [t.clone() for t in slot], None
        with torch.cuda.stream(self.side):
            there = [t.to(self.device, non_blocking=True) for t in slot]
            return slot, there, self.side.record_event()

    def __iter__(self):
        """Sends one batch ahead on a stream of its own."""
        coming = self._send()
        while True:
            slot, there, sent = coming
            if sent is not None:
                torch.cuda.current_stream().wait_event(sent)
                for t in there:
                    t.record_stream(torch.cuda.current_stream())
            yield there
            if sent is not None:
                sent.synchronize()
            self.empty.put(slot)
            coming = self._send()

    def close(self):
        self.open = False
