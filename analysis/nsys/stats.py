"""NVIDIA's report tables: what `nsys stats` prints, made from any trace's frames.

Definitions: NVIDIA's description of its statistical reports (Nsight Systems Analysis Guide), and what `nsys stats`
printed for recordings, which `tests/test_nsys_stats.py` compares with value by value. docs/nsys.md says what differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tracetui.analysis.memops import operation_name
from tracetui.analysis.nsys import nvtx
from tracetui.analysis.nsys.values import (
    StatsTable,
    rounded,
    rounded_series,
    spread_columns,
    statistics,
    timing_columns,
    with_percent,
)
from tracetui.analysis.selection import Selection
from tracetui.parsers.nsys.beside import beside

_KERNEL_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
_OF_KERNEL = {"start": "start", "correlation": "correlationId", "stream": "streamId"}
"""What tells a kernel in the frames and in the file."""
_PER_MB = 1_000_000
_PHASES = (("T", "total"), ("A", "api"), ("Q", "queue"), ("K", "kernel"))
"""NVIDIA's letters for the parts of a launch."""


def cuda_gpu_kern_gb_sum(sel: Selection) -> pl.DataFrame:
    """Kernels by name, grid and block."""
    rows = _kernels(sel).with_columns(_size("grid"), _size("block"))
    groups = _ranked(rows, "name", "grid", "block").with_columns(pl.col("name").cast(pl.String))
    shapes = [groups["grid"].alias("GridXYZ"), groups["block"].alias("BlockXYZ")]
    return with_percent(groups, [*timing_columns(groups, "Instances"), *shapes, groups["name"].alias("Name")])


def cuda_gpu_mem_time_sum(sel: Selection) -> pl.DataFrame:
    """Copies and fills by direction: time."""
    groups = _memops(sel).group_by("name").agg(statistics("duration")).sort("total", "name", descending=[True, False])
    return with_percent(groups, [*timing_columns(groups, "Count"), groups["name"].alias("Operation")])


def cuda_gpu_mem_size_sum(sel: Selection) -> pl.DataFrame:
    """Copies and fills by direction: size, in 10⁶ bytes."""
    rows = _memops(sel).filter(pl.col("bytes").is_not_null()).with_columns(size=pl.col("bytes") / _PER_MB)
    groups = (
        rows.group_by("name")
        .agg(*statistics("size"), whole=pl.col("bytes").sum())
        .sort("whole", "name", descending=[True, False])
    )
    total = [rounded(value / _PER_MB, 3) for value in groups["whole"].to_list()]
    return pl.DataFrame(
        [
            pl.Series("Total (MB)", total, dtype=pl.Float64),
            groups["num"].cast(pl.Int64).alias("Count"),
            *spread_columns(groups, "(MB)"),
            groups["name"].alias("Operation"),
        ]
    )


def cuda_gpu_sum(sel: Selection) -> pl.DataFrame:
    """Kernels, copies and fills by name."""
    return _categories(("CUDA_KERNEL", _kernels(sel)), ("MEMORY_OPER", _memops(sel)))


def cuda_api_gpu_sum(sel: Selection) -> pl.DataFrame:
    """API calls, kernels, copies and fills by name."""
    return _categories(("CUDA_API", _api(sel)), ("CUDA_KERNEL", _kernels(sel)), ("MEMORY_OPER", _memops(sel)))


def cuda_kern_exec_sum(sel: Selection) -> pl.DataFrame:
    """Launches by thread, device, API call and kernel: the call, the wait in the queue, and the kernel.

    A kernel that began before its call returned did not wait, and counts in no queue statistics.
    """
    keys = ("process", "thread", "device", "api_name", "name")
    groups = (
        _executions(sel)
        .group_by(keys)
        .agg([expression for letter, value in _PHASES for expression in statistics(f"{value}_ns", letter)])
        .with_columns(pl.col("name", "api_name").cast(pl.String))
        .sort("Tavg", *keys, descending=[True, *[False] * len(keys)])
    )
    phases = [column for letter, _ in _PHASES for column in spread_columns(groups, "(ns)", prefix=letter, label=letter)]
    return pl.DataFrame(
        [
            groups["process"].alias("PID"),
            groups["thread"].alias("TID"),
            groups["device"].alias("DevId"),
            groups["Tnum"].cast(pl.Int64).alias("Count"),
            groups["Qnum"].cast(pl.Int64).alias("QCount"),
            *phases,
            groups["api_name"].alias("API Name"),
            groups["name"].alias("Kernel Name"),
        ]
    )


