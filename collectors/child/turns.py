"""Times a program as it is and changed, in turns in one process: changes are made and taken back between its steps."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from .changes import BY_NAME
from .marks import Marks, synchronize, uses_gpu
from .outside import most_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .outside import Outside
    from .progress import Progress

LEAST_STEPS = 5
"""Steps that a turn times at least."""
SETTLE_STEPS = 4
"""Steps that pass after each switch: torch.compile compiles at the first, and records its graphs at the next two."""


FIRST_ROUNDS = 2
"""After which a change that gains much stays on, so that the others take their turns beside it."""
LAST_ROUNDS = 2
"""Of all that gained together, against none of it."""


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
        self._until = time.monotonic() + float(spec["seconds"])
        self._blocks: list[dict[str, Any]] = []
        self._switched: str | None = None
        self._kept: list[str] = []
        """Changes that stay on."""
        self._took_s = 0.0
        """How long the last turn took that changed nothing."""

    def told(self) -> dict[str, Any]:
        """The turns in order, with the ``names`` changed beside those that stay on; and which was made last."""
        return {"blocks": self._blocks, "switched": self._switched}

    def follow(self) -> Iterator[None]:
        """Takes the turns; each ``yield`` waits for the end of a step."""
        names = list(self._outside.switches)
        gains: dict[str, list[float]] = {}
        while names:
            yield from self._block()
            gains = {}
            yield from self._rounds(names, gains)
            names = self._keep_best(names, gains)
        yield from self._together(gains)

    def _rounds(self, names: list[str], gains: dict[str, list[float]]) -> Iterator[None]:
        """Turns of these changes, until one of them should stay on; what each gained goes into `gains`."""
        left = list(names)
        for number in range(self._spec["rounds"]):
            if number == FIRST_ROUNDS and self._best(gains) is not None:
                return
            for name in list(left):
                if self._is_late():
                    return
                hand = self._outside.switches[name]
                yield from self._turn([name])
                if not hand.count or self._gained_percent() < self._spec["worth_percent"]:
                    left.remove(name)
                gains.setdefault(name, []).append(self._gained_percent() if hand.count else 0.0)

    def _turn(self, names: list[str]) -> Iterator[None]:
        """One turn with these changed, and one as it was before."""
        for name in names:
            self._switch_on(name)
        yield from self._block(names)
        for name in reversed(names):
            self._outside.switches[name].switch_off()
        self._switched = None
        self._keep()
        yield from self._block()

    def _together(self, gains: dict[str, list[float]]) -> Iterator[None]:
        """Turns of what stayed on with what was sure to gain beside it, against the program as it was."""
        if not self._kept:
            return
        names, kinds = list(self._kept), {kind_of(name) for name in self._kept}
        noise = self._noise_percent()
        for name in sorted(gains, key=lambda name: -min(gains[name])):
            if name in self._spec["joins"] and min(gains[name]) > noise and kind_of(name) not in kinds:
                names.append(name)
                kinds.add(kind_of(name))
        if len(names) < 2:
            return
        for name in reversed(self._kept):
            self._outside.switches[name].switch_off()
        self._kept = []
        yield from self._block()
        for _ in range(LAST_ROUNDS):
            yield from self._turn(names)

    def _noise_percent(self) -> float:
        """The most that two turns differ by that had the same on, one after the other's turn with a change."""
        same = [block for block in self._blocks if not block["names"] and block["beside"] == self._kept]
        means = [statistics.fmean(block["step_ns"]) for block in same]
        apart = [100 * abs(1 - after / before) for before, after in zip(means, means[1:])]
        return max([float(self._spec["worth_percent"]), *apart])

    def _is_late(self) -> bool:
        """Whether no other turn may begin: those with all that gained are still to come."""
        return time.monotonic() > self._until - (1 + 2 * LAST_ROUNDS) * self._took_s

    def _switch_on(self, name: str) -> None:
        self._switched = name
        self._keep()  # if the program fails now, that is why
        self._outside.switches[name].switch_on(self._outside.modules)

    def _best(self, gains: dict[str, list[float]]) -> str | None:
        """The change that should stay on, if one gains so much."""
        means = {name: statistics.fmean(found) for name, found in gains.items() if name in self._spec["joins"]}
        best = max(means, key=lambda name: means[name], default=None)
        return best if best is not None and means[best] >= self._spec["beside_percent"] else None

    def _keep_best(self, names: list[str], gains: dict[str, list[float]]) -> list[str]:
        """Leaves it on; returns the changes that then have turns beside it."""
        best = self._best(gains)
        if best is None or self._is_late():
            return []
        self._switch_on(best)
        self._kept.append(best)
        gains.clear()
        return [name for name in names if kind_of(name) != kind_of(best)]

    def _block(self, names: Sequence[str] = ()) -> Iterator[None]:
        titles = ", ".join(BY_NAME[name].title for name in names or self._kept)
        phase = titles if names else f"with {titles}" if titles else "as it was"
        self._progress.say(phase)
        started, passed = time.monotonic(), 0
        while passed < SETTLE_STEPS or time.monotonic() - started < self._spec["settle_s"]:
            yield
            passed += 1
            self._progress.say(phase, passed)
        if names and not all(self._outside.switches[name].count for name in names):
            self._add(names, [], [])
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
        self._add(names, marks.step_ns(), marks.host_ns(), most_memory() if uses_gpu(self._device) else None)
        if not names:
            self._took_s = time.monotonic() - started
        self._keep()

    def _add(self, names: Sequence[str], step_ns: list[int], host_ns: list[int], memory: int | None = None) -> None:
        self._blocks.append(
            {
                "names": list(names),
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


def kind_of(name: str) -> str:
    """What only one of several changes may be: those of one kind exclude each other."""
    return BY_NAME[name].kind or name
