"""Times a program as it is and changed, in turns in one process: changes are made and taken back between its steps."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from .changes import BY_NAME
from .marks import Marks, synchronize, uses_gpu
from .outside import most_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .outside import Outside
    from .progress import Progress

LEAST_STEPS = 5
"""Steps that a turn times at least."""
SETTLE_STEPS = 4
"""Steps that pass after each switch: torch.compile compiles at the first, and records its graphs at the next two."""


class Turns:
    """One process of the program; before and after each turn with a change there is one without."""

    def __init__(
        self,
        spec: dict[str, Any],
        outside: Outside,
        device: str,
        progress: Progress,
        keep: Callable[[], None],
    ) -> None:
        """Begins the time of the turns.

        Args:
            spec: ``rounds`` (turns of each change), ``worth_percent`` (of the step: a change that gains less in its
                first turn gets no other), ``settle_s`` and ``block_s`` (of each turn) and ``seconds`` (no turn begins
                after so many).
            outside: has the changes, which are off.
            device: where the steps run.
            progress: told of every step.
            keep: writes the result as far as it is known.
        """
        self._spec, self._outside, self._device = spec, outside, device
        self._progress, self._keep = progress, keep
        self._until = time.monotonic() + spec["seconds"]
        self._blocks: list[dict[str, Any]] = []
        self._switched: str | None = None

    def told(self) -> dict[str, Any]:
        """The turns in order, ``name`` is None as the program is; and which change is on now."""
        return {"blocks": self._blocks, "switched": self._switched}

    def follow(self) -> Iterator[None]:
        """Takes the turns; each ``yield`` waits for the end of a step."""
        names = list(self._outside.switches)
        yield from self._block(None)
        for _ in range(self._spec["rounds"]):
            for name in list(names):
                if time.monotonic() > self._until:
                    return
                hand = self._outside.switches[name]
                self._switched = name
                self._keep()  # if the program fails now, that is why
                hand.switch_on(self._outside.modules)
                yield from self._block(name)
                hand.switch_off()
                self._switched = None
                self._keep()
                yield from self._block(None)
                if not hand.count or self._gained_percent() < self._spec["worth_percent"]:
                    names.remove(name)

    def _block(self, name: str | None) -> Iterator[None]:
        phase = BY_NAME[name].title if name else "as it was"
        self._progress.say(phase)
        begun, passed = time.monotonic(), 0
        while passed < SETTLE_STEPS or time.monotonic() - begun < self._spec["settle_s"]:
            yield
            passed += 1
            self._progress.say(phase, passed)
        if name and not self._outside.switches[name].count:
            self._blocks.append({"name": name, "step_ns": [], "host_ns": [], "memory_bytes": None})
            return
        self._forget_memory()
        marks = Marks(self._device)
        marks.add()
        begun = time.monotonic()
        while marks.steps < LEAST_STEPS or time.monotonic() - begun < self._spec["block_s"]:
            yield
            marks.add()
            self._progress.say(phase, passed + marks.steps)
        synchronize(self._device)
        self._blocks.append(
            {
                "name": name,
                "step_ns": marks.step_ns(),
                "host_ns": marks.host_ns(),
                # a process's own peak is of all turns so far
                "memory_bytes": most_memory() if uses_gpu(self._device) else None,
            }
        )
        self._keep()

    def _gained_percent(self) -> float:
        """Of the last turn with a change, by the one before and the one after it."""
        before, changed, after = (block["step_ns"] for block in self._blocks[-3:])
        as_it_was = [*before, *after]
        if not changed or not as_it_was:
            return 0.0
        return 100 - 100 * statistics.fmean(changed) / statistics.fmean(as_it_was)

    def _forget_memory(self) -> None:
        if uses_gpu(self._device):
            import torch

            torch.cuda.reset_peak_memory_stats()
