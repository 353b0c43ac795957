"""One step as lanes: each lane is as busy as the events of the timeline make it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from tests.sample_runs import FP32, GPT
from tracetui.analysis.base import intervals
from tracetui.analysis.overview import overview
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.step_lanes import step_lanes, typical_step
from tracetui.parsers import open_path

if TYPE_CHECKING:
    from pathlib import Path

CALLS = ("operator", "dataloader", "runtime", "driver", "overhead")
WORK = ("kernel", "memcpy", "memset", "graph")


def covered(frame: pl.DataFrame, start: int, end: int) -> int:
    """ns of a stretch in which at least one of the events runs."""
    begin = np.maximum(frame["start"].to_numpy(), start)
    until = np.minimum((frame["start"] + frame["duration"]).to_numpy(), end)
    left, right = intervals.union(begin[until > begin], until[until > begin])
    return int((right - left).sum())


@pytest.mark.parametrize("path", [FP32, GPT], ids=["vim", "gpt"])
def test_lanes_are_as_busy_as_their_events(path: Path) -> None:
    trace = open_path(path).main
    steps = overview(select(trace)).per_step
    row = steps.row(typical_step(steps), named=True)
    start, end = row["start"], row["start"] + row["duration_ns"]
    found = step_lanes(trace, start, end, 50)
    assert {one.lane.kind for one in found} >= {"calls", "stream"}
    for one in found:
        lane = one.lane
        assert len(one.busy) == 50
        if lane.kind == "calls":
            events = trace.host.filter(thread=lane.thread, process=lane.process).filter(pl.col("kind").is_in(CALLS))
        else:
            events = trace.device.filter(pl.col("kind").is_in(WORK), device=lane.device, stream=lane.stream)
        # an instant counts as 1 ns in a row, and edges of parts are rounded
        assert one.share == pytest.approx(covered(events, start, end) / (end - start), abs=1e-3)


def test_a_stretch_without_events_has_no_lanes() -> None:
    trace = open_path(FP32).main
    assert step_lanes(trace, 0, 1) == step_lanes(trace, 5, 5) == []


def test_the_typical_step_is_nearest_to_the_median() -> None:
    assert typical_step(pl.DataFrame({"duration_ns": [90, 10, 12, 11, 500]})) == 2
    assert typical_step(pl.DataFrame({"duration_ns": [7]})) == 0
