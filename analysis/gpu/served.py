"""What is told of the iterations of an inference server: work of the GPU, launches, tokens, and time by size."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.base import intervals
from tracetui.analysis.base.names import mapped, matching, of_kinds
from tracetui.analysis.gpu.activities import WORK, graphs
from tracetui.analysis.gpu.steps import StepSlots
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace, links
from tracetui.parsers.arrays import Ints
from tracetui.parsers.iterations import steps_at
from tracetui.parsers.names.range_roles import spoken
from tracetui.parsers.names.serving import (
    AND,
    ATTENTION,
    BEFORE,
    CAUSAL,
    DECODE,
    MIXED,
    OTHER,
    PREFILL,
    REPLAY,
    WHOLE,
    Iteration,
    is_causal,
    iteration_of,
    label_of,
)

HALF = 0.5
MOST_POINTS = 8
"""Iterations of more sizes are put together, about as many into each."""
ALL_NEW = (PREFILL, DECODE, MIXED)
"""Phases in which every token that is computed is kept; how many drafted ones are accepted is not known."""


class Point(Struct, frozen=True):
    """Iterations of one phase that are of about one size."""

    by: str
    """What the size is of: ``batch`` (requests), ``tokens`` (new ones) or ``context`` (of a request)."""
    least: float
    most: float
    steps: int
    mean_ns: float
    tokens_per_s: float | None


class Served(Struct, frozen=True):
    """What is told of iterations of one phase: means of one, null where nothing tells."""

    busy_percent: float | None
    """Of their time: how much of it a GPU works."""
    launches: float | None
    """Calls that launched GPU work; a graph is one."""
    kernels: float | None
    """Null where no GPU was recorded, as the two before it are, and where graphs were recorded whole."""
    gap_ns: float | None
    """From the end of the range to the begin of the next one's, whatever that does."""
    batch: float | None
    """Requests."""
    tokens: float | None
    """New ones."""
    context: float | None
    """Tokens that a request attends to."""
    tokens_per_s: float | None
    """New tokens by the time until the next iteration begins."""
    curve: tuple[Point, ...]

    @property
    def waits_for(self) -> str:
        """``gpu`` where one works for more than half of their time, else ``host``."""
        return "gpu" if (self.busy_percent or 0.0) > 100 * HALF else "host"


