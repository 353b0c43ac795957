"""Finds which host event encloses which: parents, depths and ends of timed events on threads (*lanes*).

Everything here is vectorised over NumPy arrays of one length n, ordered by lane, start, then the longer first,
so that a parent always precedes its children. ``-1`` stands for "none" in arrays of row numbers.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.parsers.arrays import Bools, Ints

NONE = -1
BLOCK_ROWS = 1 << 13


class LaneClock:
    """Maps (lane, time) to one int64 that sorts like the pair, so that one search serves all lanes at once.

    If the times of a damaged file span too much for that, the ranks of the known times are used instead.
    """

    def __init__(self, lanes: int, *times: Ints) -> None:
        filled = [t for t in times if t.size]
        self._low = min((int(t.min()) for t in filled), default=0)
        high = max((int(t.max()) for t in filled), default=0)
        self._span = high - self._low + 2
        self._ranks: Ints | None = None
        if self._span * (lanes + 1) >= 2**62:
            self._ranks = np.unique(np.concatenate(filled))
            self._span = self._ranks.size + 2

    def key(self, lane: Ints, time: Ints) -> Ints:
        """One sortable key per (lane, time); times outside the known range count as just outside it."""
        if self._ranks is not None:
            offset = np.searchsorted(self._ranks, time, side="right").astype(np.int64)
        else:
            offset = time - self._low
            if offset.size and (offset.min() < -1 or offset.max() > self._span - 2):
                np.clip(offset, -1, self._span - 2, out=offset)
        offset += 1
        offset += self.floor(lane)
        return offset

    def floor(self, lane: Ints) -> Ints:
        """A key below all keys of the lane and above those of the lanes before it."""
        return lane * self._span

    def last_begun(self, keys: Ints, lane: Ints, time: Ints) -> Ints:
        """The last of these ascending keys on each lane until each time, or -1; a lane below 0 has none."""
        if not keys.size:
            return np.full(time.shape, NONE, np.int64)
        place: Ints = np.searchsorted(keys, self.key(lane, time), side="right") - 1
        place[(place < 0) | (lane < 0) | (keys[place] < self.floor(lane))] = NONE
        return place


def order(lane: Ints, start: Ints, duration: Ints, clock: LaneClock) -> Ints:
    """The permutation that puts events in lane, start, longer-first order."""
    key = clock.key(lane, start)
    if np.all(key[1:] > key[:-1]):
        return np.arange(key.size, dtype=np.int64)
    by_start = np.argsort(key, kind="stable")
    ordered = key[by_start]
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    if tied.size:
        rows = np.union1d(tied, tied + 1)
        among = by_start[rows]
        by_start[rows] = among[np.lexsort((-duration[among], key[among]))]
    return by_start


class Nesting(Struct, frozen=True):
    """The tree of a set of host events."""

    parent: Ints
    """Row of the innermost enclosing event, or -1."""
    depth: NDArray[np.int16]
    """How many events enclose the row."""
    end: Ints
    """The event's end, cut at its parent's."""
    cut: Ints
    """The rows whose end had to be cut."""
    key: Ints
    """The clock's key of each start, ascending."""
    clock: LaneClock

    def innermost_at(self, lane: Ints, time: Ints) -> Ints:
        """The innermost event in progress on each lane at each time, or -1; a negative lane has none."""
        row = self.clock.last_begun(self.key, lane, time)
        live, above = np.flatnonzero(row >= 0), self.parent
        for _ in range(_HIGH):
            live = live[self.end[row[live]] <= time[live]]
            row[live] = above[row[live]]
            live = live[row[live] >= 0]
            if not live.size:
                return row
        # no event ends after what is around it: leaps of halved length find the last one that has ended
        live = live[self.end[row[live]] <= time[live]]
        leaps = [above]
        while live.size and (above := np.where(above >= 0, above[above], NONE)).max(initial=NONE) >= 0:
            leaps.append(above)
        for above in reversed(leaps):
            further = above[row[live]]
            ended = (further >= 0) & (self.end[further] <= time[live])
            row[live[ended]] = further[ended]
        row[live] = self.parent[row[live]]
        return row


def nest(lane: Ints, start: Ints, duration: Ints, clock: LaneClock) -> Nesting:
    """Builds the tree of events that are already in `order`.

    The parent of an event is the last one before it that is still in progress at its start. An event that outlives its
    parent is cut at the parent's end: a profiler that never saw a call return writes that it lasts to the end of the
    recording, so the call would enclose everything that follows on its thread.
    """
    parent, end = parents(lane, start, duration)
    cut = np.flatnonzero(end < start + duration)
    return Nesting(parent, _depth(lane, start, end, clock), end, cut, clock.key(lane, start), clock)


