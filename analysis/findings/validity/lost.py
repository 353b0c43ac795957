"""Steps that lack a stretch of what the others have: events were lost together with the calls that made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.parsers.arrays import Ints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.parsers import Trace

LEAST_STEPS = 3
"""So many steps with the same operators say what is usual."""
NEAR = 0.1
"""Steps that launch so much more or less than the median launch about the same; so much of a stretch is its edge."""
FEWER_EVENTS = (
    "Record fewer steps; leave out what is not needed (with_stack, profile_memory, osrt); let the program end by"
    " itself, after a synchronize, so that buffers are flushed."
)


@dataclass(frozen=True)
class Lack:
    """A stretch that steps lack: one, or two where it spans the end of the first."""

    what: str
    first: int
    last: int
    there: int
    usual: int
    """How many launches or operators are there, and would be."""
    at_start: bool
    at_end: bool

    @property
    def percent(self) -> float:
        """Of what one step has."""
        return 100 * (self.usual - self.there) / self.usual * (1 + self.last - self.first)

    def goes_on_in(self, other: Lack) -> bool:
        """Whether what the other lacks follows at once."""
        return self.at_end and other.at_start and self.last + 1 == other.first and self.what == other.what

    def with_next(self, other: Lack) -> Lack:
        """Both as one."""
        there, usual = self.there + other.there, self.usual + other.usual
        return Lack(self.what, self.first, other.last, there, usual, self.at_start, other.at_end)


def lost_stretch(facts: Facts, refuted_percent: float) -> Finding | None:
    """Finds steps with the operators of the others whose launches stop for a while, or that are silent for a while.

    Launches are lost with their work where the operators are those of other steps. A step of other work has other
    operators, and one that has less to do, such as an expert without tokens, launches less here and there. Operators
    are lost where nothing at all begins for as long as another step needs for what is missing.
    """
    steps = facts.recorded.steps.sort("start")
    found = [] if steps.height < LEAST_STEPS else list(_Steps(steps, facts.trace).lacks())
    together: list[Lack] = []
    for lack in sorted(found, key=lambda lack: lack.first):
        if together and together[-1].goes_on_in(lack):
            together[-1] = together[-1].with_next(lack)
        else:
            together.append(lack)
    told = [lack for lack in together if lack.percent > refuted_percent]
    if not told:
        return None
    worst = max(told, key=lambda lack: (lack.percent, -lack.first))
    first, last = steps["index"][worst.first], steps["index"][worst.last]
    share = words.percent(worst.percent)
    one = first == last
    of = f"{share} of those of step {first}" if one else f"{share} of a step's in steps {first} to {last}"
    if worst.what == "launches":
        title = f"Launches, and with them GPU events, are missing: {of}, which {'has' if one else 'have'} the operators"
        title += " of the others"
    else:
        title = f"Operators, and with them GPU events, are missing: {of}, where nothing begins for as long as the"
        title += " others need for them"
    name = f"step {first}" if one else f"steps {first} to {last}"
    return Finding(
        "invalid",
        title,
        (
            Evidence(f"{worst.what} of {name}", worst.there, query=Query("timeline")),
            Evidence("of as many steps that lack nothing", worst.usual),
            Evidence("such places", len(told)),
        ),
        f"{words.count(worst.there)} of {words.count(worst.usual)} {worst.what} are there",
        threshold=f"more than {words.percent(refuted_percent)} of the {worst.what} of a step",
        advice=f"Leave {'the step' if one else 'these steps'} out (--steps). {FEWER_EVENTS}",
    )


class _Steps:
    """The operators and launches of each step."""

    def __init__(self, steps: pl.DataFrame, trace: Trace) -> None:
        from tracetui.analysis.attribution.launch_calls import launch_calls

        self._trace = trace
        operators = trace.host.select("kind", "name", "start").filter(pl.col("kind") == "operator").sort("start")
        self._start, self._names = operators["start"].to_numpy(), operators["name"].to_physical().to_numpy()
        self._begin = steps["start"].to_numpy()
        self._end = self._begin + steps["duration"].to_numpy()
        self._end[:-1] = np.minimum(self._end[:-1], self._begin[1:])  # steps may overlap
        self._bounds = np.searchsorted(self._start, (self._begin, self._end))
        self._called = launch_calls(trace)["start"].sort().to_numpy()
        self._calls = np.searchsorted(self._called, self._end) - np.searchsorted(self._called, self._begin)
        self._starts: Ints | None = None

    def lacks(self) -> Iterator[Lack]:
        """What each step lacks, as far as others show it."""
        alike: dict[bytes, list[int]] = {}
        for step in range(self._begin.size):
            # in no order: threads take turns as they come
            alike.setdefault(np.sort(self._of(self._names, step)).tobytes(), []).append(step)
        alike.pop(b"", None)
        if not alike:
            return
        for steps in alike.values():
            if len(steps) >= LEAST_STEPS:
                yield from self._of_launches(steps)
        usual = max(alike.values(), key=lambda steps: (len(steps), self._of(self._names, steps[0]).size))
        for steps in alike.values():
            if steps is not usual:
                yield from (lack for step in steps if (lack := self._of_operators(step, usual[0])) is not None)

    def _of(self, values: Ints, step: int) -> Ints:
        part: Ints = values[slice(*self._bounds[:, step])]
        return part

    def _launched(self, step: int) -> Ints:
        """How many of a step's launches came before each of its operators, and before its end."""
        until = np.append(self._of(self._start, step), self._end[step])
        before: Ints = np.searchsorted(self._called, until) - np.searchsorted(self._called, self._begin[step])
        return before

    def _of_launches(self, steps: list[int]) -> Iterator[Lack]:
        calls = self._calls[steps]
        usual = np.median(calls)
        if np.count_nonzero(np.abs(calls - usual) <= NEAR * usual) <= len(steps) / 2:
            usual = calls.max()  # most of them lack some
        if usual <= 0:
            return
        whole = self._launched(steps[int(np.argmax(calls >= usual))])
        for step in steps:
            if (lost := whole[-1] - self._calls[step]) <= 0:
                continue
            launched = self._launched(step)
            lacks = whole - launched
            first, last = (int(np.argmax(lacks >= part * lost)) for part in (NEAR, 1 - NEAR))
            first = max(first - 1, 0)
            if launched[last] - launched[first] <= NEAR * (whole[last] - whole[first]):
                at_start, at_end = launched[first] == 0, launched[last] == launched[-1]
                yield Lack("launches", step, step, int(launched[-1]), int(whole[-1]), bool(at_start), bool(at_end))

    def _of_operators(self, step: int, other: int) -> Lack | None:
        """What a step lacks of another's operators, if it has all others in their order, and is silent meanwhile."""
        here, there = self._of(self._names, step), self._of(self._names, other)
        lost = there.size - here.size
        if lost <= 0:
            return None
        before = int(np.argmin(np.append(here == there[: here.size], False)))
        behind = int(np.argmin(np.append(here[::-1] == there[::-1][: here.size], False)))
        if before + behind < here.size:
            return None
        times, others = (np.append(self._of(self._start, one), self._end[one]) for one in (step, other))
        first, last = here.size - behind, before  # alike operators in a row leave open between which it is
        begin, begun = (times[first - 1], others[first - 1]) if first else (self._begin[step], self._begin[other])
        needed = others[last + lost] - (others[last - 1] if last else self._begin[other])
        if self._silence(begin, times[last]) < needed / 2 or self._silence(begun, others[last + lost]) >= needed / 2:
            return None
        return Lack("operators", step, step, here.size, there.size, first == 0, last == here.size)

    def _silence(self, begin: int, end: int) -> int:
        """The longest time in which nothing begins, on the host or a GPU."""
        if self._starts is None:
            frames = (self._trace.host, self._trace.device)
            self._starts = np.sort(np.concatenate([frame["start"].drop_nulls().to_numpy() for frame in frames]))
        inside = self._starts[slice(*np.searchsorted(self._starts, (begin, end)))]
        return int(np.diff(np.concatenate([[begin], inside, [end]])).max())
