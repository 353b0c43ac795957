"""Trees of chosen kinds of host events, one per thread: which event contains which, and sums over subtrees.

The rows of `schema.HOST` stand in the order of a walk through each thread's tree, so a node's descendants are the
nodes right after it: sums over subtrees are differences of one running sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.analysis.base.remembered import latest
from tracetui.parsers import schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.categories import encode
from tracetui.parsers.nesting import LaneClock, nearest, parents

NONE = -1
_MOST_LEVELS = 1 << 10
_EXACT = float(1 << 52)
"""Whole numbers whose sum stays below this add up exactly in float64."""
_NO_ROW = 0xFFFFFFFF
_NULL = np.iinfo(np.int64).min


class CallTree(Struct, frozen=True):
    """Nodes in the order of a depth-first walk, thread by thread."""

    rows: Ints
    """The host row of each node."""
    start: Ints
    duration: Ints
    parent: Ints
    """The closest node that encloses each node, or -1."""
    last: Ints
    """For each node, the first node after its descendants."""

    def nodes_of(self, host_rows: Ints) -> Ints:
        """The node of each host row, or -1 where the row is negative or is not a node."""
        place = np.full(int(self.rows.max(initial=NONE)) + 2, NONE)
        place[self.rows] = np.arange(self.rows.size)
        found: Ints = place[np.minimum(host_rows, place.size - 1)]
        return found

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
        # sorted by label, then in walk order, so an ancestor's `last` is the largest seen so far within its label
        base = label[order].astype(np.int64) * (size + 1)
        reached = np.maximum.accumulate(base + self.last[order])
        inside = np.zeros(size, np.bool_)
        inside[order[1:]] = reached[:-1] > base[1:] + order[1:]
        return ~inside


def call_tree(host: pl.DataFrame, kinds: tuple[str, ...], *, nested: bool = False) -> CallTree:
    """Builds the trees of all rows of these kinds.

    Args:
        host: `schema.HOST`.
        kinds: the kinds of host events to include.
        nested: the kinds are calls whose parents in the frame come from `nesting.nest`, which cuts each call at its
            parent's end. The tree is then already known: a call's parent is its nearest chosen ancestor.
    """
    kind = host["kind"].to_physical().to_numpy()
    chosen = np.zeros(len(schema.HOST_KINDS), np.bool_)
    chosen[[schema.HOST_KINDS.index(name) for name in kinds]] = True
    mask = chosen[kind]
    rows = np.flatnonzero(mask)
    start = host["start"].to_numpy()[rows]
    duration = host["duration"].to_numpy()[rows]
    if not rows.size:
        return CallTree(rows, start, duration, rows.copy(), rows.copy())
    if nested:
        above = nearest(parents_of(host), mask, parents_of(host)[rows])
        parent = np.where(above >= 0, (np.cumsum(mask) - 1)[above], NONE)
        depth = host["depth"].to_numpy()[rows]
        if rows.size and depth.max() < _MOST_LEVELS:
            return CallTree(rows, start, duration, parent, _last(parent, depth))
    lane = lanes_of(host)[rows]
    lanes = int(lane[-1]) + 1 if lane.size else 0
    clock = LaneClock(lanes, start, start + duration)
    parent, end = parents(lane, start, duration)
    last = np.searchsorted(clock.key(lane, start), clock.key(lane, end), side="left").astype(np.int64)
    last = np.maximum(last, np.arange(1, rows.size + 1))
    return CallTree(rows, start, end - start, parent, last)


def _last(parent: Ints, depth: NDArray[np.int16]) -> Ints:
    """For each node, the first node after its descendants, computed from the deepest nodes up."""
    size = np.ones(parent.size, np.int64)
    order = stable_order(depth)
    edges = np.cumsum(np.bincount(depth, minlength=1)).tolist()
    for begin, end in reversed(list(pairwise(edges))):
        level = order[begin:end]
        level = level[parent[level] >= 0]
        np.add.at(size, parent[level], size[level])
    return np.arange(parent.size) + size


def add_up(group: Ints, values: Ints, size: int) -> Ints:
    """Returns the sum of the values of each group from 0 to `size`; values of negative groups are ignored.

    Exact: `np.bincount` adds in float64, so large values go in two halves.
    """
    if values.size and int(values.min()) >= 0 and float(values.sum(dtype=np.float64)) < _EXACT:
        return np.bincount(np.maximum(group, NONE) + 1, weights=values, minlength=size + 1)[1:].astype(np.int64)
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
    """Counts how often each group from 0 to `size` occurs; negative groups are ignored."""
    return np.bincount(group[group >= 0], minlength=size).astype(np.int64)


def roll_up(parent: Ints, values: Ints) -> Ints:
    """Each path's own value and those of the paths below it; a parent's number is smaller than its children's."""
    total: Ints = values.copy()
    for number in range(parent.size - 1, -1, -1):
        if parent[number] >= 0:
            total[parent[number]] += total[number]
    return total


