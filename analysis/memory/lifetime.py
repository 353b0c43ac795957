"""What outlives the step that made it, and how memory grows from step to step."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetui.analysis.base.remembered import latest
from tracetui.analysis.memory.owners import OWNERS, owners
from tracetui.analysis.memory.peak import UNBORN, Allocations, By, allocations, of_memory, of_owner, peak
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Ints

LONG_LIVED: dict[str, pl.DataType] = {
    "name": pl.String(),
    "bytes": pl.Int64(),
    "kept_bytes": pl.Int64(),
    "allocations": pl.Int64(),
    "steps": pl.Int64(),
    "largest": pl.Int64(),
    "own": pl.String(),
    "library": pl.String(),
    "stack": pl.String(),
}
GROWTH: dict[str, pl.DataType] = {
    "index": pl.Int64(),
    "name": pl.String(),
    "allocated_start": pl.Int64(),
    "allocated_end": pl.Int64(),
    "growth_bytes": pl.Int64(),
    "peak_bytes": pl.Int64(),
}


def long_lived(sel: Selection, by: By) -> pl.DataFrame:
    """Allocations made in a step and still there when it ends, by who made them, the most bytes first (`LONG_LIVED`).

    `kept_bytes` of them were never given back in the recording, `steps` is the number of steps in which such
    allocations were made. In a trace without steps: what was made in the recording and not given back in it; `steps` is
    then null.
    """
    blocks, chosen, step = _outliving(sel)
    if blocks is None:
        return pl.DataFrame(schema=LONG_LIVED)
    never = blocks.finish[chosen] == sel.trace.memory.height
    frame = owners(sel.trace, blocks.row[chosen], by).with_columns(
        pl.Series("bytes", blocks.bytes[chosen], dtype=pl.Int64),
        pl.Series("kept_bytes", np.where(never, blocks.bytes[chosen], 0), dtype=pl.Int64),
        pl.Series("step", step, dtype=pl.Int64),
    )
    stepped = pl.col("step").n_unique().cast(pl.Int64) if sel.steps.height else pl.lit(None, dtype=pl.Int64)
    return (
        frame.group_by(*OWNERS, maintain_order=True)
        .agg(
            pl.col("bytes", "kept_bytes").sum(),
            allocations=pl.len().cast(pl.Int64),
            steps=stepped,
            largest=pl.col("bytes").max(),
        )
        .select(*LONG_LIVED)
        .sort("bytes", "name", descending=[True, False], maintain_order=True)
    )


def outliving(sel: Selection, by: By, name: str, stack: str | None = None) -> pl.DataFrame:
    """The single allocations of one row of `long_lived`, the largest first."""
    blocks, chosen, _ = _outliving(sel)
    if blocks is None:
        return pl.DataFrame()
    return of_owner(sel, blocks, chosen, by, name, stack)


@latest
def _outliving(sel: Selection) -> tuple[Allocations | None, Ints, Ints]:
    """All allocations of the memory with the peak, which of them outlive their step, and that step's position."""
    none = np.empty(0, np.int64)
    moment = peak(sel)
    if moment is None:
        return None, none, none
    blocks = allocations(sel.trace, moment.device_type, moment.device)
    steps = sel.steps
    if not steps.height:
        kept = np.flatnonzero((blocks.begin >= 0) & (blocks.finish == sel.trace.memory.height))
        return blocks, kept, np.zeros(kept.size, np.int64)
    start = steps["start"].to_numpy()
    end = start + steps["duration"].to_numpy()
    place = np.searchsorted(start, blocks.start, side="right") - 1
    inside = (blocks.start != UNBORN) & (place >= 0)
    chosen = np.flatnonzero(inside & (blocks.start < end[place]) & (blocks.end > end[place]))
    return blocks, chosen, place[chosen]


def growth(sel: Selection) -> pl.DataFrame:
    """One row per step: allocated when it starts and ends, the difference, and the most in between (`GROWTH`).

    Of the memory with the peak. What was allocated before the first event is that event's total less its own bytes; a
    step that began before a snapshot's history did has no `allocated_start`.
    """
    moment = peak(sel)
    if moment is None or not sel.steps.height:
        return pl.DataFrame(schema=GROWTH)
    events = sel.trace.memory.with_row_index("row").filter(
        of_memory(moment.device_type, moment.device)
        & pl.col("allocated").is_not_null()
        & pl.col("time").is_not_null()
        & pl.col("action").is_in(["alloc", "free", "free_requested"])
    )
    if not events.height:
        return pl.DataFrame(schema=GROWTH)
    time, allocated = events["time"].to_numpy(), events["allocated"].to_numpy()
    before = int(allocated[0]) - int(events["bytes"][0] or 0)
    level = np.append(before, allocated)
    start = sel.steps["start"].to_numpy()
    end = start + sel.steps["duration"].to_numpy()
    first, last = np.searchsorted(time, start), np.searchsorted(time, end)
    at_end = pl.Series(level[last], dtype=pl.Int64)
    at_start = pl.Series(level[first], dtype=pl.Int64)
    if sel.trace.info.kind == "memory_snapshot":
        at_start = pl.select(pl.when(pl.Series(start >= time[0])).then(at_start)).to_series()
    most = [int(level[a : b + 1].max()) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    return pl.DataFrame(
        {
            "index": sel.steps["index"],
            "name": sel.steps["name"],
            "allocated_start": at_start,
            "allocated_end": at_end,
            "growth_bytes": at_end - at_start,
            "peak_bytes": most,
        },
        schema=GROWTH,
    )
