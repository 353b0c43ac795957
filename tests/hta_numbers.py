"""Numbers that HolisticTraceAnalysis prints and no view shows, made of the parts that our views are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from other_definitions import HTA, OURS, Definitions, activities, last_step_start, of_type

from tracetui.analysis.base import intervals
from tracetui.analysis.selection import Selection

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals, Ints

SORTS = ("computation", "communication", "memory")
"""Kinds of GPU work, in the order in which combinations name them."""


@dataclass(frozen=True, slots=True)
class GpuTime:
    """Time from the first device activity's start to the last one's end (HTA's temporal breakdown)."""

    span_ns: int
    idle_ns: int
    """Nothing runs."""
    compute_ns: int
    """At least one computing kernel runs."""

    @property
    def other_ns(self) -> int:
        """Something runs, but nothing that computes: communication, copies, fills."""
        return self.span_ns - self.idle_ns - self.compute_ns


def gpu_time(sel: Selection, conventions: Definitions = OURS) -> GpuTime:
    """Sums up all devices and streams in scope as one (`get_temporal_breakdown`)."""
    work = activities(sel, conventions)
    if not work.start.size:
        return GpuTime(0, 0, 0)
    span = int(work.end.max() - work.start.min())
    busy = intervals.length(intervals.union(work.start, work.end))
    compute = intervals.length(intervals.union(work.start[work.compute], work.end[work.compute]))
    return GpuTime(span, span - busy, compute)


def concurrency(sel: Selection, conventions: Definitions = OURS) -> pl.DataFrame:
    """How long each combination of computation, communication and memory work ran (HTA's kernel type breakdown).

    Returns:
        kinds (``computation+memory``), ns, whole_us (each uninterrupted stretch cut to whole microseconds before it is
        summed, as HTA does), percent of the sum of ns; longest first.
    """
    length, running = stretches(sel, conventions)
    rows = []
    for combination in range(1, 2 ** len(SORTS)):
        on = running == combination
        if on.any():
            kinds = "+".join(sort for bit, sort in enumerate(SORTS) if combination >> bit & 1)
            rows.append((kinds, int(length[on].sum()), int((length[on] // 1000).sum())))
    frame = pl.DataFrame(rows, schema={"kinds": pl.String, "ns": pl.Int64, "whole_us": pl.Int64}, orient="row")
    return frame.with_columns(percent=100 * pl.col("ns") / pl.col("ns").sum()).sort(
        "ns", "kinds", descending=[True, False]
    )


def overlap_percent(sel: Selection, conventions: Definitions = OURS) -> float | None:
    """Share of communication time in which computing kernels run, over everything in scope; None without any."""
    compute, collective, _ = _sorts(sel, conventions)
    total = intervals.length(collective)
    return 100 * intervals.length(intervals.intersect(compute, collective)) / total if total else None


def _sorts(sel: Selection, conventions: Definitions) -> list[Intervals]:
    work = activities(sel, conventions)
    memory = work.memcpy | work.memset
    if conventions is HTA:
        memory = of_type(work.frame, "memory")
    chosen = (work.compute, work.communication, memory)
    return [intervals.union(work.start[rows], work.end[rows]) for rows in chosen]


def stretches(sel: Selection, conventions: Definitions = OURS) -> tuple[Ints, Ints]:
    """Stretches between consecutive starts or ends: how long each lasts, and a bit for each of `SORTS` that runs."""
    sorts = _sorts(sel, conventions)
    time = np.concatenate([edge for sort in sorts for edge in sort])
    change = np.concatenate([np.full(edge.size, sign << bit) for bit, sort in enumerate(sorts)
                             for edge, sign in ((sort[0], 1), (sort[1], -1))])  # fmt: skip
    order = np.argsort(time, kind="stable")
    return np.diff(time[order]), np.cumsum(change[order])[:-1]


def queue_depth(sel: Selection, conventions: Definitions = OURS) -> pl.DataFrame:
    """Per stream, how many launched activities have not begun (HTA's `get_queue_length_time_series`).

    A launch adds one for each activity that it starts, an activity's own start takes one away.

    Returns:
        device, stream, time, depth after each change, in order of time.
    """
    work = activities(sel, conventions).frame.filter(pl.col("launch").is_not_null())
    work = work.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
    calls = sel.trace.host.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("launch"), launched="start", api="name")
    work = work.join(calls, on="launch", maintain_order="left")
    if conventions is HTA:
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
