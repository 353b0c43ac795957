"""Rules on other threads of the program: they hold Python's lock, or queue for a lock of the program's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace as with_fields
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import lanes_of, parents_of
from tracetui.analysis.attribution.place import FRAME, Place, grouped, own_frames
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.findings.core import gain, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.host import S33, S40
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.host_lines import Sampled
from tracetui.analysis.sampled_calls import located
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import nearest
from tracetui.parsers.runs.samples import Frame

_WAITING = re.compile(
    r"<built-in (?:method|function) "
    r"(?:acquire|sleep|wait\w*|select|e?poll|recv\w*|read\w*|accept|get of _queue|pause)\b"
)
"""Calls in which a thread leaves the interpreter to others."""
WAITS = re.compile(r"<built-in (?:method|function) (?:acquire|sleep|wait\w*|get of _queue)\b")
"""Those in which it waits for other threads of the program."""
_LOCK = re.compile(r"<built-in method (?:__\w+__|acquire|release) of _thread\.(?:lock|RLock) object at (\w+)>")
NEARLY = 0.95
"""While threads queue for a lock, one works for this part of the time or more, and two for the rest at most."""


class _Threads(NamedTuple):
    """The program's own functions on threads other than the one that launches, and the recorded steps."""

    lane: Ints
    start: Ints
    end: Ints
    own: Bools
    waiting: Bools
    steps: Intervals

    def spans(self, rows: Bools) -> Intervals:
        return intervals.union(self.start[rows], self.end[rows])

    def share(self, of: Intervals) -> float:
        """Percent of the steps."""
        return 100 * intervals.length(of) / intervals.length(self.steps)


@kept
def _threads(facts: Facts) -> _Threads | None:
    host, frames, slots = facts.trace.host, own_frames(facts.trace), step_slots(facts.sel)
    steps = intervals.union(slots.start, slots.end)
    if frames.running is None or (facts.host_model is None and not facts.is_without_gpu) or not intervals.length(steps):
        return None
    lane, start = lanes_of(host), host["start"].to_numpy()
    own = frames.own & (lane != lane[frames.rows[0]]) & of_kinds(host["kind"], "python")
    waiting = names.matching(host["name"], lambda name: bool(_WAITING.match(name)))
    return _Threads(lane, start, start + host["duration"].to_numpy(), own, waiting, steps)


@looks_for(S33)
def other_threads(facts: Facts, limits: Limits) -> Iterator[Finding]:
    of, host = _threads(facts), facts.trace.host
    if of is None:
        return
    outermost, queued = parents_of(host) < 0, intervals.overlapping([each.inside for each in _queues(facts)], 1)
    alike: dict[str, list[int]] = {}
    for thread in np.unique(of.lane[of.own]).tolist():
        rows = np.flatnonzero(of.own & (of.lane == thread))
        function = str(host["name"][int(rows[np.argmax((of.end - of.start)[rows])])])
        alike.setdefault(function, []).append(thread)
    for function, threads in alike.items():
        computing = []
        for thread in threads:
            mine = of.lane == thread
            computing.append(intervals.subtract(of.spans(mine & outermost), of.spans(mine & of.waiting)))
        when = intervals.intersect(intervals.subtract(intervals.overlapping(computing, 1), queued), of.steps)
        share = of.share(when)
        if share < limits.share_percent:
            continue
        # who holds the lock is not recorded: at most all that the host does meanwhile waits for it
        bound = replace(gain.of_calls(facts, *when, np.empty(0, np.int64)), least_ns=0.0, sure_percent=0.0)
        who = "Another thread runs" if len(threads) == 1 else f"{len(threads)} other threads run"
        found = bound.finding(
            f"{who} Python for {words.percent(share)} of the steps: {function}",
            (
                Evidence("in Python and not waiting, of the steps", share, "%", Query("timeline")),
                Evidence("its function", function, "", Query("host", row=function)),
            ),
            f"{words.ns(intervals.length(when))} of {words.ns(intervals.length(of.steps))}; {bound.why}",
        )
        yield with_fields(found, where=_places(facts, of, of.own & np.isin(of.lane, threads)))


def _places(facts: Facts, of: _Threads, mine: Bools) -> tuple[Place, ...]:
    """Where these functions of other threads spend their time."""
    parent, rows = parents_of(facts.trace.host), np.flatnonzero(mine)
    lasting = (of.end - of.start)[rows]
    spent = np.zeros(mine.size + 1, np.int64)
    spent[rows] = lasting
    np.subtract.at(spent, nearest(parent, mine, parent[rows]), lasting)
    return tuple(grouped(located(facts.trace, rows), spent[rows], facts.step_count, on_gpu=False))


class _Line(NamedTuple):
    """The line on which threads wait for each other."""

    at: Frame
    waiting: float
    """How many threads stand there at a time, the mean of the sampled steps."""
    beyond: float
    """How many are further in the function."""


