"""Stretches of time in groups, as arrays: which lie inside no other of their group, and what time they cover together.

Long recordings have millions of ranges, so nothing here makes a frame of them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct

from tracetui.analysis.attribution.calltree import dense, stable_order
from tracetui.analysis.base.intervals import joined
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import LaneClock

_NEVER = np.iinfo(np.int64).min
_FEW_GROUPS = 1 << 10
"""So many groups are gone through one after the other."""


class Spans(Struct, frozen=True):
    """Stretches ordered by group, then by start; times in ns."""

    group: Ints
    """Whole numbers from 0."""
    start: Ints
    end: Ints

    def take(self, chosen: Bools) -> Spans:
        """The chosen ones."""
        return self if chosen.all() else Spans(self.group[chosen], self.start[chosen], self.end[chosen])


def in_order(group: Ints, start: Ints, end: Ints) -> Spans:
    """Orders stretches by group, start, then the longer first; fast where starts ascend within groups already.

    Args:
        group: whole numbers from 0, one for each stretch.
        start: ns.
        end: ns.
    """
    if bool((group[1:] < group[:-1]).any()):
        order = stable_order(group)
        group, start, end = group[order], start[order], end[order]
    same = group[1:] == group[:-1]
    if bool((same & (start[1:] < start[:-1])).any()):
        order = np.lexsort((-end, start, group))
        return Spans(group[order], start[order], end[order])
    shorter_first = same & (start[1:] == start[:-1]) & (end[1:] > end[:-1])
    if shorter_first.any():
        order = np.lexsort((-end, start, group))
        end = end[order]  # only stretches with the same group and start change places
    return Spans(group, start, end)


def regrouped(spans: Spans, group: Ints) -> Spans:
    """The same stretches in other groups, each of several old ones, by start; ties stay in any order."""
    start, end = spans.start, spans.end
    if _same_groups(spans.group, group):
        return Spans(group, start, end)
    clock = LaneClock(int(group.max(initial=-1)) + 1, start, end)
    key = clock.key(group, start)
    if bool((key[1:] >= key[:-1]).all()):
        return Spans(group, start, end)
    order = np.argsort(key, kind="stable")  # the old groups are runs in order, which this sort merges
    return Spans(group[order], start[order], end[order])


def _same_groups(old: Ints, new: Ints) -> bool:
    """Whether each new group is one old group, and they follow each other in the same order."""
    changes = new[1:] != new[:-1]
    return bool((changes == (old[1:] != old[:-1])).all()) and bool((new[1:][changes] > new[:-1][changes]).all())


def outermost(ordered: Spans, reached: Ints | None = None) -> Bools:
    """Which stretches are not inside another one of their group.

    Args:
        ordered: the stretches.
        reached: `reached_before`, if it is known.
    """
    reached = reached_before(ordered) if reached is None else reached
    at_its_end = (ordered.start == reached) & (ordered.end == reached)  # an instant, right behind another
    found: Bools = (ordered.end > reached) | at_its_end
    return found


def union(ordered: Spans, reached: Ints | None = None) -> Spans:
    """The time that lies in at least one stretch of its group, as disjoint stretches.

    Args:
        ordered: the stretches.
        reached: `reached_before`, if it is known.
    """
    lasting = ordered.take(ordered.end > ordered.start)
    if reached is None or lasting is not ordered:
        reached = reached_before(lasting)
    first, start, end = joined(lasting.start, lasting.end, reached)
    return lasting if first.size == lasting.start.size else Spans(lasting.group[first], start, end)


def dense_groups(label: Ints) -> tuple[Ints, Ints]:
    """The labels that may occur, ascending, and for each row the place of its label among them.

    Labels with many gaps are numbered anew, so that keys of group and time fit.
    """
    highest = int(label.max(initial=-1))
    if highest <= 4 * label.size:
        return np.arange(highest + 1), label
    number, found = dense(label)
    return found, number


def per_group(ordered: Spans, values: Ints | Bools, groups: int) -> Ints:
    """The sum of the values of each group from 0 to `groups`."""
    return between(values, *(np.searchsorted(ordered.group, np.arange(groups) + more) for more in (0, 1)))


def between(values: Ints | Bools, low: Ints, high: Ints) -> Ints:
    """The sum of ``values[low:high]`` of each pair."""
    running = np.zeros(values.size + 1, np.int64)
    np.cumsum(values, out=running[1:])
    found: Ints = running[high] - running[low]
    return found


def reached_before(spans: Spans) -> Ints:
    """How far what stands before each in its group reaches; before the first of a group the smallest number."""
    group, end = spans.group, spans.end
    reached = np.empty(end.size, np.int64)
    if not end.size:
        return reached
    edges = np.flatnonzero(group[1:] != group[:-1]) + 1
    if edges.size < _FEW_GROUPS:
        for begin, stop in pairwise([0, *edges.tolist(), end.size]):
            np.maximum.accumulate(end[begin : stop - 1], out=reached[begin + 1 : stop])
    else:
        clock = LaneClock(int(group[-1]) + 1, end)
        key = clock.key(group, end)
        # the row of the end that is the largest so far: keys of a later group are larger than all before it
        farthest = np.where(key > np.append(_NEVER, np.maximum.accumulate(key)[:-1]), np.arange(end.size), 0)
        reached[1:] = end[np.maximum.accumulate(farthest)[:-1]]
    reached[0] = _NEVER
    reached[edges] = _NEVER
    return reached
