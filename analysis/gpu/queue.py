"""How much launched work waits or runs on each stream: the depth of its queue over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.gpu.activities import activities, last_step_start

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection


def queue_depth(sel: Selection, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """Per stream, how many launched activities have not begun (HTA's `get_queue_length_time_series`).

    A launch adds one for each activity that it starts, an activity's own start takes one away.

    Returns:
        device, stream, time, depth after each change, in order of time.
    """
    work = activities(sel, conventions).frame.filter(pl.col("launch").is_not_null())
    work = work.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
    calls = sel.trace.host.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("launch"), launched="start", api="name")
    work = work.join(calls, on="launch", maintain_order="left")
    if conventions.drop_last_step:
        last = last_step_start(sel.trace)
        if last is not None:
            work = work.filter(pl.col("launched") < last)
        work = work.filter(pl.col("api").cast(pl.String).is_in(HTA_QUEUEING))
    changes = pl.concat(
        [
            work.select("device", "stream", time="launched", change=pl.lit(1, pl.Int64)),
            work.select("device", "stream", time="start", change=pl.lit(-1, pl.Int64)),
        ]
    )
    return (
        changes.sort("time", maintain_order=True)
        .with_columns(depth=pl.col("change").cum_sum().over("device", "stream"))
        .drop("change")
    )


HTA_QUEUEING = (
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync",
    "cudaMemsetAsync",
)  # fmt: skip
"""The launches that HTA's queue length counts."""
