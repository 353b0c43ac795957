"""Chosen kinds of host events as trees, one per thread: what is inside what, and sums over it.

The rows of `schema.HOST` stand in the order of a walk through each thread's tree, so a node's descendants are the
nodes right after it: sums over subtrees are differences of one running sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.categories import encode
from tracetui.parsers.links import lookup
from tracetui.parsers.nesting import LaneClock, nest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints

    Bools = NDArray[np.bool_]

NONE = -1


@dataclass(frozen=True, slots=True)
class CallTree:
    """Nodes in the order of a depth-first walk, thread by thread."""

    rows: Ints
    """The host row of each node."""
    start: Ints
    duration: Ints
    parent: Ints
    """The node that encloses each most closely, or -1."""
    last: Ints
    """The first node after each one's descendants."""

    def nodes_of(self, host_rows: Ints) -> Ints:
        """The node of each host row, or -1 where the row is negative or no node."""
        return lookup(self.rows, host_rows)

    def of_children(self, values: Ints) -> Ints:
        """For each node, the sum of its direct children's values."""
        return add_up(self.parent, values, self.rows.size)

    def with_descendants(self, values: Ints) -> Ints:
        """For each node, its own value and those of all its descendants."""
        running = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
        total: Ints = running[self.last] - running[:-1]
        return total

    def outermost(self, label: Ints) -> Bools:
        """Which nodes have no ancestor of the same label (a whole number from 0): recursion counts once."""
        size = self.rows.size
        if not size:
            return np.zeros(0, np.bool_)
        order = stable_order(label)
        # labels apart, nodes in walk order within each: an ancestor's `last` is the largest seen so far
        base = label[order].astype(np.int64) * (size + 1)
        reached = np.maximum.accumulate(base + self.last[order])
        inside = np.zeros(size, np.bool_)
        inside[order[1:]] = reached[:-1] > base[1:] + order[1:]
        return ~inside


def call_tree(host: pl.DataFrame, kinds: tuple[str, ...], also: Bools | None = None) -> CallTree:
    """The trees of all rows of these kinds, and of the rows marked in `also`."""
    kind = host["kind"].to_physical().to_numpy()
    chosen = np.zeros(len(schema.HOST_KINDS), np.bool_)
    chosen[[schema.HOST_KINDS.index(name) for name in kinds]] = True
    mask = chosen[kind] if also is None else chosen[kind] | also
    rows = np.flatnonzero(mask)
    start = host["start"].to_numpy()[rows]
    duration = host["duration"].to_numpy()[rows]
    lane = _lanes(host, rows)
    lanes = int(lane[-1]) + 1 if lane.size else 0
    clock = LaneClock(lanes, start, start + duration)
    if also is not None:
        order = np.lexsort((-duration, start, lane))
        rows, start, duration, lane = rows[order], start[order], duration[order], lane[order]
    nesting = nest(lane, start, duration, clock)
    last = np.searchsorted(nesting.key, clock.key(lane, nesting.end), side="left").astype(np.int64)
    last = np.maximum(last, np.arange(1, rows.size + 1))
    return CallTree(rows, start, nesting.end - start, nesting.parent, last)


def add_up(group: Ints, values: Ints, size: int) -> Ints:
    """The sum of the values of each group from 0 to `size`; a negative group counts nowhere.

    Exact: `np.bincount` adds in float64, so the values go in two halves.
    """
    member = group >= 0
    if not member.all():
        group, values = group[member], values[member]
    low = values & 0xFFFFFFF
    total = np.bincount(group, weights=low, minlength=size).astype(np.int64)
    high = values >> 28
    if high.any():
        total += np.bincount(group, weights=high, minlength=size).astype(np.int64) << 28
    return total


def count(group: Ints, size: int) -> Ints:
    """How often each group from 0 to `size` occurs; a negative group counts nowhere."""
    return np.bincount(group[group >= 0], minlength=size).astype(np.int64)


def dense(codes: NDArray[np.uint32] | Ints) -> tuple[Ints, Ints]:
    """Numbers from 0 in place of codes, and the code of each number."""
    if not codes.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    present = np.zeros(int(codes.max()) + 1, np.bool_)
    present[codes] = True
    found = np.flatnonzero(present)
    number = np.zeros(present.size, np.int64)
    number[found] = np.arange(found.size)
    return number[codes], found


def stable_order(label: Ints) -> Ints:
    """A stable argsort of whole numbers from 0; quick where they fit 16 bits."""
    if label.size and int(label.max()) < 1 << 16:
        return np.argsort(label.astype(np.uint16), kind="stable")
    return np.argsort(label, kind="stable")


def codes_of(names: pl.Series) -> NDArray[np.uint32]:
    """The category codes of names; null counts as the empty name."""
    codes = names.to_physical()
    if codes.null_count():
        codes = codes.fill_null(int(encode([""])[0]))
    values: NDArray[np.uint32] = codes.to_numpy()
    return values


def row_ids(column: pl.Series) -> Ints:
    """Row ids as int64 with -1 for null."""
    values: Ints = column.cast(pl.Int64).fill_null(NONE).to_numpy()
    return values


def _lanes(host: pl.DataFrame, rows: Ints) -> Ints:
    """Which thread each row is on, numbered in the order the threads come."""
    if not rows.size:
        return np.empty(0, np.int64)
    changes = np.zeros(rows.size, np.bool_)
    for column in ("process", "thread"):
        values = host[column].fill_null(NONE).to_numpy()[rows]
        changes[1:] |= values[1:] != values[:-1]
    return np.cumsum(changes)
