"""The moments between steps: on the GPU's time line, on the host's clock, and on the wall clock of the recordings."""

from __future__ import annotations

import gc
import time
from typing import Any

MEASURED = (
    "clean_step_ns", "clean_host_ns", "clean_gc_ns", "profiled_step_ns", "passes", "schedule", "step_of", "unchanged",
    "unheld", "spare", "compiled",
)  # fmt: skip
"""What run.json takes over of what was measured, where there is any."""


def uses_gpu(device: str) -> bool:
    """Whether the work to time runs on a CUDA device."""
    if device == "cpu":
        return False
    import torch

    return bool(torch.cuda.is_available())


def synchronize(device: str) -> None:
    """Waits until the device has done its work."""
    if uses_gpu(device):
        import torch

        torch.cuda.synchronize()


class Marks:
    """Boundaries of steps. On CUDA each is also an event on the stream, so that the host may run ahead of the GPU."""

    def __init__(self, device: str) -> None:
        self._on_gpu = uses_gpu(device)
        self._events: list[Any] = []
        self._host: list[int] = []
        self.unix_ns: list[int] = []
        """Each boundary in ns since 1970, as the events of a recording are dated."""

    def add(self) -> None:
        """Marks this moment, when the host has given out all work of a step."""
        if self._on_gpu:
            import torch

            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)
        self._host.append(time.perf_counter_ns())
        self.unix_ns.append(time.time_ns())

    def settle(self) -> None:
        """Moves the last boundary on the wall clock to now: the wait for the device belongs to the last step."""
        if self.unix_ns:
            self.unix_ns[-1] = max(time.time_ns(), self.unix_ns[-1])

    @property
    def steps(self) -> int:
        """How many steps lie between the boundaries."""
        return max(len(self._host) - 1, 0)

    def host_ns(self) -> list[int]:
        """How long the host was busy with each step; where it runs ahead of the GPU, less than the step takes."""
        return [after - before for before, after in zip(self._host, self._host[1:])]

    def step_ns(self) -> list[int]:
        """How long each step took: on the GPU's time line, which must have reached the last boundary, else the host's.

        Empty where the boundaries are on several GPUs, whose clocks don't compare.
        """
        if not self._on_gpu:
            return self.host_ns()
        try:
            return [round(before.elapsed_time(after) * 1e6) for before, after in zip(self._events, self._events[1:])]
        except (RuntimeError, ValueError):
            return []

    def spent_ns(self, pauses: Pauses) -> list[int]:
        """How much of each step on the host's clock these pauses took."""
        return [
            sum(max(min(end, after) - max(start, before), 0) for start, end in pauses.spans)
            for before, after in zip(self._host, self._host[1:])
        ]


class Pauses:
    """When Python's collector held up the process: two looks at the clock for each collection."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self._begun = 0

    def begin(self) -> None:
        """Watches the collector from now on."""
        gc.callbacks.append(self._seen)

    def end(self) -> None:
        """Watches it no longer."""
        if self._seen in gc.callbacks:
            gc.callbacks.remove(self._seen)

    def _seen(self, phase: str, _: Any) -> None:
        if phase == "start":
            self._begun = time.perf_counter_ns()
        elif self._begun:
            self.spans.append((self._begun, time.perf_counter_ns()))
