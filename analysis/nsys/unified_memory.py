"""Unified memory: what was moved between CPU and GPU and why, the page faults that moved it, and NVIDIA's reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.gpu.steps import recorded
from tracetui.analysis.nsys.values import rounded
from tracetui.parsers.nsys.beside import Beside, beside, function, process_of

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

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


def um_total_sum(sel: Selection) -> pl.DataFrame:
    """Sums of unified memory's migrations and page faults, one row; none where a kind of data is not in the file."""
    with beside(sel.trace) as file:
        if file is None or not _has_unified(file):
            return pl.DataFrame(schema=_UM_TOTAL)
        moved, cpu, gpu = _unified(file)
    of = {kind: moved.filter(copyKind=kind)["bytes"].cast(pl.Float64).sum() for kind in (11, 12)}
    addresses = pl.concat([moved["address"], cpu["address"], gpu["address"]]).drop_nulls()
    row = (
        rounded(of[11] / 1e6, 3), rounded(of[12] / 1e6, 3), cpu.height, int(gpu["faults"].sum()),
        _address(addresses.min()), _address(addresses.max()),
    )  # fmt: skip
    return pl.DataFrame([row], schema=_UM_TOTAL, orient="row")


def um_sum(sel: Selection) -> pl.DataFrame:
    """Migrations and page faults by address, the highest throughput first; the ten first as nsys prints them."""
    with beside(sel.trace) as file:
        if file is None or not _has_unified(file):
            return pl.DataFrame(schema=_UM)
        moved, cpu, gpu = _unified(file)
    by = moved.group_by("address").agg(
        to_gpu=pl.col("bytes").filter(pl.col("copyKind") == 11).sum(),
        to_cpu=pl.col("bytes").filter(pl.col("copyKind") == 12).sum(),
        ns=pl.col("ns").sum(),
    )
    by = by.join(cpu.group_by("address").agg(cpu=pl.len()), on="address", how="full", coalesce=True)
    by = by.join(gpu.group_by("address").agg(gpu=pl.col("faults").sum()), on="address", how="full", coalesce=True)
    rate = pl.when(pl.col("ns") > 0).then((pl.col("to_gpu") + pl.col("to_cpu")) * (1_000_000_000 // pl.col("ns")))
    rows = by.with_columns(rate=rate).sort("rate", "address", descending=[True, False], nulls_last=True).head(10)
    return pl.DataFrame(
        [
            (_address(row["address"]), _megabytes(row["to_gpu"] or None), _megabytes(row["to_cpu"] or None),
             row["cpu"], row["gpu"], _megabytes(row["rate"]))
            for row in rows.iter_rows(named=True)
        ],
        schema=_UM,
        orient="row",
    )  # fmt: skip


def um_cpu_page_faults_sum(sel: Selection) -> pl.DataFrame:
    """Page faults of the CPU by where they happened, the most first."""
    with beside(sel.trace) as file:
        if file is None:
            return pl.DataFrame(schema=_UM_CPU)
        rows = file.whole("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CpuInstruction", "sourceFile", "sourceLine")
        sums = (
            rows.group_by(rows.columns)
            .agg(count=pl.len())
            .sort("count", *rows.columns, descending=[True, *[False] * 3])
        )
        texts = file.texts({*sums["CpuInstruction"].to_list(), *sums["sourceFile"].to_list()})
    named = [(count, texts.get(where), texts.get(source), line) for where, source, line, count in sums.iter_rows()]
    return pl.DataFrame(named, schema=_UM_CPU, orient="row")


_UM_TOTAL = {
    "Total HtoD Migration Size (MB)": pl.Float64, "Total DtoH Migration Size (MB)": pl.Float64,
    "Total CPU Page Faults": pl.Int64, "Total GPU PageFaults": pl.Int64, "Minimum Virtual Address": pl.String,
    "Maximum Virtual Address": pl.String,
}  # fmt: skip
_UM = {
    "Virtual Address": pl.String, "HtoD Migration size (MB)": pl.Float64, "DtoH Migration size (MB)": pl.Float64,
    "CPU Page Faults": pl.Int64, " GPU Page Faults": pl.Int64, "Migration Throughput (MB/s)": pl.Float64,
}  # fmt: skip
_UM_CPU = {
    "CPU Page Faults": pl.Int64, "CPU Instruction Address": pl.String, "Source File": pl.String,
    "Source Line": pl.Int64,
}  # fmt: skip


def _has_unified(file: Beside) -> bool:
    """Whether the file has all three tables, without any of which nsys skips the report."""
    return file.database.tables.keys() >= {
        "CUPTI_ACTIVITY_KIND_MEMCPY", "CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
    }  # fmt: skip


def _unified(file: Beside) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Migrations between CPU and GPU (copyKind, address, bytes, ns), faults of the CPU and of the GPU, by address."""
    copies = file.whole("CUPTI_ACTIVITY_KIND_MEMCPY", "start", "end", "bytes", "copyKind", "virtualAddress")
    moved = copies.filter(pl.col("copyKind").is_in([11, 12])).select(
        "copyKind", "bytes", address="virtualAddress", ns=pl.col("end") - pl.col("start")
    )
    cpu = file.whole("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "address")
    gpu = file.whole("CUDA_UM_GPU_PAGE_FAULT_EVENTS", "address", "numberOfPageFaults")
    return moved, cpu, gpu.rename({"numberOfPageFaults": "faults"})


def _address(value: object) -> str | None:
    return f"0x{value:x}" if isinstance(value, int) else None


def _megabytes(value: int | None) -> float | None:
    return None if value is None else rounded(value / 1e6, 3)
