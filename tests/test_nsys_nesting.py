"""The event that began last of those that hold all of another, beside a search through all of them."""

from __future__ import annotations

import itertools

import numpy as np

from tracetui.parsers.nesting import LaneClock, enclosing, order


def brute(lane: list[int], start: list[int], end: list[int]) -> list[int]:
    """For each event the last one before it, in order, that holds all of it."""
    return [
        next((b for b in range(a - 1, -1, -1) if lane[b] == lane[a] and end[b] >= end[a]), -1) for a in range(len(lane))
    ]


def test_events_that_overlap_anyhow() -> None:
    for case in itertools.product([10, 200, 10**6], range(20)):
        span, seed = case
        random = np.random.default_rng(seed)
        size = int(random.integers(1, 120))
        lane = random.integers(0, 4, size)
        start = random.integers(-span, span, size)
        duration = random.integers(0, max(span // 5, 2), size)
        clock = LaneClock(4, start, start + duration)
        rows = order(lane, start, duration, clock)
        lane, start, end = lane[rows], start[rows], (start + duration)[rows]
        tree = enclosing(lane, start, end, clock)
        assert tree.parent.tolist() == brute(lane.tolist(), start.tolist(), end.tolist()), case
        depth = []
        for parent in tree.parent.tolist():
            depth.append(0 if parent < 0 else depth[parent] + 1)
        assert tree.depth.tolist() == depth, case
        assert not tree.cut.size, case

        when = random.integers(-span, span, 50)
        where = random.integers(0, 4, 50)
        found = tree.innermost_at(where, when)
        for row, at, time in zip(found.tolist(), where.tolist(), when.tolist(), strict=True):
            open_then = [n for n in range(size) if lane[n] == at and start[n] <= time < end[n]]
            assert row == (max(open_then) if open_then else -1), case


def test_nothing() -> None:
    none = np.empty(0, np.int64)
    tree = enclosing(none, none, none, LaneClock(0, none))
    assert tree.parent.size == tree.depth.size == 0
    assert tree.innermost_at(none, none).size == 0


def test_a_very_deep_tree() -> None:
    size = 100_000
    start = np.arange(size)
    end = 2 * size - start
    lane = np.zeros(size, np.int64)
    tree = enclosing(lane, start, end, LaneClock(1, start, end))
    assert tree.parent.tolist() == list(range(-1, size - 1))
    assert tree.depth[100] == 100
    assert tree.depth[-1] == np.iinfo(np.int16).max
