"""One step at a glance: how busy each thread, stream and copy engine is in equal parts of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.timeline.lanes import Lane, lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.base.json_values import Json
    from tracetui.parsers import Trace

PARTS = 120
"""Of a step."""
THREADS = 3
"""How many of the busiest threads are shown; a data loader may have dozens."""
STREAMS = 6
_KINDS = ("calls", "stream", "copies")
_HOST = ("kind", "start", "duration", "process", "thread")
_DEVICE = ("kind", "start", "duration", "device", "stream")
_IDLE = pl.DataFrame(schema={"device": pl.Int64, "start": pl.Int64, "duration": pl.Int64})


@dataclass(frozen=True, slots=True)
class BusyLane:
    """A lane of the timeline, divided into equal parts."""

    lane: Lane
    """The lane, without its rows of events."""
    busy: tuple[float, ...]
    """Share of each part in which something runs, 0 to 1."""

    @property
    def share(self) -> float:
        """Share of the whole stretch."""
        return sum(self.busy) / len(self.busy)


def typical_step(per_step: pl.DataFrame) -> int:
    """The row of the step whose duration is nearest to the median, the first of equals.

    Args:
        per_step: as in `Overview`, not empty.
    """
    apart = (per_step["duration_ns"] - per_step["duration_ns"].median()).abs()
    nearest = apart.arg_min()
    return 0 if nearest is None else nearest


def step_lanes(trace: Trace, start: int, end: int, parts: int = PARTS) -> list[BusyLane]:
    """The threads that work most, then the streams and the copies, as in the timeline; empty ones are left out.

    Args:
        trace: what happened.
        start: start of the stretch, ns on the trace's clock.
        end: its end, exclusive.
        parts: number of equal parts to divide it into.
    """
    if end <= start:
        return []
    touching = (pl.col("start") < end) & (pl.col("start") + pl.col("duration") > start)
    # rows of the two frames refer to each other by number; these references are not needed here
    none = pl.lit(None, trace.device.schema["launch"])
    device = trace.device.select(_DEVICE).filter(touching).with_columns(launch=none)
    host = trace.host.select(_HOST).filter(touching)
    part = replace(trace, host=host, device=device, steps=trace.steps.clear())
    edges = np.linspace(start, end, parts + 1).round().astype(np.int64)
    found = []
    for lane in lanes(part, _IDLE):
        if lane.kind in _KINDS:
            busy = _busy(lane, edges)
            if any(busy):
                found.append(BusyLane(replace(lane, rows=()), busy))
    threads = [one for one in found if one.lane.kind == "calls"]
    kept = sorted(threads, key=lambda one: -one.share)[:THREADS]
    return [one for one in threads if one in kept] + [one for one in found if one.lane.kind != "calls"][:STREAMS]


def _busy(lane: Lane, edges: Ints) -> tuple[float, ...]:
    """How much of each part is covered; a lane's rows below the first hold nested or overlapping events."""
    width = np.maximum(np.diff(edges), 1)
    covered = np.zeros(width.size, np.int64)
    for row in lane.rows[:1] if lane.kind == "calls" else lane.rows:
        covered += row.cells(edges).busy
    return tuple(np.minimum(covered / width, 1.0).tolist())


def lane_rows(lanes: Sequence[BusyLane]) -> list[Json]:
    """What the lanes are, how busy in all and in each part, in percent."""
    return [
        {
            "kind": one.lane.kind,
            "device": one.lane.device,
            "stream": one.lane.stream,
            "process": one.lane.process,
            "thread": one.lane.thread,
            "name": one.lane.name or None,
            "busy_percent": 100 * one.share,
            "cells": [round(100 * share, 2) for share in one.busy],
        }
        for one in lanes
    ]