def _stands_on(of: Sampled, function: str) -> _Line | None:
    """Where threads stand in a function while one of them, and never two, is further.

    None where that is not so: for the interpreter's lock threads wait wherever they are.
    """
    match = FRAME.fullmatch(function)
    name = None if match is None else (match["file"].rpartition("/")[2], match["function"])
    standing: Counter[Frame] = Counter()
    longest: Counter[tuple[Frame, int]] = Counter()
    inside = 0
    for thread, stack, ns in of.stays():
        if any((frame.file.rpartition("/")[2], frame.function.rpartition(".")[2]) == name for frame in stack):
            inside += ns
            last = stack[-1]
            if (last.file.rpartition("/")[2], last.function.rpartition(".")[2]) == name:
                standing[last] += ns
                longest[last, thread] += ns
    if not standing or not of.whole_ns:
        return None
    ((at, waiting),) = standing.most_common(1)
    beyond, most = inside - waiting, max(ns for (line, _), ns in longest.items() if line == at)
    if not NEARLY * most <= beyond <= of.whole_ns / NEARLY:
        return None
    return _Line(at, waiting / of.whole_ns, min(beyond / of.whole_ns, 1.0))


class _Queue(NamedTuple):
    """Threads that do something in one function one after the other, for a lock that they take there."""

    function: str
    lanes: list[int]
    inside: Intervals
    """When several are in the function."""
    working: Intervals
    """When one of them works there."""
    line: _Line


@kept
def _queues(facts: Facts) -> list[_Queue]:
    """Functions in which several threads take the same lock, what they call there never overlaps, and samples agree."""
    of, sampled, host, found = _threads(facts), facts.sampled, facts.trace.host, list[_Queue]()
    parent = parents_of(host)
    locks = names.matching(host["name"], lambda name: bool(_LOCK.match(name)))
    rows = np.flatnonzero(locks) if of is None else np.flatnonzero(locks & np.append(of.own, False)[parent])
    if of is None or sampled is None or not rows.size:
        return found
    function, lock = (host["name"].gather(each).cast(pl.String) for each in (parent[rows], rows))
    taken = pl.DataFrame({"function": function, "lock": lock.str.extract(_LOCK.pattern), "lane": of.lane[rows]})
    taken = taken.group_by("function", "lock").agg(pl.col("lane").unique().sort()).sort("function", "lock")
    for name, lanes in taken.filter(pl.col("lane").list.len() > 1).select("function", "lane").iter_rows():
        here = of.own & names.matching(host["name"], str(name).__eq__)
        called = np.append(here, False)[parent] & ~locks
        inside, working = [], []
        for lane in lanes:
            mine = of.lane == lane
            inside.append(of.spans(here & mine))
            working.append(intervals.subtract(of.spans(called & mine), of.spans(of.waiting & mine)))
        several = intervals.intersect(intervals.overlapping(inside, 2), of.steps)
        one, two = (intervals.intersect(intervals.overlapping(working, number), several) for number in (1, 2))
        whole = intervals.length(several)
        line = _stands_on(sampled, str(name)) if whole else None
        if line and intervals.length(one) >= NEARLY * whole and intervals.length(two) <= (1 - NEARLY) * whole:
            ever = intervals.intersect(intervals.overlapping(working, 1), of.steps)
            found.append(_Queue(str(name), lanes, several, ever, line))
    return found


@looks_for(S40)
def queues_for_a_lock(facts: Facts, limits: Limits) -> Iterator[Finding]:
    of, step_ns = _threads(facts), facts.page_step.ns
    for queue in _queues(facts):
        if of is None or of.share(queue.inside) < limits.share_percent:
            continue
        number, line = len(queue.lanes), queue.line
        bound = gain.of_calls(facts, *queue.working, np.empty(0, np.int64))
        most = (1 - 1 / number) * line.beyond * step_ns
        bound = gain.limited(bound, most, step_ns, f"each of {number} threads still does its part")
        bound = replace(bound, least_ns=0.0, sure_percent=0.0)
        at, name = f"{line.at.file.rpartition('/')[2]}:{line.at.line}", line.at.function.rpartition(".")[2]
        row = Query("host:lines", row=f"{line.at.file}:{line.at.line}")
        found = bound.finding(
            f"Let {number} threads work at once: a lock at {at}, {name}, admits one at a time",
            (
                Evidence("several are there, of the steps", of.share(queue.inside), "%", Query("timeline")),
                Evidence("threads that stand on this line, mean of the sampled steps", line.waiting, "", row),
                Evidence("threads that are beyond it", line.beyond),
            ),
            f"{words.number(line.waiting)} threads at the lock, {words.number(line.beyond)} beyond it; {bound.why}",
        )
        here = of.own & np.isin(of.lane, queue.lanes)
        here &= names.matching(facts.trace.host["name"], queue.function.__eq__)
        yield with_fields(found, where=_places(facts, of, here))
