"""One step at a glance: how busy each thread, stream and copy engine is in equal parts of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import add_up, lanes_of
from tracetui.analysis.base import intervals
from tracetui.analysis.gpu.activities import graph_numbers
from tracetui.analysis.timeline.lanes import HOST_LANES, WORK, Lane, lanes
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints
from tracetui.parsers.nesting import LaneClock

PARTS = 120
"""Of a step."""
THREADS = 3
"""How many of the busiest threads are shown; a data loader may have dozens."""
STREAMS = 6
CANDIDATES = 64
"""So many of the threads are looked at closely."""
_KINDS = ("calls", "stream", "copies")
LONG = 0.03
"""From this share of the stretch on, an event's name may fit into its bar."""
_HOST = ("kind", "name", "start", "duration", "process", "thread")
_DEVICE = ("kind", "name", "start", "duration", "device", "stream")
_IDLE = pl.DataFrame(schema={"device": pl.Int64, "start": pl.Int64, "duration": pl.Int64})


class LongEvent(Struct, frozen=True):
    """An event of a lane's first row that takes much of the stretch."""

    name: str
    begin: float
    """Share of the stretch before it, 0 to 1."""
    end: float


class BusyLane(Struct, frozen=True):
    """A lane of the timeline, divided into equal parts."""

    lane: Lane
    """The lane, without its rows of events."""
    busy: tuple[float, ...]
    """Share of each part in which something runs, 0 to 1."""
    events: tuple[LongEvent, ...] = ()
    """The events that take at least `LONG` of the stretch, in the order of time."""

    @property
    def share(self) -> float:
        """Share of the whole stretch."""
        return sum(self.busy) / len(self.busy)


class StepPicture(Struct, frozen=True):
    """One step as lanes."""

    step: int | None
    """Its index; None where the whole file stands for one."""
    lasting: int
    """ns."""
    lanes: list[BusyLane]


def typical_picture(trace: Trace, per_step: pl.DataFrame, *, marked: bool, parts: int = PARTS) -> StepPicture | None:
    """The most typical step as lanes; None where there is nothing that could stand for a step.

    Args:
        trace: what happened.
        per_step: as in `Overview`.
        marked: whether its rows are steps; otherwise one row stands for all of the recording.
        parts: number of equal parts to divide the step into.
    """
    if not per_step.height:
        return None
    index, start, lasting = per_step.select("index", "start", "duration_ns").row(typical_step(per_step))
    return StepPicture(index if marked else None, lasting, step_lanes(trace, start, start + lasting, parts))


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
    device = trace.device.filter(touching)
    device = device.select(*_DEVICE, graph=graph_numbers(trace, device), launch=none)
    host = trace.host.select(_HOST).filter(touching)
    host, device = _busiest(host, start, end), _first_streams(device)
    part = replace(trace, host=host, device=device, steps=trace.steps.clear())
    edges = np.linspace(start, end, parts + 1).round().astype(np.int64)
    lanes_busy = []
    for lane in lanes(part, _IDLE, device["graph"]):
        if lane.kind in _KINDS:
            busy = _busy(lane, edges)
            if any(busy):
                lanes_busy.append(BusyLane(replace(lane, rows=()), busy, _long(part, lane, start, end)))
    threads = [one for one in lanes_busy if one.lane.kind == "calls"]
    kept = sorted(threads, key=lambda one: -one.share)[:THREADS]
    return [one for one in threads if one in kept] + [one for one in lanes_busy if one.lane.kind != "calls"][:STREAMS]


def _busiest(host: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The rows of the threads that work most: lanes of thousands of threads take long to make, and few are shown."""
    lane = lanes_of(host)
    size = int(lane.max(initial=-1)) + 1
    if size <= CANDIDATES:
        return host
    calls = np.flatnonzero(host["kind"].is_in(HOST_LANES["calls"]).to_numpy())
    begun = host["start"].to_numpy()[calls]
    done = np.minimum(begun + np.maximum(host["duration"].to_numpy()[calls], 1), end)
    begun, of = np.maximum(begun, start), lane[calls]
    clock = LaneClock(size, begun, done)
    first, last = intervals.union(clock.key(of, begun), clock.key(of, done))
    threads = np.searchsorted(clock.floor(np.arange(size)), first, side="right") - 1
    busy = add_up(threads, last - first, size)
    chosen = np.zeros(size, np.bool_)
    chosen[np.argsort(-busy, kind="stable")[:CANDIDATES]] = True
    return host.filter(pl.Series(chosen[lane]))


def _first_streams(device: pl.DataFrame) -> pl.DataFrame:
    """The rows of the first streams that work; no other stream, nor a copy lane behind them, is shown."""
    lane = pl.struct("device", pl.col("graph").fill_null(0), pl.when(pl.col("graph").is_null()).then("stream"))
    working = device.filter(pl.col("kind").is_in(WORK)).select(lane.alias("lane")).unique().sort("lane")
    return device if working.height <= STREAMS else device.filter(lane.is_in(working["lane"][:STREAMS].implode()))


def _busy(lane: Lane, edges: Ints) -> tuple[float, ...]:
    """How much of each part is covered; a lane's rows below the first hold nested or overlapping events."""
    width = np.maximum(np.diff(edges), 1)
    covered = np.zeros(width.size, np.int64)
    for row in lane.rows[:1] if lane.kind == "calls" else lane.rows:
        covered += row.cells(edges).busy
    return tuple(np.minimum(covered / width, 1.0).tolist())


def _long(part: Trace, lane: Lane, start: int, end: int) -> tuple[LongEvent, ...]:
    row, whole = lane.rows[0], end - start
    begun = np.maximum(row.start, start)
    done = np.minimum(row.start + np.diff(row.done), end)
    chosen = np.flatnonzero(done - begun >= LONG * whole)
    frame = part.host if lane.source == "host" else part.device
    names = frame["name"].gather(row.events[chosen]).cast(pl.String)
    return tuple(
        LongEvent(name or "", (first - start) / whole, (last - start) / whole)
        for name, first, last in zip(names, begun[chosen].tolist(), done[chosen].tolist(), strict=True)
    )
