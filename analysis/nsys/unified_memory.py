"""Unified memory: what was moved between CPU and GPU and why, the page faults that moved it, and NVIDIA's reports."""

from __future__ import annotations

import polars as pl

from tracetui.analysis.gpu.steps import recorded
from tracetui.analysis.selection import Selection
from tracetui.parsers.nsys.beside import Beside, beside, function, process_of

DIRECTIONS = {11: "host to device", 12: "device to host", 13: "device to device"}
"""The kinds of copies that the driver makes of managed memory."""
CAUSES = {
    0: "unknown", 1: "prefetch by the program", 2: "page fault", 3: "speculative prefetch", 4: "eviction",
    5: "access counters",
}  # fmt: skip
ACCESSES = {0: "unknown", 1: "read", 2: "write", 3: "atomic", 4: "prefetch"}
UNIFIED = {
    "what": pl.String(),
    "how": pl.String(),
    "cause": pl.String(),
    "process": pl.Int64(),
    "device": pl.Int64(),
    "count": pl.Int64(),
    "faults": pl.Int64(),
    "bytes": pl.Int64(),
    "total_ns": pl.Int64(),
}


def unified_memory(sel: Selection) -> pl.DataFrame:
    """A row per kind of migration and of page fault.

    Returns:
        what (``migration``, ``GPU faults``, ``CPU faults``), how (direction, kind of access, or for faults of the CPU
        the function they happened in), cause (of a migration), process, device, count (of rows in the file), faults,
        bytes, total_ns; migrations first, then by time, bytes and faults.
    """
    span = recorded(sel)
    with beside(sel.trace) as file:
        if file is None or span is None:
            return pl.DataFrame(schema=UNIFIED)
        parts = [_migrations(file, span), _gpu_faults(file, span), _cpu_faults(file, span)]
    rows = pl.concat([part.select(pl.col(name).cast(dtype) for name, dtype in UNIFIED.items()) for part in parts])
    order = pl.col("what").cast(pl.Enum(["migration", "GPU faults", "CPU faults"])).alias("order")
    return (
        rows.with_columns(order)
        .sort(
            "order", "total_ns", "bytes", "faults", "how", "cause",
            descending=[False, True, True, True, False, False], nulls_last=True,
        )
        .drop("order")
    )  # fmt: skip


def _inside(rows: pl.DataFrame, span: tuple[int, int]) -> pl.DataFrame:
    return rows.filter(pl.col("start").is_between(*span))


def _migrations(file: Beside, span: tuple[int, int]) -> pl.DataFrame:
    columns = ("start", "end", "globalPid", "deviceId", "copyKind", "migrationCause", "bytes")
    rows = _inside(file.whole("CUPTI_ACTIVITY_KIND_MEMCPY", *columns), span).filter(
        pl.col("copyKind").is_in(list(DIRECTIONS))
    )
    sums = rows.group_by("globalPid", "deviceId", "copyKind", "migrationCause").agg(
        count=pl.len(), bytes=pl.col("bytes").sum(), total_ns=(pl.col("end") - pl.col("start")).sum()
    )
    return _with_process(sums).with_columns(
        what=pl.lit("migration"),
        how=pl.col("copyKind").replace_strict(DIRECTIONS, return_dtype=pl.String),
        cause=pl.col("migrationCause").replace_strict(CAUSES, default="unknown", return_dtype=pl.String),
        device=pl.col("deviceId"),
        faults=pl.lit(None, pl.Int64),
    )


def _gpu_faults(file: Beside, span: tuple[int, int]) -> pl.DataFrame:
    columns = ("start", "end", "globalPid", "deviceId", "numberOfPageFaults", "faultAccessType")
    rows = _inside(file.whole("CUDA_UM_GPU_PAGE_FAULT_EVENTS", *columns), span)
    sums = rows.group_by("globalPid", "deviceId", "faultAccessType").agg(
        count=pl.len(), faults=pl.col("numberOfPageFaults").sum(), total_ns=(pl.col("end") - pl.col("start")).sum()
    )
    return _with_process(sums).with_columns(
        what=pl.lit("GPU faults"),
        how=pl.col("faultAccessType").replace_strict(ACCESSES, default="unknown", return_dtype=pl.String),
        cause=pl.lit(None, pl.String),
        device=pl.col("deviceId"),
        bytes=pl.lit(None, pl.Int64),
    )


def _cpu_faults(file: Beside, span: tuple[int, int]) -> pl.DataFrame:
    columns = ("start", "globalPid", "CpuInstruction", "module")
    rows = _inside(file.whole("CUDA_UM_CPU_PAGE_FAULT_EVENTS", *columns), span)
    sums = rows.group_by("globalPid", "CpuInstruction", "module").agg(count=pl.len())
    texts = file.texts({*sums["CpuInstruction"].to_list(), *sums["module"].to_list()})
    places = sums.select("CpuInstruction", "module").iter_rows()
    where = [function(texts.get(instruction), texts.get(module)) for instruction, module in places]
    named = (
        sums.with_columns(how=pl.Series(where, dtype=pl.String)).group_by("globalPid", "how").agg(pl.col("count").sum())
    )
    return _with_process(named).with_columns(
        what=pl.lit("CPU faults"),
        cause=pl.lit(None, pl.String),
        device=pl.lit(None, pl.Int64),
        faults=pl.col("count"),
        bytes=pl.lit(None, pl.Int64),
        total_ns=pl.lit(None, pl.Int64),
    )


def _with_process(sums: pl.DataFrame) -> pl.DataFrame:
    processes = [None if number is None else process_of(number) for number in sums["globalPid"].to_list()]
    return sums.with_columns(process=pl.Series(processes, dtype=pl.Int64))
