"""What the other tools of a run know about the kernels of one of its recordings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.base.remembered import kept_of_pair
from tracetui.analysis.matching.join import KernelJoin, join_kernels
from tracetui.analysis.matching.one_program import one_program
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from tracetui.parsers import Run, Trace

COUNTERS = (
    "launches", "duration_ns", "sm_percent", "memory_percent", "dram_percent", "l1_percent", "l2_percent",
    "l1_hit_percent", "l2_hit_percent", "occupancy_percent", "theoretical_occupancy_percent", "occupancy_limiter",
    "waves", "tensor_percent", "tensor_cores", "dram_bytes", "bound",
)  # fmt: skip
"""The columns of `counters.by_kernel` that each kernel gets."""
MEASURED = "measured_"
"""Prefix of these columns' names next to a recording's own columns."""


class Joined(Struct, frozen=True):
    """One recording matched with another of the same run."""

    main: Trace
    other: Trace
    join: KernelJoin


class Measured(Struct, frozen=True):
    """What Nsight Compute measured of a recording's kernels."""

    kernels: pl.DataFrame
    """``name`` (as the recording spells it) and `COUNTERS`: means over the measured launches, every launch counting the
    same; one row per kernel that has any."""
    launches: int
    """How many measured launches were matched with a kernel."""
    gpu_time_percent: float | None
    """Share of the recording's kernel time that is of measured kernels; null without kernels."""


def joined(run: Run, trace: Trace, kind: str | None = None) -> list[Joined]:
    """Joins a recording with the run's other tools' recordings of kernels, of the same rank where both tell theirs.

    Recordings of another program, size or GPU are left out: their numbers say nothing about these kernels.

    Args:
        run: the run.
        trace: one of its recordings.
        kind: only the recordings of this kind (`TraceInfo.kind`).
    """
    return [
        Joined(trace, other, _join(trace, other))
        for other in run.traces
        if other.info.kind != trace.info.kind
        and kind in (None, other.info.kind)
        and _same_rank(trace, other)
        and _has_kernels(other)
        and one_program(trace, other)
    ]


def kernel_counters_of(run: Run, trace: Trace, known: list[Joined] | None = None) -> Measured | None:
    """The hardware counters of a recording's kernels, from the run's Nsight Compute recordings; null without any.

    Of a recording by Nsight Compute they are its own.

    Args:
        run: the run.
        trace: one of its recordings.
        known: what `joined` gives for the two, where that is known already.
    """
    from tracetui.analysis.counters.counters import launch_counters, means

    tables = [launch_counters(trace).with_columns(kernel="name")] if trace.info.kind == "ncu" else []
    for found in joined(run, trace, "ncu") if known is None else known:
        if found.other.info.kind != "ncu":
            continue
        ours = found.join.launches.filter(pl.col("status") == "matched")
        ours = ours.select(pl.col("row").alias("device_row"), pl.col("kernel").cast(pl.String))
        tables.append(launch_counters(found.other).join(ours, on="device_row").with_columns(name=pl.col("kernel")))
    if not tables:
        return None
    launches = pl.concat(tables)
    kernels = means(launches).select("name", *COUNTERS)
    return Measured(kernels, int(kernels["launches"].sum()), _share(trace, kernels["name"]))


def with_counters(table: pl.DataFrame, measured: Measured | None) -> pl.DataFrame:
    """Adds what was measured to a table of kernels, as columns ``measured_…``, null where nothing was measured.

    ``tensor_cores`` follows the counters where they tell; ``tensor_cores_from`` says ``counters`` or ``name``.
    """
    if measured is None:
        return table.with_columns(tensor_cores_from=pl.lit("name"))
    beside = measured.kernels.rename({column: MEASURED + column for column in COUNTERS})
    told = pl.col(f"{MEASURED}tensor_cores")
    return table.join(beside, on="name", how="left", maintain_order="left").with_columns(
        tensor_cores=pl.coalesce(told, "tensor_cores"),
        tensor_cores_from=pl.when(told.is_not_null()).then(pl.lit("counters")).otherwise(pl.lit("name")),
    )


def conventions_of(measured: Measured | None) -> Conventions:
    """Our conventions, except that counters, where known, decide whether a kernel used tensor cores."""
    if measured is None:
        return TRACETUI
    told: dict[str, bool] = dict(measured.kernels.select("name", "tensor_cores").drop_nulls().iter_rows())
    if not told:
        return TRACETUI

    def uses_tensor_cores(name: str) -> bool:
        return told.get(name, kernel_names.uses_tensor_cores(name))

    def tensor_cores_unclear(name: str) -> bool:
        return name not in told and TRACETUI.tensor_cores_unclear(name)

    return replace(TRACETUI, uses_tensor_cores=uses_tensor_cores, tensor_cores_unclear=tensor_cores_unclear)


def run_joins(run: Run) -> list[Joined]:
    """Every recording of the run by another tool than the main one, with the main recording of its rank."""
    main = run.main
    mains = [trace for trace in run.of_kind(main.info.kind) if _has_kernels(trace)]
    found = []
    for other in run.traces:
        if other.info.kind == main.info.kind or not _has_kernels(other) or not mains:
            continue
        ours = next((trace for trace in mains if trace.info.rank == other.info.rank), mains[0])
        found.append(Joined(ours, other, _join(ours, other)))
    return found


@kept_of_pair
def _counters_join(trace: Trace, other: Trace) -> KernelJoin:
    return join_kernels(trace, other)


def _join(trace: Trace, other: Trace) -> KernelJoin:
    """`join_kernels`, kept where the other is small: Nsight Compute measures few launches."""
    return _counters_join(trace, other) if other.info.kind == "ncu" else join_kernels(trace, other)


def _same_rank(left: Trace, right: Trace) -> bool:
    return left.info.rank is None or right.info.rank is None or left.info.rank == right.info.rank


def _has_kernels(trace: Trace) -> bool:
    return bool((trace.device["kind"] == "kernel").any())


def _share(trace: Trace, names: pl.Series) -> float | None:
    """The share of a recording's kernel time, whole graphs included, that is of some kernels."""
    work = trace.device.filter(pl.col("kind").is_in(["kernel", "graph"])).select(
        pl.col("name").cast(pl.String), "duration"
    )
    whole = int(work["duration"].sum())
    measured = work.filter(pl.col("name").is_in(names.implode()))["duration"]
    return 100 * int(measured.sum()) / whole if whole else None