def merged_paths(above: Ints, label: Ints, labels: int) -> tuple[Ints, Ints, Ints]:
    """Gives nodes with one label and the same labels above them one path.

    Args:
        above: the node above each, or -1.
        label: of each node.
        labels: how many there are.

    Returns:
        The path number of each node; for each path the number of the path above, or -1, and its label. A parent's
        number is smaller than its children's, and paths of one depth are numbered by their first node, since labels
        are codes, which differ from one reading to the next.
    """
    path, most = np.full(above.size, NONE, np.int64), max(labels, 1)
    paths: list[Ints] = [np.empty(0, np.int64)]
    by_above = np.argsort(above, kind="stable")
    edges = np.searchsorted(above[by_above], np.arange(above.size + 1))
    level, size = by_above[: edges[0]], 0  # those without a node above
    while level.size:
        outer = np.where(above[level] >= 0, path[above[level]], NONE)
        distinct, first, number = np.unique((outer + 1) * most + label[level], return_index=True, return_inverse=True)
        order = np.argsort(first)
        path[level] = np.argsort(order)[number] + size
        paths.append(distinct[order])
        size += distinct.size
        first, inside = edges[level], edges[level + 1] - edges[level]
        slices = np.arange(int(inside.sum())) + np.repeat(first - np.cumsum(inside) + inside, inside)
        level = np.sort(by_above[slices])
    pairs = np.concatenate(paths)
    return path, pairs // most - 1, pairs % most


LONGEST_PATH = 1 << 10
"""Letters of a path: written in full, those of calls inside each other grow with the square of their number."""


def path_texts(parent: Ints, own: Iterable[str]) -> tuple[list[str], Ints]:
    """``train_step/forward_pass/matmul`` of each path, and how many are above it.

    Of a long one, ``…``, how many are above it, and its end.
    """
    texts: list[str] = []
    depth = np.zeros(parent.size, np.int64)
    for number, (above, name) in enumerate(zip(parent.tolist(), own, strict=True)):
        depth[number] = depth[above] + 1 if above >= 0 else 0
        text = name if above < 0 else f"{texts[above]}/{name}"
        texts.append(text if len(text) <= LONGEST_PATH else f"…{depth[number]}…{text[-LONGEST_PATH:]}")
    return texts, depth


def inside(parent: Ints, wanted: Bools) -> Bools:
    """Which paths are wanted or below one that is; a parent's number is smaller than its children's."""
    found: Bools = wanted.copy()
    for number, above in enumerate(parent.tolist()):
        found[number] |= above >= 0 and found[above]
    return found


def depth_first(parent: Ints, first: Ints) -> Ints:
    """Path numbers as a reader walks the tree: a path, then all below it; siblings by when they began first."""
    children: dict[int, list[int]] = {}
    for number in np.argsort(first, kind="stable")[::-1].tolist():
        children.setdefault(int(parent[number]), []).append(number)
    order: list[int] = []
    waiting = children.get(NONE, [])
    while waiting:
        order.append(waiting.pop())
        waiting.extend(children.get(order[-1], ()))
    return np.array(order, np.int64)


_SPARSE = 1 << 20


