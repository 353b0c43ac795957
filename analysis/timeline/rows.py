"""One row of a timeline: events by start, and what fills each cell of a screen, found without visiting every event.

All times are int64 ns. A *cell* is a stretch of time from one edge (included) to the next (excluded). An event
without a duration lasts 1 ns here, so that it has a place in some cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.parsers.arrays import Floats, Ints

Ids = NDArray[np.uint32]


NONE = -1
MOST_ROWS = 64
"""Deeper events share the last row."""
BLOCK = 32
_DIRECT = 4096
"""Up to this many events in view are compared one by one."""


class Cells(Struct, frozen=True):
    """What fills the cells of a row; arrays of one length."""

    count: Ints
    """Number of events that touch the cell; where events overlap, also those in between that have ended."""
    winner: Ints
    """Position in the row of the event with the most time in the cell, the first of equals; -1 where it is empty."""
    busy: Ints
    """How much of the cell is covered, ns."""


class Row(Struct, frozen=True):
    """Events that don't overlap, by start; only events too deep for a row of their own may overlap."""

    events: Ids
    """Their rows in the frame that they come from."""
    start: Ints
    done: Ints
    """Duration of all events before each; one more than there are events."""
    reach: Ints | None
    """Where events overlap: the latest end up to each."""
    best: Ids
    """The longest event of each block of `BLOCK`, by position."""

    @classmethod
    def of(cls, events: Ids, start: Ints, end: Ints) -> Row:
        """Makes a row of events that are in order."""
        lasting = np.maximum(end - start, 1)
        done = np.concatenate((np.zeros(1, np.int64), np.cumsum(lasting)))
        overlap = bool(np.any(start[1:] < end[:-1]))
        reach = np.maximum.accumulate(start + lasting) if overlap else None
        blocks = -(-start.size // BLOCK)
        padded = np.zeros(blocks * BLOCK, np.int64)
        padded[: start.size] = lasting
        best = padded.reshape(blocks, BLOCK).argmax(axis=1) + np.arange(blocks) * BLOCK
        return cls(events, start, done, reach, best.astype(np.uint32))

    @property
    def size(self) -> int:
        """How many events there are."""
        return int(self.start.size)

    def duration(self, at: Ints) -> Ints:
        """How long the events at these positions last, at least 1 ns."""
        lasting: Ints = self.done[at + 1] - self.done[at]
        return lasting

    def end(self, at: int) -> int:
        """When the event at a position ends."""
        return int(self.start[at] + self.done[at + 1] - self.done[at])

    def touching(self, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        """The first event that touches each stretch of time, and the first after the last."""
        after = np.searchsorted(self.start, end, side="left")
        if self.reach is not None:
            first = np.searchsorted(self.reach, begin, side="right")
        else:
            first = np.searchsorted(self.start, begin, side="left")
            before = np.maximum(first - 1, 0)
            if self.size:
                first -= (first > 0) & (self.start[before] + self.duration(before) > begin)
        return np.minimum(first, after), after

    def cells(self, edges: Ints) -> Cells:
        """What fills the cells between these ascending edges."""
        begin, end = edges[:-1], edges[1:]
        first, after = self.touching(begin, end)
        count = after - first
        winner = np.full(count.size, NONE, np.int64)
        busy = np.zeros(count.size, np.int64)
        full = np.flatnonzero(count > 0)
        if full.size:
            low, high = first[full], after[full] - 1
            begin, end = begin[full], end[full]
            left = np.maximum(begin - self.start[low], 0)
            right = np.maximum(self.start[high] + self.duration(high) - end, 0)
            busy[full] = np.clip(self.done[high + 1] - self.done[low] - left - right, 1, end - begin)
            head = np.minimum(self.start[low] + self.duration(low), end) - np.maximum(self.start[low], begin)
            tail = np.minimum(self.start[high] + self.duration(high), end) - np.maximum(self.start[high], begin)
            chosen = np.where(tail > head, high, low)
            many = np.flatnonzero(high - low > 1)
            if many.size:
                inner = self._longest(low[many] + 1, high[many])
                most = np.maximum(head, tail)[many]
                stop = np.minimum(self.start[inner] + self.duration(inner), end[many])
                longer = stop - np.maximum(self.start[inner], begin[many])
                # an event in between began before the last one, so among equals it is the earlier
                wins = (longer > most) | ((longer == most) & (chosen[many] == high[many]))
                chosen[many[wins]] = inner[wins]
            winner[full] = chosen
        return Cells(count, winner, busy)

    def _longest(self, low: Ints, high: Ints) -> Ints:
        """The longest event of each stretch of positions (`high` excluded, none empty), the first of equals."""
        if int((high - low).sum()) <= _DIRECT:
            return self._compared(low, high)
        first, last = -(-low // BLOCK), high // BLOCK
        short = last <= first
        longest = np.empty(low.size, np.int64)
        if short.any():
            longest[short] = self._compared(low[short], high[short])
        rest = np.flatnonzero(~short)
        if rest.size:
            low, high, first, last = low[rest], high[rest], first[rest], last[rest]
            inner = self._compared(first, last, self.best)
            # in order of position, so that argmax takes the first of equals
            edge = np.minimum(low[:, None] + np.arange(BLOCK), (first * BLOCK)[:, None])
            rim = np.minimum((last * BLOCK)[:, None] + np.arange(BLOCK), (high - 1)[:, None])
            tried = np.concatenate((edge, inner[:, None], rim), axis=1)
            # where an edge or a rim has no events, its entries are outside or already there
            inside = (tried >= low[:, None]) & (tried < high[:, None])
            tried = np.where(inside, tried, inner[:, None])
            lasting = self.duration(tried)
            top = lasting.max(axis=1, keepdims=True)
            longest[rest] = np.where(lasting == top, tried, np.iinfo(np.int64).max).min(axis=1)
        return longest

    def _compared(self, low: Ints, high: Ints, positions: Ids | None = None) -> Ints:
        """The longest event of each stretch, found by comparing all of them; of `positions`, where given."""
        counts = high - low
        starts = np.cumsum(counts) - counts
        at = np.arange(int(counts.sum())) - np.repeat(starts - low, counts)
        if positions is not None:
            at = positions[at].astype(np.int64)
        lasting = self.duration(at)
        top = np.repeat(np.maximum.reduceat(lasting, starts), counts)
        earliest: Ints = np.minimum.reduceat(np.where(lasting == top, at, np.iinfo(np.int64).max), starts)
        return earliest

    def at(self, time: int) -> int:
        """The position of the event under way at a time (of several, the one begun last), or -1."""
        first, after = self.touching(np.array([time]), np.array([time + 1]))
        for position in range(int(after[0]) - 1, int(first[0]) - 1, -1):
            if self.end(position) > time:
                return position
        return NONE

    def nearest(self, time: int) -> int:
        """The position of the event under way at a time, or else of the one closest to it; -1 in an empty row."""
        if (found := self.at(time)) != NONE or not self.size:
            return found
        after = int(np.searchsorted(self.start, time, side="right"))
        near = [p for p in (after - 1, after) if 0 <= p < self.size]
        return min(near, key=lambda p: max(int(self.start[p]) - time, time - self.end(p)))

    def position(self, event: int, start: int) -> int:
        """The position of an event with this start, or -1."""
        low, high = np.searchsorted(self.start, [start, start + 1])
        found = np.flatnonzero(self.events[low:high] == event)
        return int(low + found[0]) if found.size else NONE


def rows_of(events: Ids, start: Ints, end: Ints) -> tuple[list[Row], NDArray[np.uint8]]:
    """Distributes events to rows: an event inside another goes below it, and so does one that merely overlaps another.

    Args:
        events: their rows in the frame that they come from.
        start: when they begin, ascending, the longer first among equals.
        end: when they end.

    Returns:
        The rows, and which of them each event is in.
    """
    if not start.size:
        return [], np.empty(0, np.uint8)
    depth = _depths(start, end)
    if _collide(depth, start, end):
        depth = _first_fit(start, end)
    shallow = np.minimum(depth, MOST_ROWS - 1).astype(np.uint8)
    by_row = np.argsort(shallow, kind="stable")  # NumPy sorts bytes by radix sort
    bounds = np.searchsorted(shallow[by_row], np.arange(int(shallow.max()) + 2))
    rows = []
    for low, high in pairwise(bounds.tolist()):
        chosen = by_row[low:high]
        rows.append(Row.of(events[chosen], start[chosen], end[chosen]))
    return rows, shallow


def _depths(start: Ints, end: Ints) -> Ints:
    """For each event, how many began before it and have not ended by then; an instant encloses nothing."""
    lasting = end > start
    begun: Ints = np.cumsum(lasting) - lasting
    depth: Ints = begun - np.searchsorted(np.sort(end[lasting]), start, side="right")
    return depth


def _collide(depth: Ints, start: Ints, end: Ints) -> bool:
    """Whether two events of one depth overlap: not all of them nest."""
    order = np.argsort(depth, kind="stable")
    same = depth[order][1:] == depth[order][:-1]
    return bool(np.any(same & (start[order][1:] < end[order][:-1])))


def _first_fit(start: Ints, end: Ints) -> Ints:
    """For each event the highest row that is free when it begins."""
    depth = np.empty(start.size, np.int64)
    free: list[int] = []
    open_until: list[tuple[int, int]] = []
    rows = 0
    for number, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_until and open_until[0][0] <= begin:
            heappush(free, heappop(open_until)[1])
        if free:
            row = heappop(free)
        else:
            row, rows = rows, rows + 1
        depth[number] = row
        heappush(open_until, (finish, row))
    return depth


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one GPU over time."""

    device: int
    name: str
    unit: str
    """``%``, ``MHz``, …; may be empty."""
    time: Ints
    """Ascending, ns on the trace's clock; a sample is about the time since the one before it."""
    value: Floats

    def __post_init__(self) -> None:
        """Adds up once, so that any stretch is fast."""
        running = np.append(0.0, np.cumsum(self.value[1:] * np.diff(self.time)))
        object.__setattr__(self, "_running", running)

    @property
    def top(self) -> float:
        """The value that a full cell stands for: 100 for a share, else the largest."""
        return 100.0 if self.unit == "%" else float(self.value.max(initial=0.0))

    def means(self, edges: Ints) -> Floats:
        """The mean in each cell between these ascending edges, over the time that samples cover; NaN where none do."""
        at = np.clip(edges, self.time[0], self.time[-1])
        running: Floats = self._running  # type: ignore[attr-defined]
        sums, covered = np.diff(np.interp(at, self.time, running)), np.diff(at).astype(np.float64)
        means: Floats = np.divide(sums, covered, out=np.full(sums.size, np.nan), where=covered > 0)
        return means
