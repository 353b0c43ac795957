"""Numbers, orders and choices of many rows at once, against the plain form of each."""

from __future__ import annotations

import numpy as np
import polars as pl
from sample_runs import recorded

from tracetui.analysis.attribution.calltree import lane_order, numbered_by
from tracetui.analysis.base import intervals
from tracetui.analysis.selection import Scope, select
from tracetui.parsers import open_path

RANDOM = np.random.default_rng(7)


def test_combinations_are_numbered_in_their_order_null_first() -> None:
    rows = pl.DataFrame(
        {"process": [7, 7, None, 7, -1], "thread": [1 << 40, 3, 3, None, 3], "same": [5, 5, 5, 5, 5]},
        schema={"process": pl.Int64, "thread": pl.Int64, "same": pl.Int64},
    )
    assert numbered_by(rows, ("process", "same", "thread")).tolist() == [4, 3, 0, 2, 1]
    assert numbered_by(rows, ("same",)).tolist() == [0] * 5
    assert numbered_by(rows.clear(), ("process", "thread")).size == 0


def test_rows_are_ordered_by_lane_start_and_the_longer_first() -> None:
    for ascending in (True, False):
        lane, start = RANDOM.integers(0, 3, 200), RANDOM.integers(0, 60, 200)
        end = start + RANDOM.integers(0, 5, 200)
        if ascending:
            start = np.sort(start)
            end = start + RANDOM.integers(0, 5, 200)
        order = lane_order(lane, start, end)
        assert sorted(order.tolist()) == list(range(200))
        placed = list(zip(lane[order].tolist(), start[order].tolist(), (-end[order]).tolist(), strict=True))
        assert placed == sorted(placed)


def test_times_within_a_set_of_time() -> None:
    within = intervals.union(np.array([5, 10, 12]), np.array([7, 13, 20]))
    times = np.arange(25)
    wanted = [any(low <= time < high for low, high in ((5, 7), (10, 20))) for time in times.tolist()]
    assert intervals.contains(within, times).tolist() == wanted
    assert not intervals.contains(intervals.empty(), times).any()


def test_host_rows_of_steps_are_those_begun_in_one() -> None:
    trace = open_path(recorded("small_vit_train.pt.trace.json.gz")).main
    index = trace.steps["index"]
    for steps in ((index[1], index[1]), (index[0], index[-1])):
        sel = select(trace, Scope(steps=steps))
        spans = list(sel.steps.select("start", end=pl.col("start") + pl.col("duration")).iter_rows())
        begun = [any(low <= at < high for low, high in spans) for at in trace.host["start"].to_list()]
        assert any(begun)
        assert sel.host["row"].to_list() == np.flatnonzero(begun).tolist()
