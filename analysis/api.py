"""Calls into the CUDA runtime and driver: how long they take, and how the GPU follows its launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.gpu.activities import activities, last_step_start

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection


def timings() -> list[pl.Expr]:
    """Aggregations of durations in ns; the standard deviation is of the sample, 0 for a single call."""
    value = pl.col("duration")
    return [
        pl.len().alias("calls"),
        value.sum().alias("total_ns"),
        value.mean().alias("mean_ns"),
        value.median().alias("median_ns"),
        value.min().alias("min_ns"),
        value.max().alias("max_ns"),
        value.std().fill_null(0.0).alias("std_ns"),
    ]


def by_name(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns name, calls and timings of rows (name, duration), the longest total first."""
    return (
        frame.group_by("name")
        .agg(timings())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("total_ns", "name", descending=[True, False])
    )


SLOW_CALL_NS = 50_000
"""A launch call that takes longer is an outlier (HTA's `runtime_cutoff`)."""
LATE_KERNEL_NS = 100_000
"""Work that begins later than this after its launch returned was queued (HTA's `launch_delay_cutoff`)."""
LAUNCHES = {
    "start": pl.Int64(),
    "api": pl.String(),
    "kernel": pl.String(),
    "cpu_ns": pl.Int64(),
    "gpu_ns": pl.Int64(),
    "delay_ns": pl.Int64(),
}


class Launches(Struct, frozen=True):
    """Launch statistics of a selection (definitions: HTA's `cuda_kernel_launch_stats`)."""

    count: int
    """API calls that put work on a device; a graph launch is one."""
    short_kernels: int
    """Calls of at most `SLOW_CALL_NS` whose device work took less time than the call."""
    runtime_outliers: int
    """Calls that took longer than `SLOW_CALL_NS`."""
    delay_outliers: int
    """Calls whose work began more than `LATE_KERNEL_NS` after the call returned."""
    median_delay_ns: float | None
    frame: pl.DataFrame
    """A row per launch: start, api, kernel (the first activity it started), cpu_ns (the call), gpu_ns (its device
    work, summed), delay_ns (from the call's return to its first activity, at least 0)."""


def api_calls(sel: Selection) -> pl.DataFrame:
    """One row per runtime or driver function.

    Returns:
        name, calls, total_ns, mean_ns, median_ns, min_ns, max_ns, std_ns, percent (of the time in all API calls).
    """
    calls = sel.host.lazy().select("kind", "name", "duration").filter(pl.col("kind").is_in(["runtime", "driver"]))
    table = calls.group_by("name").agg(timings()).with_columns(pl.col("name").cast(pl.String)).collect()
    # within the plan groups come in pieces, and Polars rounds a division of a piece with one row otherwise
    share = 100 * pl.col("total_ns") / pl.max_horizontal(1, pl.sum("total_ns"))
    return table.rechunk().with_columns(percent=share).sort("total_ns", "name", descending=[True, False])


def launches(sel: Selection, conventions: Conventions = TRACETUI) -> Launches:
    """What the calls that launched the device work in scope cost, and how long the GPU took to follow.

    HTA counts a row per activity and knows only the calls in `HTA_LAUNCHES`; ours are all calls that started work.
    """
    if conventions.drop_last_step:
        return _summary(_hta_rows(sel, conventions))
    work = sel.device.filter(
        pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]) & pl.col("launch").is_not_null()
    )
    if not work.height:
        return _summary(pl.DataFrame(schema=LAUNCHES))
    calls = sel.trace.host.select("name", "start", "duration")[work["launch"].unique(maintain_order=True)]
    per_call = work.group_by("launch", maintain_order=True).agg(
        pl.col("name").first(), pl.col("duration").sum(), pl.col("start").min().alias("begins")
    )
    return _summary(
        pl.DataFrame(
            {
                "start": calls["start"],
                "api": calls["name"].cast(pl.String),
                "kernel": per_call["name"].cast(pl.String),
                "cpu_ns": calls["duration"],
                "gpu_ns": per_call["duration"],
                "delay_ns": (per_call["begins"] - calls["start"] - calls["duration"]).clip(0),
            },
            schema=LAUNCHES,
        ).sort("start")
    )


def _hta_rows(sel: Selection, conventions: Conventions) -> pl.DataFrame:
    """A row for each pair of a call and an activity that share a correlation id."""
    last = last_step_start(sel.trace)
    host = sel.trace.host.filter(pl.col("correlation").is_not_null())
    if last is not None:
        host = host.filter(pl.col("start") < last)
    calls = host.select("correlation", "start", api=pl.col("name").cast(pl.String), cpu_ns="duration")
    named = calls.filter(pl.col("api").is_in(list(conventions.launch_calls or ())))["correlation"].implode()
    work = activities(sel, conventions).frame.select(
        "correlation", kernel=pl.col("name").cast(pl.String), begins="start", gpu_ns="duration"
    )
    return (
        calls.filter(pl.col("correlation").is_in(named))
        .join(work, on="correlation")
        .with_columns(delay_ns=(pl.col("begins") - pl.col("start") - pl.col("cpu_ns")).clip(0))
        .select(list(LAUNCHES))
        .sort("start", maintain_order=True)
    )


def _summary(frame: pl.DataFrame) -> Launches:
    cpu, gpu, delay = frame["cpu_ns"], frame["gpu_ns"], frame["delay_ns"]
    median = delay.median()
    return Launches(
        count=frame.height,
        short_kernels=int(((cpu <= SLOW_CALL_NS) & (gpu < cpu)).sum()),
        runtime_outliers=int((cpu > SLOW_CALL_NS).sum()),
        delay_outliers=int((delay > LATE_KERNEL_NS).sum()),
        median_delay_ns=None if median is None else float(median),  # type: ignore[arg-type]
        frame=frame,
    )