def cuda_gpu_trace(sel: Selection) -> pl.DataFrame:
    """Every kernel, copy and fill, in the order in which they ran.

    The frames hold static and dynamic shared memory as one number, so both are read from the file, as long as it is
    there. They hold no green contexts: that column stays empty.
    Throughput is bytes times the whole number of such activities that fit into a second, as NVIDIA counts it.
    """
    rows = sel.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    moved = pl.col("kind") != "kernel"
    rows = rows.with_columns(
        size=pl.when(moved).then(pl.col("bytes") / _PER_MB),
        rate=pl.when(moved & (pl.col("duration") > 0)).then(
            pl.col("bytes").cast(pl.Float64) * (1_000_000_000 // pl.col("duration")) / _PER_MB
        ),
        places=pl.col("memory_kinds").cast(pl.String).str.split(" -> "),
        spelled=_spelled(rows),
    )
    rows = rows.with_columns(
        rounded_series(rows["size"], 3).alias("size"), rounded_series(rows["rate"], 3).alias("rate")
    )
    names = {device.id: f"{device.name or 'GPU'} ({device.id})" for device in sel.trace.info.devices}
    shapes = [
        pl.col(column).arr.get(axis).cast(pl.Int64).alias(f"{title}{letter}")
        for column, title in (("grid", "Grd"), ("block", "Blk"))
        for axis, letter in enumerate("XYZ")
    ]
    rows = rows.join(_shared_memory(sel), on=list(_OF_KERNEL), how="left", nulls_equal=True, maintain_order="left")
    return rows.sort("start", maintain_order=True).select(
        pl.col("start").alias("Start (ns)"),
        pl.col("duration").alias("Duration (ns)"),
        pl.col("correlation").alias("CorrId"),
        *shapes,
        pl.col("registers").alias("Reg/Trd"),
        pl.col("static").alias("StcSMem (MB)"),
        pl.col("dynamic").alias("DymSMem (MB)"),
        pl.col("size").alias("Bytes (MB)"),
        pl.col("rate").alias("Throughput (MB/s)"),
        pl.col("places").list.get(0, null_on_oob=True).alias("SrcMemKd"),
        pl.col("places").list.get(1, null_on_oob=True).alias("DstMemKd"),
        pl.col("device")
        .replace_strict(names, default=pl.col("device").cast(pl.String), return_dtype=pl.String)
        .alias("Device"),
        pl.col("context").alias("Ctx"),
        pl.lit(None, pl.Int64).alias("GreenCtx"),
        pl.col("stream").alias("Strm"),
        pl.col("spelled").alias("Name"),
    )


def _shared_memory(sel: Selection) -> pl.DataFrame:
    """The static and dynamic shared memory of the file's kernels, MB; no row where the file is gone."""
    sizes = ("staticSharedMemory", "dynamicSharedMemory")
    with beside(sel.trace) as file:
        columns = (*_OF_KERNEL.values(), *sizes)
        found = (
            pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
            if file is None
            else file.whole(_KERNEL_TABLE, *columns)
        )
    found = found.unique(list(_OF_KERNEL.values()), keep="first", maintain_order=True)
    return pl.DataFrame(
        {ours: found[column] for ours, column in _OF_KERNEL.items()}
        | {
            name: rounded_series(found[size] / _PER_MB, 3)
            for name, size in zip(("static", "dynamic"), sizes, strict=True)
        }
    )


def _kernels(sel: Selection) -> pl.DataFrame:
    """Kernels in scope, without CUDA graphs recorded as one activity, which NVIDIA's reports leave out."""
    return sel.device.filter(pl.col("kind") == "kernel").select(
        "name", "start", "duration", "device", "grid", "block", "launch"
    )


def _memops(sel: Selection) -> pl.DataFrame:
    rows = sel.device.filter(pl.col("kind").is_in(["memcpy", "memset"]))
    return rows.select(_spelled(rows).alias("name"), "start", "duration", "bytes")


def _spelled(rows: pl.DataFrame) -> pl.Series:
    """Names of device rows, those of copies and fills as nsys spells them."""
    moved = rows.filter(pl.col("kind") != "kernel")["name"].cast(pl.String)
    spelled = {name: operation_name(name) for name in moved.unique().drop_nulls().to_list()}
    name, kind = rows["name"].cast(pl.String), rows["kind"]
    return pl.select(pl.when(kind == "kernel").then(name).otherwise(name.replace(spelled))).to_series()


def _os_calls(sel: Selection) -> pl.DataFrame:
    return sel.host.filter(pl.col("kind") == "os").select("name", "start", "duration")


def _api(sel: Selection) -> pl.DataFrame:
    return sel.host.filter(pl.col("kind").is_in(["runtime", "driver"])).select(
        "name", "start", "duration", "process", "thread", "correlation"
    )


def _by_name(rows: Callable[[Selection], pl.DataFrame], count: str) -> Callable[[Selection], pl.DataFrame]:
    """A report of calls or kernels by name; `count` is the title of their number."""

    def report(sel: Selection) -> pl.DataFrame:
        groups = _ranked(rows(sel), "name").with_columns(pl.col("name").cast(pl.String))
        return with_percent(groups, [*timing_columns(groups, count), groups["name"].alias("Name")])

    return report


def _ranked(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Groups, the most time first; among equals the one seen first, which is the order of NVIDIA's name ids."""
    seen = rows.group_by("name").agg(seen=pl.col("start").min())
    groups = rows.group_by(keys).agg(statistics("duration")).join(seen, on="name", nulls_equal=True)
    return groups.sort("total", "seen", *keys, descending=[True, *[False] * (len(keys) + 1)])


def _categories(*parts: tuple[str, pl.DataFrame]) -> pl.DataFrame:
    groups = pl.concat(
        [
            rows.select(pl.col("name").cast(pl.String), "duration")
            .group_by("name")
            .agg(statistics("duration"))
            .with_columns(category=pl.lit(category))
            for category, rows in parts
        ]
    ).sort("total", "name", "category", descending=[True, False, False])
    names = [groups["category"].alias("Category"), groups["name"].alias("Operation")]
    return with_percent(groups, [*timing_columns(groups, "Instances"), *names])


def _executions(sel: Selection) -> pl.DataFrame:
    """Kernels with the call that launched each: its name, thread and times, and the wait between them."""
    kernels = _kernels(sel).filter(pl.col("launch").is_not_null())
    calls = sel.trace.host.select(
        "process", "thread", pl.col("name").alias("api_name"), pl.col("start").alias("api_start"),
        pl.col("duration").alias("api_ns"),
    )[kernels["launch"]]  # fmt: skip
    rows = pl.concat([kernels.rename({"duration": "kernel_ns"}), calls], how="horizontal")
    returned = pl.col("api_start") + pl.col("api_ns")
    ended = pl.col("start") + pl.col("kernel_ns")
    return rows.with_columns(
        queue_ns=pl.when(pl.col("start") >= returned).then(pl.col("start") - returned),
        total_ns=pl.max_horizontal(returned, ended) - pl.col("api_start"),
    )


def _size(column: str) -> pl.Expr:
    """Returns ``  16   32    1``: each number padded to at least four columns."""
    parts = [pl.col(column).arr.get(axis).cast(pl.String).str.pad_start(4) for axis in range(3)]
    return pl.concat_str(parts, separator=" ").alias(column)


@dataclass(frozen=True, slots=True)
class _Report:
    title: str
    make: Callable[[Selection], pl.DataFrame]
    lacks: str
    """The data that the trace lacks if the report is empty, in NVIDIA's words."""
    old: str = ""
    """Its name before 2023."""


_GPU, _KERNELS, _API = "GPU trace data", "CUDA kernel data", "CUDA trace data"
_NVTX, _MEMORY = "NV Tools Extension (NVTX) data", "GPU memory data"
_REPORTS = {
    "cuda_api_gpu_sum": _Report("CUDA Summary (API/Kernels/MemOps)", cuda_api_gpu_sum, _API, "apigpusum"),
    "cuda_api_sum": _Report("CUDA API Summary", _by_name(_api, "Num Calls"), _API, "cudaapisum"),
    "cuda_gpu_kern_gb_sum": _Report("CUDA GPU Kernel/Grid/Block Summary", cuda_gpu_kern_gb_sum, _KERNELS),
    "cuda_gpu_kern_sum": _Report("CUDA GPU Kernel Summary", _by_name(_kernels, "Instances"), _KERNELS, "gpukernsum"),
    "cuda_gpu_mem_size_sum": _Report(
        "CUDA GPU MemOps Summary (by Size)", cuda_gpu_mem_size_sum, _MEMORY, "gpumemsizesum"
    ),
    "cuda_gpu_mem_time_sum": _Report(
        "CUDA GPU MemOps Summary (by Time)", cuda_gpu_mem_time_sum, _MEMORY, "gpumemtimesum"
    ),
    "cuda_gpu_sum": _Report("CUDA GPU Summary (Kernels/MemOps)", cuda_gpu_sum, _GPU, "gpusum"),
    "cuda_gpu_trace": _Report("CUDA GPU Trace", cuda_gpu_trace, _GPU, "gputrace"),
    "cuda_kern_exec_sum": _Report(
        "CUDA Kernel Launch & Exec Time Summary", cuda_kern_exec_sum, _KERNELS, "kernexecsum"
    ),
    "nvtx_gpu_proj_sum": _Report("NVTX GPU Projection Summary", nvtx.nvtx_gpu_proj_sum, _NVTX, "nvtxgpuprojsum"),
    "nvtx_kern_sum": _Report("NVTX Range Kernel Summary", nvtx.nvtx_kern_sum, _KERNELS, "nvtxkernsum"),
    "nvtx_pushpop_sum": _Report("NVTX Push/Pop Range Summary", nvtx.nvtx_pushpop_sum, _NVTX, "nvtxppsum"),
    "nvtx_startend_sum": _Report("NVTX Start/End Range Summary", nvtx.nvtx_startend_sum, _NVTX, "nvtxsesum"),
    "nvtx_sum": _Report("NVTX Range Summary", nvtx.nvtx_sum, _NVTX, "nvtxsum"),
    "osrt_sum": _Report("OS Runtime Summary", _by_name(_os_calls, "Num Calls"), "OS Runtime trace data", "osrtsum"),
}
REPORTS = tuple(sorted(_REPORTS))
"""The names that `nsys_report` takes, alphabetically."""
_ALIASES = {report.old: name for name, report in _REPORTS.items() if report.old} | {
    "nvtxsssum": "nvtx_startend_sum",
    "nvtx_pp_sum": "nvtx_pushpop_sum",
    "nvtx_se_sum": "nvtx_startend_sum",
}


def known_name(name: str) -> str | None:
    """The current name of a report, given that name or an older one; None for an unknown name."""
    return name if name in _REPORTS else _ALIASES.get(name)


def nsys_report(sel: Selection, name: str) -> StatsTable:
    """One of NVIDIA's tables.

    Args:
        sel: the trace and what of it the numbers are about.
        name: out of `REPORTS`, or an older name of one of them.

    Raises:
        KeyError: there is no such report.
    """
    current = known_name(name)
    if current is None:
        raise KeyError(name)
    report = _REPORTS[current]
    return StatsTable(current, report.title, report.make(sel), report.lacks)
