"""Parents and cut ends against a plain stack, on nested, overlapping, tied and empty events."""

from __future__ import annotations

import numpy as np

from tracetui.parsers.nesting import LaneClock, nearest, nest, order


def stack_walk(lane, start, end):
    """The definition, one event at a time: cut at the parent's end, parent = innermost still open."""
    parents, ends, depths, open_rows = [], [], [], []
    for row in range(len(start)):
        if row and lane[row] != lane[row - 1]:
            open_rows = []
        while open_rows and ends[open_rows[-1]] <= start[row]:
            open_rows.pop()
        parent = open_rows[-1] if open_rows else -1
        parents.append(parent)
        depths.append(len(open_rows))
        ends.append(min(end[row], ends[parent]) if parent >= 0 else end[row])
        if ends[row] > start[row]:
            open_rows.append(row)
    return parents, ends, depths


def test_matches_a_plain_stack():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 400))
        lane = np.sort(rng.integers(0, 4, n))
        start = rng.integers(0, rng.choice([10, 100, 10_000]), n)
        duration = rng.choice([0, 1, 5, 50, 5_000], n) * rng.integers(0, 4, n)
        clock = LaneClock(4, start, start + duration)
        rows = order(lane, start, duration, clock)
        lane, start, duration = lane[rows], start[rows], duration[rows]
        nesting = nest(lane, start, duration, clock)
        parents, ends, depths = stack_walk(lane.tolist(), start.tolist(), (start + duration).tolist())
        assert nesting.parent.tolist() == parents, seed
        assert nesting.end.tolist() == ends, seed
        assert nesting.depth.tolist() == depths, seed
        assert nesting.cut.tolist() == [row for row in range(n) if ends[row] < start[row] + duration[row]], seed


def test_a_call_that_never_returns_does_not_swallow_what_follows():
    start = np.array([0, 10, 12, 50, 55])
    duration = np.array([40, 20, 1_000, 40, 10])  # row 2 is written as lasting to the end of the recording
    lane = np.zeros(5, np.int64)
    nesting = nest(lane, start, duration, LaneClock(1, start, start + duration))
    assert nesting.parent.tolist() == [-1, 0, 1, -1, 3]
    assert nesting.end[2] == 30
    assert nesting.cut.tolist() == [2]


def test_order_puts_the_longer_of_equal_starts_first():
    start, duration = np.array([5, 5, 1]), np.array([1, 9, 2])
    lane = np.zeros(3, np.int64)
    assert order(lane, start, duration, LaneClock(1, start, start + duration)).tolist() == [2, 1, 0]


def test_times_of_a_damaged_file_do_not_overflow():
    start = np.array([0, 2**60, 5, 6])
    duration = np.array([10, 10, 20, 1])
    lane = np.array([0, 0, 7, 7])
    clock = LaneClock(8, start, start + duration)
    nesting = nest(lane, start, duration, clock)
    assert nesting.parent.tolist() == [-1, -1, -1, 2]
    assert nesting.innermost_at(np.array([0, 7, 7, 0]), np.array([3, 6, 40, -(2**60)])).tolist() == [0, 3, -1, -1]


def test_innermost_at_stays_in_its_lane():
    start, duration = np.array([0, 2, 100]), np.array([10, 3, 10])
    lane = np.array([0, 0, 1])
    nesting = nest(lane, start, duration, LaneClock(2, start, start + duration))
    at = nesting.innermost_at(np.array([0, 0, 0, 1, 1, -1]), np.array([3, 7, 11, 5, 105, 3]))
    assert at.tolist() == [1, 0, -1, -1, 2, -1]


def test_nearest_is_itself_or_the_closest_ancestor():
    parent = np.array([-1, 0, 1, 2])
    wanted = np.array([False, True, False, False])
    assert nearest(parent, wanted, np.array([3, 1, 0, -1])).tolist() == [1, 1, -1, -1]


def test_nothing_is_a_case():
    none = np.empty(0, np.int64)
    nesting = nest(none, none, none, LaneClock(0))
    assert nesting.parent.size == 0
    assert nesting.innermost_at(np.array([0]), np.array([1])).tolist() == [-1]


def test_a_very_deep_tree_has_no_negative_depth():
    size = 40_000  # deeper than the host frame counts
    start = np.arange(size)
    duration = 2 * (size - start)
    lane = np.zeros(size, np.int64)
    nesting = nest(lane, start, duration, LaneClock(1, start, start + duration))
    assert nesting.parent.tolist() == list(range(-1, size - 1))
    assert nesting.depth.tolist() == [min(row, np.iinfo(np.int16).max) for row in range(size)]