def dense(codes: NDArray[np.uint32] | Ints) -> tuple[Ints, Ints]:
    """Renumbers codes from 0; returns the numbers and the code of each number."""
    if not codes.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if int(codes.max()) > _SPARSE + 4 * codes.size:  # a table of all numbers would be far larger than the codes
        distinct, number = np.unique(codes, return_inverse=True)
        return number.astype(np.int64), distinct.astype(np.int64)
    present = np.zeros(int(codes.max()) + 1, np.bool_)
    present[codes] = True
    distinct = np.flatnonzero(present)
    number = np.zeros(present.size, np.int64)
    number[distinct] = np.arange(distinct.size)
    return number[codes], distinct


def numbered_by(rows: pl.DataFrame, columns: Iterable[str]) -> Ints:
    """A number from 0 for each combination of values in these columns of whole numbers; null is a value."""
    group = np.zeros(rows.height, np.int64)
    for column in columns:
        values = rows[column].fill_null(_NULL).to_numpy()
        if values.size and int(values.min()) < int(values.max()):
            number = _numbered(values)
            group = dense(group * (int(number.max()) + 1) + number)[0]
    return group


def _numbered(values: Ints) -> Ints:
    """Whole numbers from 0, the same for the same value; looks at each stretch of equal values only once."""
    if not values.size or (int(values.min()) >= 0 and int(values.max()) < values.size):
        return values
    heads = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    number = np.unique(values[heads], return_inverse=True)[1].astype(np.int64)
    return np.repeat(number, np.diff(np.append(heads, values.size)))


def stable_order(label: NDArray[np.signedinteger[Any]]) -> Ints:
    """A stable argsort of whole numbers from 0; fast where they fit in 16 bits."""
    if label.size and int(label.max()) < 1 << 16:
        return np.argsort(label.astype(np.uint16), kind="stable")
    return np.argsort(label, kind="stable")


def lane_order(lane: Ints, start: Ints, end: Ints) -> Ints:
    """The order by lane (a number from 0), then by start, then the longer first; fast where starts ascend already."""
    order = stable_order(lane)
    same = lane[order[1:]] == lane[order[:-1]]
    step = start[order[1:]] - start[order[:-1]]
    if (same & (step < 0)).any():
        return np.lexsort((-end, start, lane))
    tied = np.flatnonzero(same & (step == 0))
    if tied.size:
        rows = np.union1d(tied, tied + 1)
        among = order[rows]
        order[rows] = among[np.lexsort((-end[among], start[among], lane[among]))]
    return order


def codes_of(names: pl.Series) -> NDArray[np.uint32]:
    """The category codes of names; null counts as the empty name."""
    codes = names.to_physical()
    if codes.null_count():
        codes = codes.fill_null(int(encode([""])[0]))
    values: NDArray[np.uint32] = codes.to_numpy()
    return values


def row_ids(column: pl.Series) -> Ints:
    """Row ids as int64 with -1 for null."""
    if column.dtype == schema.RowId:
        # a frame has fewer rows than half the range of uint32, so the largest uint32 is free to stand for -1
        filled = column.fill_null(_NO_ROW) if column.null_count() else column
        return filled.to_numpy().view(np.int32).astype(np.int64)
    values: Ints = column.cast(pl.Int64).fill_null(NONE).to_numpy()
    return values


@latest
def parents_of(host: pl.DataFrame) -> Ints:
    """The row ids of a host frame's column ``parent``."""
    return row_ids(host["parent"])


@latest
def lanes_of(host: pl.DataFrame) -> Ints:
    """The thread of every host row as a number; threads are numbered in the order in which they appear."""
    changes = np.zeros(host.height, np.bool_)
    for column in ("process", "thread"):
        values = host[column]
        numbers = (values.fill_null(NONE) if values.null_count() else values).to_numpy()
        changes[1:] |= numbers[1:] != numbers[:-1]
    heads = np.append(0, np.flatnonzero(changes))
    lanes: Ints = np.repeat(np.arange(heads.size), np.diff(np.append(heads, host.height)))
    return lanes