def phases(names: Sequence[str]) -> list[tuple[str, Ints]]:
    """The places of the iterations of each phase, the most first; none unless all are a server's iterations."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if (told := iteration_of(name)) is None:
            return []
        found.setdefault(told.phase, []).append(place)
    return sorted(((phase, np.array(rows)) for phase, rows in found.items()), key=lambda entry: -entry[1].size)


def lone(trace: Trace, slots: StepSlots) -> StepSlots:
    """All work of a recording without steps as that of the only iteration of a server in it, if there is one.

    When an iteration begins of which nothing before was recorded is not known: its work may have waited for others'.
    """
    names = trace.host.filter((pl.col("kind") == "annotation") & (pl.col("duration") > 0))["name"].cast(pl.String)
    served = [name for name in names.drop_nulls() if label_of(name) is not None]
    if not served or len({label_of(name) for name in served}) < len(served) or slots.start.size != 1:
        return slots
    # the longer of two names, where one server's range is around another's, has the sums of tokens
    return StepSlots((0,), (max(served, key=len),), slots.start, slots.end, marked=True)


def within_steps(trace: Trace) -> str | None:
    """What a server's iterations are called that the profiler's steps hold several of; None where they hold none."""
    if not trace.steps.height:
        return None
    names = trace.host.filter((pl.col("kind") == "annotation") & (pl.col("duration") > 0))["name"]
    told = Counter(mapped(names, label_of, None).drop_nulls())
    label, number = told.most_common(1)[0] if told else (None, 0)
    return None if label is None or number <= trace.steps.height else spoken(label)


_ATTENDS = re.compile(r"aten::_?scaled_dot_product(?:_\w+)?_attention(?:_for_cpu)?$")


def by_attention(trace: Trace, slots: StepSlots) -> StepSlots:
    """The steps of a program that generates tokens, named by the shapes of their attention; the slots if it does not.

    It does if each step attends with one number of tokens of each request, or with a prompt's and then with one, and
    some, to several, with one alone. Steps without attention keep their names.
    """
    if not slots.marked or not trace.steps.height:
        return slots
    host = trace.host
    calls = of_kinds(host["kind"], "operator") & host["input_shapes"].is_not_null().to_numpy()
    calls &= matching(host["name"], lambda name: _ATTENDS.match(name) is not None or "backward" in name.lower())
    told_by = ("name", "input_shapes", "concrete_inputs")
    found = host.select("start", *told_by)[calls.nonzero()[0]].with_columns(pl.col(told_by).cast(pl.String))
    if not found.height or found["name"].str.contains("[Bb]ackward").any():
        return slots
    sizes = {row: _attention_sizes(*row) for row in found.select(told_by[1:]).unique().iter_rows()}
    begins = trace.steps["start"].to_numpy()
    ends = begins + trace.steps["duration"].to_numpy()
    at = links.held_by(begins, ends, found["start"].to_numpy())
    told: dict[int, set[tuple[int, int, int, bool | None] | None]] = {}
    for row, given in zip(at.tolist(), found.select(told_by[1:]).iter_rows(), strict=True):
        told.setdefault(row, set()).add(sizes[given])
    names = trace.steps["name"].to_list()
    alone = False
    for row, several in told.items():
        if row < 0 or names[row] == BEFORE:  # of other kinds, such as a prefill and the warm-up of what is replayed
            continue
        known = [one for one in several if one is not None]
        parts = sorted({one[:2] for one in known}, key=lambda part: -part[1])
        if len(known) < len(several) or len(parts) > 2 or (len(parts) == 2 and parts[1][1] != 1):
            return slots
        names[row] = AND.join(_part([one for one in known if one[:2] == part]) for part in parts)
        alone |= len(parts) == 1 == known[0][1] < max(one[2] for one in known)
    name = dict(zip(trace.steps["index"].to_list(), names, strict=True))
    return replace(slots, name=tuple(name[index] for index in slots.index)) if alone else slots


def _part(known: list[tuple[int, int, int, bool | None]]) -> str:
    attended, causal = {one[2] for one in known}, {one[3] for one in known}
    to = attended.pop() if len(attended) == 1 else "several"
    mask = CAUSAL if causal == {True} else WHOLE if causal == {False} else ""
    return ATTENTION.format(*known[0][:2], to, mask)


def _attention_sizes(text: str, concrete: str | None) -> tuple[int, int, int, bool | None] | None:
    """Requests, new tokens of each, what they attend to, and whether causally; None where shapes are others."""
    try:
        query, key = json.loads(text)[:2]
        requests, _, new, _ = query
        return int(requests), int(new), int(key[2]), is_causal(concrete)
    except (ValueError, TypeError, IndexError, RecursionError):
        return None


LEAST_REPLAYS = 4
"""So many replays of a graph in a row, in each step, are iterations of their own."""


def replayed(trace: Trace) -> Trace | None:
    """The trace with each replay of the graph that a step replays in a row as a step, and what is between as others.

    An iteration lasts until the next replay is launched; the last one of a row, and one with other work behind it, as
    long as the others do in the middle, or until then where that comes less than as long after it. Without steps, rows
    of one graph follow each other. None where no graph is replayed so, or where half of the GPU's time is not its
    replays', counted without steps from the first of them on.
    """
    work, found = trace.device.filter(pl.col("kind") == "kernel"), graphs(trace)
    since = None if trace.steps.height else found["when"].min()
    among = work if since is None else work.filter(pl.col("start") >= since)
    if not found.height or 2 * found["ns"].sum() < among["duration"].sum():
        return None
    when, ended = found["when"].to_numpy(), int(found["ended"][-1])
    graph = found["graph"].to_numpy()
    more = np.sort(work.join(found, on="launch", how="anti")["start"].drop_nulls().to_numpy())
    if trace.steps.height:
        begins = trace.steps["start"].to_numpy()
        ends = begins + trace.steps["duration"].to_numpy()
    else:  # a row of one graph after the other
        begins = when[np.append(True, np.diff(graph) != 0)]
        begins[0] = min(work["start"].min(), begins[0])
        ends = np.append(begins[1:], ended)

    def works(begin: int, end: int) -> bool:
        return bool(np.searchsorted(more, begin) < np.searchsorted(more, end))

    parts = list[tuple[str, int, int]]()
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        inside = (when >= begin) & (when < end)
        own = when[inside].tolist()
        if len(own) < LEAST_REPLAYS or np.unique(graph[inside]).size > 1:
            return None
        period = int(np.median(np.diff(own)))
        before = BEFORE if since is not None and not parts else OTHER
        parts += [(before, begin, own[0])] if works(begin, own[0]) else []
        for at, until in pairwise([*own, end]):
            cut = at + period
            if until <= cut + period or (until < end and not works(cut, until)):
                cut = until
            parts += [(REPLAY, at, cut), *([(OTHER, cut, until)] if works(cut, until) else [])]
    names, start, last = zip(*parts, strict=True)
    return steps_at(trace, names, np.array(start), np.array(last))


COLUMNS: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "waits_for": pl.String(),
    **dict.fromkeys(
        ("busy_percent", "launches", "kernels", "gap_ns", "batch", "tokens", "context", "tokens_per_s"), pl.Float64()
    ),
}
SIZES: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "by": pl.String(),
    "least": pl.Float64(),
    "most": pl.Float64(),
    "steps": pl.Int64(),
    "mean_ns": pl.Float64(),
    "tokens_per_s": pl.Float64(),
}


def served(sel: Selection, slots: StepSlots, phase: str, rows: Ints) -> Served:
    """What is told of the iterations of a phase, which are these of the slots."""
    told = [found for row in rows.tolist() if (found := iteration_of(slots.name[row])) is not None]
    length = (slots.end - slots.start)[rows]
    steps = sel.trace.steps if sel.trace.steps.height else _one_step(slots)
    place = {index: row for row, index in enumerate(steps["index"].to_list())}
    own = np.array([place[slots.index[row]] for row in rows.tolist()])
    start = steps["start"].to_numpy()
    after = np.append(start[1:], start[-1])
    has_next = own < start.size - 1
    # the next one may be given out before the GPU has ended this one; the last has none after it
    until = np.maximum(np.where(has_next, after[own] - start[own], 0), length)
    gap = np.maximum(after - start - steps["duration"].to_numpy(), 0)[own][has_next]
    work = _work(sel.trace)
    busy = worked_ns(sel.trace, slots.start[rows], slots.end[rows])
    mine = work.filter(pl.col("step").is_in(own.tolist())) if sel.trace.steps.height else work
    launches = mine["launch"].n_unique() if work.height and mine["launch"].null_count() == 0 else None
    whole = (mine["kind"] == "graph").any()  # what a graph launched was not recorded
    return Served(
        busy_percent=100 * busy / int(length.sum()) if length.sum() and work.height else None,
        launches=None if launches is None else launches / rows.size,
        kernels=mine.filter(pl.col("kind") == "kernel").height / rows.size if work.height and not whole else None,
        gap_ns=float(gap.mean()) if gap.size else None,
        batch=_mean(told, _batch),
        tokens=_mean(told, _tokens),
        context=_mean(told, _context),
        tokens_per_s=_rate(phase, told, until),
        curve=_curve(phase, told, length, until),
    )


def _work(trace: Trace) -> pl.DataFrame:
    return trace.device.filter(pl.col("kind").is_in(WORK) & pl.col("start").is_not_null())


def worked_ns(trace: Trace, start: Ints, end: Ints) -> int:
    """How much of these stretches, which don't overlap, a GPU works."""
    work = _work(trace)
    busy = intervals.union(work["start"].to_numpy(), (work["start"] + work["duration"].fill_null(0)).to_numpy())
    return int(intervals.covered(busy, start, end).sum())


