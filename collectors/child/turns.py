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


FIRST_ROUNDS = 2
"""After which a change that gains much stays on, so that the others take their turns beside it."""


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
                first turn gets no other), ``joins`` (changes that may stay on, so that others have turns beside them),
                ``beside_percent`` (what they must gain for that), ``settle_s`` and ``block_s`` (of each turn) and
                ``seconds`` (no turn begins after so many).
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
        self._kept: list[str] = []
        """Changes that stay on."""

    def told(self) -> dict[str, Any]:
        """The turns in order, ``name`` is None without a change but those ``beside`` it; and which was made last."""
        return {"blocks": self._blocks, "switched": self._switched}

    def follow(self) -> Iterator[None]:
        """Takes the turns; each ``yield`` waits for the end of a step."""
        names: list[str] | None = list(self._outside.switches)
        while names is not None:
            yield from self._block(None)
            gains: dict[str, list[float]] = {}
            yield from self._rounds(names, gains)
            names = self._keep_best(names, gains)

    def _rounds(self, names: list[str], gains: dict[str, list[float]]) -> Iterator[None]:
        """Turns of these changes, until one of them should stay on; what each gained goes into `gains`."""
        left = list(names)
        for number in range(self._spec["rounds"]):
            if number == FIRST_ROUNDS and self._best(gains) is not None:
                return
            for name in list(left):
                if time.monotonic() > self._until:
                    return
                hand = self._outside.switches[name]
                self._switch_on(name)
                yield from self._block(name)
                hand.switch_off()
                self._switched = None
                self._keep()
                yield from self._block(None)
                if not hand.count or self._gained_percent() < self._spec["worth_percent"]:
                    left.remove(name)
                gains.setdefault(name, []).append(self._gained_percent() if hand.count else 0.0)

    def _switch_on(self, name: str) -> None:
        self._switched = name
        self._keep()  # if the program fails now, that is why
        self._outside.switches[name].switch_on(self._outside.modules)

    def _best(self, gains: dict[str, list[float]]) -> str | None:
        """The change that should stay on, if one gains so much."""
        means = {name: statistics.fmean(found) for name, found in gains.items() if name in self._spec["joins"]}
        best = max(means, key=lambda name: means[name], default=None)
        return best if best is not None and means[best] >= self._spec["beside_percent"] else None

    def _keep_best(self, names: list[str], gains: dict[str, list[float]]) -> list[str] | None:
        """Leaves it on; the changes that then have turns beside it, or None if there is nothing more to do."""
        best = self._best(gains)
        if best is None or time.monotonic() > self._until:
            return None
        kind = BY_NAME[best].kind or best
        self._switch_on(best)
        self._kept.append(best)
        return [name for name in names if (BY_NAME[name].kind or name) != kind] or None

    def _block(self, name: str | None) -> Iterator[None]:
        phase = "with " + ", ".join(BY_NAME[each].title for each in self._kept) if self._kept else "as it was"
        if name:
            phase = BY_NAME[name].title
        self._progress.say(phase)
        begun, passed = time.monotonic(), 0
        while passed < SETTLE_STEPS or time.monotonic() - begun < self._spec["settle_s"]:
            yield
            passed += 1
            self._progress.say(phase, passed)
        if name and not self._outside.switches[name].count:
            self._add(name, [], [])
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
        # a process's own peak is of all turns so far
        self._add(name, marks.step_ns(), marks.host_ns(), most_memory() if uses_gpu(self._device) else None)
        self._keep()

    def _add(self, name: str | None, step_ns: list[int], host_ns: list[int], memory: int | None = None) -> None:
        self._blocks.append(
            {
                "name": name,
                "beside": list(self._kept),
                "step_ns": step_ns,
                "host_ns": host_ns,
                "memory_bytes": memory,
            }
        )

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
