"""Picture-embedding service: a thread pool unpacks the next requests while the model serves the present ones."""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from common import DEV, TINY, drive, pinned, seed, size
from gallery.codec import Decoder, encode
from gallery.vit import Vit

SIDE, BATCH, THREADS = size(384, 32), size(24, 3), size(4, 2)


def client(n):
    """Some compressed pictures, smooth with a little noise, as phones would send them."""
    rng = np.random.default_rng(6)
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    for _ in range(n):
        a, b, c = rng.uniform(1, 6, 3)
        base = 110 + 60 * np.sin(a * x + b * y)[..., None] * np.cos(c * np.arange(3) + x[..., None])
        yield encode((base + rng.normal(0, 3, base.shape)).clip(0, 255).astype(np.uint8))


class Service:
    def __init__(self):
        dtype = torch.float32 if TINY else torch.bfloat16
        self.model = Vit(SIDE, 16, size(768, 32), size(12, 1)).to(DEV, dtype).eval()
        self.decoder, self.pool = Decoder(SIDE), ThreadPoolExecutor(THREADS)
        self.slots = [pinned(torch.empty(BATCH, SIDE, SIDE, 3, dtype=torch.uint8)) for _ in range(2)]
        self.turn, self.waiting = 0, None

    def admit(self, payloads):
        slot, self.turn = self.slots[self.turn], 1 - self.turn
        views = slot.numpy()
        return slot, [self.pool.submit(self.decoder.decode, p, views[i]) for i, p in enumerate(payloads)]

    @torch.inference_mode()
    def serve(self, upcoming):
        """Answers the requests admitted last time, and admits the upcoming ones."""
        slot, jobs = self.waiting or self.admit(upcoming)
        for job in jobs:
            job.result()
        pictures = slot.to(DEV, non_blocking=True)
        self.waiting = self.admit(upcoming)
        return self.model(pictures).cpu()


seed(6)
service = Service()
inbox = list(client(size(96, 6)))
cursor = 0


def step():
    global cursor
    cursor = (cursor + BATCH) % len(inbox)
    return service.serve(inbox[cursor:cursor + BATCH])


if __name__ == "__main__":
    drive("embed_server", step)
