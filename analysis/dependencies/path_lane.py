"""The critical path on the recording's clock: a piece after the other, as a timeline shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.dependencies.critical_path import (
    CALL,
    HOST,
    RESOURCES,
    RETURN,
    call_resources,
    inner_calls,
    pieces,
    work_resources,
)
from tracetui.analysis.dependencies.host_layers import host_layers
from tracetui.analysis.dependencies.waits import NONE

if TYPE_CHECKING:
    from tracetui.analysis.dependencies.model import Model
    from tracetui.analysis.selection import Selection

PATH: dict[str, pl.DataType] = {
    "start": pl.Int64(),
    "duration": pl.Int64(),
    "resource": pl.Enum(RESOURCES),
    "name": pl.String(),
    "frame": pl.String(),
    "row": pl.UInt32(),
}


def path_lane(sel: Selection, model: Model) -> pl.DataFrame:
    """The critical paths of all steps, in the order of time; no piece overlaps another.

    Args:
        sel: the recording that the model is of.
        model: its replay.

    Returns:
        start (ns on the trace's clock), duration, resource (one of `RESOURCES`), name (of the innermost call, or of the
        GPU work; null where the host recorded nothing), frame and row (``host`` or ``device``, and the row there; null
        with the name).
    """
    graph, found = model.graph, pieces(model)
    lasting = found.end > found.start
    host = lasting & (found.what == HOST)
    call = lasting & np.isin(found.what, (CALL, RETURN))
    work = lasting & ~host & ~call
    inner = inner_calls(
        sel.trace.host, graph, host_layers(sel, graph), found.at[host], found.start[host], found.end[host]
    )
    parts = [
        ("host", inner.start, inner.stop, inner.resource, inner.row),
        ("host", found.start[call], found.end[call], call_resources(graph, found.at[call], found.what[call]),
         graph.calls.row[found.at[call]]),
        ("device", found.start[work], found.end[work],
         work_resources(sel.trace.device, graph, found.at[work], found.what[work]), graph.work.row[found.at[work]]),
    ]  # fmt: skip
    frames = []
    for source, start, end, resource, row in parts:
        names = sel.trace.host["name"] if source == "host" else sel.trace.device["name"]
        frames.append(
            pl.DataFrame(
                {
                    "start": start,
                    "duration": end - start,
                    "resource": pl.Series(resource, dtype=pl.UInt8).cat.to(pl.Enum(RESOURCES)),
                    "name": names.gather(np.maximum(row, 0)).cast(pl.String) if row.size else [],
                    "frame": [source] * row.size,
                    "row": np.maximum(row, 0),
                },
                schema=PATH,
            ).with_columns(pl.when(pl.lit(pl.Series(row != NONE))).then(pl.col("name", "frame", "row")))
        )
    return pl.concat(frames).sort("start", maintain_order=True)


def path_within(path: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """What the path runs through in a stretch of time: resource, name and ns, the most first.

    Args:
        path: as of `path_lane`.
        start: of the stretch, ns on the trace's clock.
        end: its end, exclusive.
    """
    time = path["start"].to_numpy()
    low = max(int(np.searchsorted(time, start, side="right")) - 1, 0)
    part = path.slice(low, int(np.searchsorted(time, end)) - low)
    begin = part["start"].to_numpy()
    inside = np.minimum(begin + part["duration"].to_numpy(), end) - np.maximum(begin, start)
    return (
        part.select(pl.col("resource").cast(pl.String), "name", ns=pl.Series(np.maximum(inside, 0)))
        .group_by("resource", "name")
        .agg(pl.col("ns").sum())
        .filter(pl.col("ns") > 0)
        .sort("ns", "resource", "name", descending=[True, False, False])
    )
