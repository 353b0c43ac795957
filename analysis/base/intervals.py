"""Sets of time, as sorted disjoint intervals: two int64 arrays of starts and ends.

Everything works on whole arrays. `union` makes such a set out of any intervals; the other functions take sets.
Ends are exclusive, touching intervals are one, and empty intervals hold no time and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tracetui.parsers.arrays import Bools, Ints

Intervals: TypeAlias = tuple[Ints, Ints]


_FEW_RUNS = 256


def empty() -> Intervals:
    """No time at all."""
    return np.empty(0, np.int64), np.empty(0, np.int64)


def union(start: Ints, end: Ints) -> Intervals:
    """All time that lies in at least one interval.

    Events that stand in order thread by thread (as in `schema.HOST`) are merged thread by thread first: that leaves
    little to sort.
    """
    lasting = end > start
    if not lasting.all():
        start, end = start[lasting], end[lasting]
    if start.size < 2:
        return start.copy(), end.copy()
    breaks = np.flatnonzero(start[1:] < start[:-1]) + 1
    if not breaks.size:
        return _merge(start, end)
    if breaks.size < _FEW_RUNS:
        edges = [0, *breaks.tolist(), start.size]
        runs = [_merge(start[a:b], end[a:b]) for a, b in pairwise(edges)]
        start, end = np.concatenate([run[0] for run in runs]), np.concatenate([run[1] for run in runs])
    order = np.argsort(start, kind="stable")
    return _merge(start[order], end[order])


def _merge(start: Ints, end: Ints) -> Intervals:
    """`union` of intervals whose starts ascend."""
    reached = np.empty(end.size, np.int64)
    reached[0] = np.iinfo(np.int64).min
    np.maximum.accumulate(end[:-1], out=reached[1:])
    return joined(start, end, reached)[1:]


def joined(start: Ints, end: Ints, reached: Ints) -> tuple[Ints, Ints, Ints]:
    """The first of each run of intervals that overlap or touch, and the runs' starts and ends.

    Args:
        start: starts, ascending within each group.
        end: ends; no interval is empty.
        reached: how far what stands before each in its group reaches; the smallest number before the first of a group.
    """
    first = np.flatnonzero(start > reached)
    last = np.append(first, end.size)[1:] - 1
    return first, start[first], np.maximum(reached[last], end[last])


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Time that lies in both."""
    if not a[0].size or not b[0].size:
        return empty()
    if a[0].size > b[0].size:
        a, b = b, a
    first = np.searchsorted(b[1], a[0], side="right")
    counts = np.maximum(np.searchsorted(b[0], a[1], side="left") - first, 0)
    total = int(counts.sum())
    if not total:
        return empty()
    of_a = np.repeat(np.arange(counts.size), counts)
    of_b = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + first[of_a]
    return np.maximum(a[0][of_a], b[0][of_b]), np.minimum(a[1][of_a], b[1][of_b])


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Time of `a` that is not in `b`."""
    if not a[0].size or not b[0].size:
        return a
    bounds = np.iinfo(np.int64)
    outside = np.concatenate(([bounds.min], b[1])), np.concatenate((b[0], [bounds.max]))
    return intersect(a, outside)


def at_once(sets: Sequence[Intervals]) -> tuple[Ints, Ints]:
    """Moments, and how many of these sets hold from each until the next."""
    edges = [(edge, np.full(edge.size, step)) for a in sets for edge, step in zip(a, (1, -1), strict=True)]
    at, by = (np.concatenate([np.empty(0, np.int64), *of]) for of in zip(*edges, strict=True)) if edges else empty()
    order = np.lexsort((by, at))
    return at[order], np.cumsum(by[order])


def overlapping(sets: Sequence[Intervals], least: int) -> Intervals:
    """Time that lies in so many of these sets at once, or more."""
    at, running = at_once(sets)
    many = np.flatnonzero(running[:-1] >= least)
    return union(at[many], at[many + 1])


def length(a: Intervals) -> int:
    """How long the set lasts altogether, ns."""
    return int((a[1] - a[0]).sum())


def covered(a: Intervals, start: Ints, end: Ints) -> Ints:
    """How much of each stretch from `start` to `end` lies in `a`, ns; stretches may overlap."""
    if not a[0].size:
        return np.zeros(start.shape, np.int64)
    inside: Ints = np.maximum(_before(a, end) - _before(a, start), 0)
    return inside


def contains(a: Intervals, time: Ints) -> Bools:
    """Which of these times lie in `a`."""
    if not a[0].size:
        return np.zeros(time.shape, np.bool_)
    place = np.searchsorted(a[0], time, side="right") - 1
    inside: Bools = (place >= 0) & (time < a[1][place])
    return inside


def _before(a: Intervals, time: Ints) -> Ints:
    """How much of `a` lies before each time."""
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(a[1] - a[0])))
    ends = np.concatenate(([np.iinfo(np.int64).min], a[1]))
    if (time[1:] >= time[:-1]).all():  # times in order are cut by the intervals' starts, which are fewer
        following = np.diff(np.searchsorted(time, a[0]), prepend=0, append=time.size)
        sums, ends = np.repeat(sums, following), np.repeat(ends, following)
    else:
        begun = np.searchsorted(a[0], time, side="right")
        sums, ends = sums[begun], ends[begun]
    before: Ints = sums - (np.maximum(ends, time) - time)
    return before
