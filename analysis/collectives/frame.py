"""The collectives in scope with their times: when the host launched each, when it ran, and what it hid behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals
from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.gpu.activities import activities, distinct
from tracetui.analysis.selection import select
from tracetui.parsers import schema
from tracetui.parsers.names import collectives as words

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Trace

TIMES: dict[str, pl.DataType] = {
    "row": pl.UInt32(),  # row in `Trace.collectives`
    "gpu": pl.Int64(),
    "stream": pl.Int64(),
    "launched": pl.Int64(),  # when the host launched it; null where the launch is not in the recording
    "begin": pl.Int64(),  # of one of several coalesced operations: of the kernel that does them all
    "end": pl.Int64(),
    "exposed_ns": pl.Int64(),  # no kernel that computes runs on its GPU; null on CPUs and for a part of a kernel
    "step": pl.Int64(),  # index of the step that launched it; on CPUs of the one in which it begins
    "order": pl.Int64(),  # place among its group's on its GPU in the whole recording; null for a part of a kernel
}
"""What `collectives` adds to the columns of `schema.COLLECTIVES`."""


@latest
def collectives(sel: Selection) -> pl.DataFrame:
    """The collectives in scope, in the order in which they begin: `schema.COLLECTIVES` and `TIMES`.

    Its rows share time: sum up those whose `part_of` is null. Times are of the recording itself.
    """
    found = all_collectives(sel.trace)
    if not found.height:
        return found
    chosen = pl.coalesce("device", "part_of").is_in(sel.device["row"].implode())
    if sel.scope.devices is None:
        by_host = pl.col("device").is_null() & pl.col("part_of").is_null()
        chosen = chosen | (by_host & pl.col("host").is_in(sel.host["row"].implode()))
    return found.filter(chosen.fill_null(value=False))


@kept
def all_collectives(trace: Trace) -> pl.DataFrame:
    """All collectives of a recording, as `collectives` has them."""
    frame = trace.collectives.with_row_index("row")
    if not frame.height:
        return schema.empty({**schema.COLLECTIVES, **TIMES})
    kernel = frame.select(pl.coalesce("device", "part_of")).to_series()
    of_device = {name: _taken(trace.device, name, kernel) for name in ("start", "duration", "device", "stream", "step")}
    launch = _taken(trace.device, "launch", kernel)
    begin, took = (_taken(trace.host, name, frame["host"]) for name in ("start", "duration"))
    frame = frame.with_columns(
        gpu=of_device["device"],
        stream=of_device["stream"],
        launched=_taken(trace.host, "start", launch),
        begin=of_device["start"],
        end=of_device["start"] + of_device["duration"],
        step=_taken(trace.steps, "index", of_device["step"]),
    )
    # gloo's range on the host is the collective itself; those of NCCL, and operators, only put it on the way
    alone = frame["device"].is_null() & frame["part_of"].is_null()
    host_name = _taken(trace.host, "name", frame["host"]).cast(pl.String)
    lasts = alone & host_name.str.contains(words.ON_HOST).fill_null(value=False)
    put = _taken(trace.host, "start", frame["operator"])
    frame = frame.with_columns(
        launched=pl.when(alone).then(pl.coalesce(put, begin)).otherwise("launched"),
        begin=pl.when(lasts).then(begin).otherwise("begin"),
        end=pl.when(lasts).then(begin + took).otherwise("end"),
        step=pl.when(alone).then(_step_at(trace, begin)).otherwise("step"),
    ).with_columns(exposed_ns=_exposed(trace, frame))
    frame = _ordered(frame.sort("begin", "launched", "row", nulls_last=True))
    return frame.select(pl.col(name).cast(dtype) for name, dtype in {**schema.COLLECTIVES, **TIMES}.items())


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `order`: the launches' in each group; one whose launch is not recorded follows what began before it."""
    own = frame.filter(pl.col("part_of").is_null()).select(
        "row", "gpu", "group", "begin", launch=pl.col("launched").forward_fill().over("gpu", "group", "stream")
    )
    own = own.sort("launch", "begin", "row").select("row", order=pl.col("row").cum_count().over("gpu", "group") - 1)
    return frame.join(own, on="row", how="left", maintain_order="left")


def _taken(frame: pl.DataFrame, column: str, rows: pl.Series) -> pl.Series:
    """The values of a column at these rows; null for null."""
    if not frame.height:
        return pl.repeat(None, rows.len(), dtype=frame.schema[column], eager=True).alias(column)
    return frame[column].gather(rows.fill_null(0)).set(rows.is_null(), None)


def _step_at(trace: Trace, time: pl.Series) -> pl.Series:
    """The index of the step in which each time lies; null outside."""
    start, steps = trace.steps["start"].to_numpy(), trace.steps
    found = time.fill_null(np.iinfo(np.int64).min).to_numpy()
    at = np.searchsorted(start, found, side="right") - 1
    ends = start + steps["duration"].to_numpy()
    inside = (at >= 0) & (found < ends[np.maximum(at, 0)]) if start.size else np.zeros(found.size, np.bool_)
    return _taken(steps, "index", pl.Series(np.where(inside, at, 0)).set(pl.Series(~inside), None))


def _exposed(trace: Trace, frame: pl.DataFrame) -> pl.Series:
    """How long each kernel of a collective runs while its GPU computes nothing."""
    whole = frame["device"].is_not_null() & frame["begin"].is_not_null()
    exposed = np.zeros(frame.height, np.int64)
    work = activities(select(trace))
    gpu = work.column("device")
    own = frame["gpu"].fill_null(-1).to_numpy()
    begin, end = (frame[name].fill_null(0).to_numpy() for name in ("begin", "end"))
    for device in distinct(own[whole.to_numpy()]):
        chosen = work.compute & (gpu == device)
        computes = intervals.union(work.start[chosen], work.end[chosen])
        here = own == device
        exposed[here] = (end - begin)[here] - intervals.covered(computes, begin[here], end[here])
    return pl.Series(exposed).set(~whole, None)
