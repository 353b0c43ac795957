import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import torch

from common import FIX
from quake.records import unpack


class Feed:
    """Unpacks the next batch on an event loop of its own while the present one is learnt from."""

    def __init__(self, records, batch, samples, device, pin):
        self.records, self.batch, self.device, self.pin = cycle(records), batch, device, pin
        self.slots = cycle([[self._host(batch, 3, samples, dtype=torch.float32),
                             self._host(batch, dtype=torch.int64), None] for _ in range(3)])
        self.pool = ThreadPoolExecutor(8)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.coming = self._order()

    def _host(self, *shape, dtype):
        return torch.empty(*shape, dtype=dtype, pin_memory=self.pin)

    def _order(self):
        chosen = [next(self.records) for _ in range(self.batch)]
        return asyncio.run_coroutine_threadsafe(self._gather(next(self.slots), chosen), self.loop)

    async def _record(self, blob, out):
        await self.loop.run_in_executor(self.pool, unpack, blob, out)

    async def _gather(self, slot, chosen):
        wave, arrival, copied = slot
        if copied is not None:
            await self.loop.run_in_executor(self.pool, copied.synchronize)
        rows = wave.numpy()
        jobs = [self._record(blob, rows[i]) for i, (blob, _) in enumerate(chosen)]
        if FIX:
            await asyncio.gather(*jobs)
        else:
            for job in jobs:
                await job
        arrival.copy_(torch.tensor([at for _, at in chosen]))
        return slot

    def next(self):
        slot = self.coming.result()
        wave, arrival = (t.to(self.device, non_blocking=True) for t in slot[:2])
        if self.pin:
            slot[2] = torch.cuda.Event()
            slot[2].record()
        self.coming = self._order()
        return wave, arrival
