"""What ran in a stretch of a timeline, lane by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.timeline.lanes import Lane
    from tracetui.analysis.timeline.timeline import Timeline

LANES: dict[str, pl.DataType] = {
    "number": pl.Int64(),
    "calls": pl.Int64(),
    "busy_ns": pl.Int64(),
    "percent": pl.Float64(),
    "most": pl.String(),
}
EVENTS: dict[str, pl.DataType] = {
    "name": pl.String(),
    "calls": pl.Int64(),
    "total_ns": pl.Int64(),
    "percent": pl.Float64(),
    "longest_ns": pl.Int64(),
    "row": pl.UInt32(),
}


def lanes_within(timeline: Timeline, start: int, end: int) -> pl.DataFrame:
    """The lanes in which something runs in a stretch of time, in their order.

    Returns:
        number (of the lane), calls (events that touch the stretch), busy_ns (time of the stretch in which any of them
        runs), percent (of the stretch), most (the name that takes the most time in it).
    """
    rows = []
    for number in timeline.order():
        if timeline.lanes[number].source == "samples":
            continue
        parts = [_touching(timeline.lanes[number], depth, start, end) for depth in range(_depths(timeline, number))]
        calls = sum(events.size for events, _, _ in parts)
        if not calls:
            continue
        begun, done = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
        busy = intervals.length(intervals.union(begun, done))
        most = events_within(timeline, number, start, end)
        rows.append((number, calls, busy, 100 * busy / max(end - start, 1), most["name"][0]))
    return pl.DataFrame(rows, schema=LANES, orient="row")


def events_within(timeline: Timeline, lane: int, start: int, end: int) -> pl.DataFrame:
    """What ran in one lane in a stretch of time, by name, the most time first.

    Returns:
        name, calls, total_ns (in the stretch; what is nested counts in what is around it too), percent (of the
        stretch), longest_ns (in the stretch), row (of the longest, in the frame of the lane's source).
    """
    parts = [_touching(timeline.lanes[lane], depth, start, end) for depth in range(_depths(timeline, lane))]
    events, begun, done = (np.concatenate([part[place] for part in parts]) for place in range(3))
    of, owner = timeline.owner(lane)
    lasting = pl.col("ns")
    found = (
        pl.DataFrame({"name": of.names(owner.source, events.tolist()), "ns": done - begun, "row": events})
        .group_by("name")
        .agg(
            pl.len().alias("calls"),
            lasting.sum().alias("total_ns"),
            lasting.max().alias("longest_ns"),
            pl.col("row").get(lasting.arg_max()),
        )
        .with_columns(percent=100 * pl.col("total_ns") / max(end - start, 1))
        .sort("total_ns", "name", descending=[True, False])
    )
    return found.select(pl.col(name).cast(dtype) for name, dtype in EVENTS.items())


def _depths(timeline: Timeline, lane: int) -> int:
    return len(timeline.lanes[lane].rows)


def _touching(lane: Lane, depth: int, start: int, end: int) -> tuple[Ints, Ints, Ints]:
    """The events of a row that touch a stretch: their rows in the frame, and both ends as far as they lie in it."""
    row = lane.rows[depth]
    low, high = (int(place[0]) for place in row.touching(np.array([start]), np.array([end])))
    at = np.arange(low, high)
    begun, done = row.start[at], row.start[at] + row.duration(at)
    # where events overlap, some in between have ended before
    inside = (done > start) & (begun < end)
    at, begun, done = at[inside], begun[inside], done[inside]
    return row.events[at].astype(np.int64), np.maximum(begun, start), np.minimum(done, end)