def _one_step(slots: StepSlots) -> pl.DataFrame:
    return pl.DataFrame({"index": slots.index, "start": slots.start, "duration": slots.end - slots.start})


def _batch(one: Iteration) -> float | None:
    return one.requests


def _tokens(one: Iteration) -> float | None:
    return one.tokens


def _context(one: Iteration) -> float | None:
    return one.context / one.requests if one.context is not None and one.requests else None


def _mean(told: list[Iteration], size: Callable[[Iteration], float | None]) -> float | None:
    values = [value for one in told if (value := size(one)) is not None]
    return fmean(values) if values and len(values) == len(told) else None


def _rate(phase: str, told: list[Iteration], until: Ints) -> float | None:
    """New tokens per second of these iterations; None where a number of tokens is not known."""
    known = [one.tokens for one in told if one.tokens is not None]
    spent = int(until.sum())
    return 1e9 * sum(known) / spent if phase in ALL_NEW and known and len(known) == len(told) and spent else None


def _curve(phase: str, told: list[Iteration], length: Ints, until: Ints) -> tuple[Point, ...]:
    """Time by the first of these sizes in which the iterations differ."""
    sizes = {"batch": _batch, "context": _context, "tokens": _tokens}
    order = ("batch", "context") if phase == DECODE else ("tokens", "batch", "context")
    for by in order:
        values = [value for one in told if (value := sizes[by](one)) is not None]
        if len(values) < len(told) or len(set(values)) < 2:
            continue
        size = np.array(values, np.float64)
        distinct, number = np.unique(size, return_inverse=True)
        if distinct.size > MOST_POINTS:
            rank = np.searchsorted(np.sort(size), size)
            number = np.unique(rank * MOST_POINTS // size.size, return_inverse=True)[1]
        points = []
        for each in range(int(number.max()) + 1):
            rows = np.flatnonzero(number == each)
            rate = _rate(phase, [told[row] for row in rows.tolist()], until[rows])
            points.append(
                Point(by, float(size[rows].min()), float(size[rows].max()), rows.size, float(length[rows].mean()), rate)
            )
        return tuple(points)
    return ()