def parents(lane: Ints, start: Ints, duration: Ints) -> tuple[Ints, Ints]:
    """The parent and the end of each event, as in `nest`."""
    own_end = start + duration
    end = own_end.copy()
    parent = _predecessors(lane)
    suspects = np.flatnonzero(parent >= 0)
    _climb_to_open(parent, start, end, suspects)
    suspects = np.flatnonzero((parent >= 0) & (end > end[parent]))  # few, if any
    while suspects.size:
        above = parent[suspects]
        cut_end = np.minimum(own_end[suspects], np.where(above >= 0, end[above], np.iinfo(np.int64).max))
        moved = cut_end != end[suspects]
        rows, cut_end = suspects[moved], cut_end[moved]
        has_grown = bool(np.any(cut_end > end[rows]))
        end[rows] = cut_end
        if has_grown:  # it was cut by one that has itself been cut since, so parents are searched again
            parent = _predecessors(lane)
            suspects = np.flatnonzero(parent >= 0)
        else:
            changed = np.zeros(start.size, np.bool_)
            changed[rows] = True
            suspects = np.flatnonzero(changed[parent] & (parent >= 0))
        _climb_to_open(parent, start, end, suspects)
    return parent, end


def enclosing(lane: Ints, start: Ints, end: Ints, clock: LaneClock) -> Nesting:
    """The tree of events in `order` without cutting any: the parent contains all of it, and began last.

    Events that overlap without one containing the other are siblings. The end of an event belongs to it.
    """
    parent = _predecessors(lane)
    # the events between a row and its candidate end before the row does, so a candidate's own candidate may follow
    _climb_to_open(parent, end - 1, end, np.flatnonzero(parent >= 0))
    nothing = np.empty(0, np.int64)
    return Nesting(parent, _narrow(depth_of(parent)), end, nothing, clock.key(lane, start), clock)


def latest_open(lane: Ints, start: Ints, duration: Ints, asked: Ints, time: Ints) -> Ints:
    """The last begun of the events in progress on each asked lane at each time, or -1; they are in any order."""
    clock = LaneClock(int(lane.max(initial=0)) + 1, start, start + duration)
    by = order(lane, start, duration, clock)
    row = enclosing(lane[by], start[by], (start + duration)[by], clock).innermost_at(asked, time)
    return np.append(by, NONE)[row]


def depth_of(parent: Ints) -> NDArray[np.int32]:
    """How many ancestors each row has; each round doubles the distance, so deep trees take few rounds."""
    depth = np.zeros(parent.size, np.int32)
    live = np.flatnonzero(parent >= 0)
    depth[live] = 1
    ancestor = parent.copy()
    while live.size:
        above = ancestor[live]
        gained, ancestor_above = depth[above], ancestor[above]
        depth[live] += gained
        ancestor[live] = ancestor_above
        live = live[ancestor_above >= 0]
    return depth


def _predecessors(lane: Ints) -> Ints:
    """The row before each on the same lane, or -1."""
    before = np.arange(-1, lane.size - 1, dtype=np.int64)
    before[1:][lane[1:] != lane[:-1]] = NONE
    return before


def _climb_to_open(parent: Ints, start: Ints, end: Ints, suspects: Ints) -> None:
    """Moves the parents of these rows up, in place, until each is one that has not ended at the row's start.

    All events between a row and its candidate have ended, so a candidate that has ended may be replaced by its own
    candidate: the distance doubles each round. This works block by block, since a block's rows and nearly all of their
    candidates fit in the cache.
    """
    for first in range(0, suspects.size, BLOCK_ROWS):
        rows = suspects[first : first + BLOCK_ROWS]
        candidate, begun = parent[rows], start[rows]
        while rows.size:
            closed = (candidate >= 0) & (end[candidate] <= begun)
            rows, begun = rows[closed], begun[closed]
            candidate = parent[candidate[closed]]
            parent[rows] = candidate


def _depth(lane: Ints, start: Ints, end: Ints, clock: LaneClock) -> NDArray[np.int16]:
    """The events that started before each row, minus those that have ended by then; an instant encloses nothing."""
    lasting = end > start
    begun: Ints = np.cumsum(lasting) - lasting
    ended = np.sort(clock.key(lane, end)[lasting])
    return _narrow(begun - np.searchsorted(ended, clock.key(lane, start), side="right"))


def _narrow(depth: NDArray[np.int32] | Ints) -> NDArray[np.int16]:
    """Depths in the host frame's type; depths beyond its largest number become that number."""
    narrow: NDArray[np.int16] = np.minimum(depth, np.iinfo(np.int16).max).astype(np.int16)
    return narrow


_MANY = 8
"""From one row in so many on, all rows together find their ancestors faster than each of these climbs to its own."""
_HIGH = 256
"""And where some have to climb further than this: a thread may nest tens of thousands of calls."""


def nearest(parent: Ints, wanted: Bools, rows: Ints) -> Ints:
    """For each of `rows`, the row itself or its closest ancestor for which `wanted` is true, or -1."""
    found: Ints = rows.copy()
    live = np.flatnonzero(found >= 0)
    for _ in range(_HIGH if rows.size * _MANY <= parent.size else 0):
        live = live[~wanted[found[live]]]
        found[live] = parent[found[live]]
        live = live[found[live] >= 0]
    if live.size:
        above = np.append(np.where(wanted, np.arange(parent.size), parent), NONE)  # the last row is no row's
        while ((further := above[above]) != above).any():
            above = further
        found[live] = above[found[live]]
    return found


def with_ancestors(parent: Ints, wanted: Bools) -> Bools:
    """Which rows are wanted or above one that is."""
    found, above = np.append(wanted, False), np.append(parent, NONE)
    while (above >= 0).any():  # each round doubles the distance
        found[above[found]] = True
        found[NONE] = False
        above = above[above]
    return found[:-1]
