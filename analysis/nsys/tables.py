"""NVIDIA's reports about kernels, copies and API calls: summaries and traces (`nsys stats`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.memops import operation_name
from tracetui.analysis.nsys.values import (
    rounded,
    rounded_series,
    spread_columns,
    statistics,
    timing_columns,
    with_percent,
)

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

_PER_MB = 1_000_000
_PHASES = (("T", "total"), ("A", "api"), ("Q", "queue"), ("K", "kernel"))
"""NVIDIA's letters for the parts of a launch."""


def cuda_gpu_kern_sum(sel: Selection) -> pl.DataFrame:
    """Kernels by name."""
    groups = _by_name(_kernels(sel))
    return with_percent(groups, [*timing_columns(groups, "Instances"), groups["name"].alias("Name")])


def cuda_gpu_kern_gb_sum(sel: Selection) -> pl.DataFrame:
    """Kernels by name, grid and block."""
    rows = _kernels(sel).with_columns(_size("grid"), _size("block"))
    groups = _ranked(rows, "name", "grid", "block").with_columns(pl.col("name").cast(pl.String))
    shapes = [groups["grid"].alias("GridXYZ"), groups["block"].alias("BlockXYZ")]
    return with_percent(groups, [*timing_columns(groups, "Instances"), *shapes, groups["name"].alias("Name")])


def cuda_api_sum(sel: Selection) -> pl.DataFrame:
    """Calls of the CUDA runtime and driver by name."""
    groups = _by_name(_api(sel))
    return with_percent(groups, [*timing_columns(groups, "Num Calls"), groups["name"].alias("Name")])


def osrt_sum(sel: Selection) -> pl.DataFrame:
    """Calls of the operating system's runtime by name."""
    groups = _by_name(sel.host.filter(pl.col("kind") == "os").select("name", "start", "duration"))
    return with_percent(groups, [*timing_columns(groups, "Num Calls"), groups["name"].alias("Name")])


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


def cuda_kern_exec_trace(sel: Selection) -> pl.DataFrame:
    """Every launch of a kernel, in the order of the calls."""
    rows = _executions(sel).sort("api_start", "start", maintain_order=True)
    queued = pl.col("queue_ns").is_not_null()
    return rows.select(
        pl.col("api_start").alias("API Start (ns)"),
        pl.col("api_ns").alias("API Dur (ns)"),
        pl.when(queued).then(pl.col("api_start") + pl.col("api_ns")).alias("Queue Start (ns)"),
        pl.col("queue_ns").alias("Queue Dur (ns)"),
        pl.col("start").alias("Kernel Start (ns)"),
        pl.col("kernel_ns").alias("Kernel Dur (ns)"),
        pl.col("total_ns").alias("Total Dur (ns)"),
        pl.col("process").alias("PID"),
        pl.col("thread").alias("TID"),
        pl.col("device").alias("DevId"),
        pl.col("api_name").cast(pl.String).alias("API Function"),
        _size("grid").alias("GridXYZ"),
        _size("block").alias("BlockXYZ"),
        pl.col("name").cast(pl.String).alias("Kernel Name"),
    )


def cuda_gpu_trace(sel: Selection) -> pl.DataFrame:
    """Every kernel, copy and fill, in the order in which they ran.

    The frames hold static and dynamic shared memory as one number and no green contexts: those columns stay empty.
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
    unknown = pl.lit(None, pl.Float64)
    return rows.sort("start", maintain_order=True).select(
        pl.col("start").alias("Start (ns)"),
        pl.col("duration").alias("Duration (ns)"),
        pl.col("correlation").alias("CorrId"),
        *shapes,
        pl.col("registers").alias("Reg/Trd"),
        unknown.alias("StcSMem (MB)"),
        unknown.alias("DymSMem (MB)"),
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


def cuda_api_trace(sel: Selection) -> pl.DataFrame:
    """Every call of the CUDA runtime and driver in the order of their starts.

    The frames hold neither results nor priorities: those columns stay empty.
    """
    threads = {(process, thread): name for process, thread, name in sel.trace.info.threads}
    rows = _api(sel).sort("start", maintain_order=True)
    lanes = rows.select("process", "thread").unique()
    named = lanes.with_columns(
        pl.Series("thread_name", [threads.get(lane) for lane in lanes.iter_rows()], dtype=pl.String)
    )
    unknown = pl.lit(None, pl.Int64)
    return rows.join(named, on=["process", "thread"], how="left", nulls_equal=True, maintain_order="left").select(
        pl.col("start").alias("Start (ns)"),
        pl.col("duration").alias("Duration (ns)"),
        pl.col("name").cast(pl.String).alias("Name"),
        unknown.alias("Result"),
        pl.col("correlation").alias("CorrID"),
        pl.col("process").alias("Pid"),
        pl.col("thread").alias("Tid"),
        unknown.alias("T-Pri"),
        pl.col("thread_name").alias("Thread Name"),
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


def _api(sel: Selection) -> pl.DataFrame:
    return sel.host.filter(pl.col("kind").is_in(["runtime", "driver"])).select(
        "name", "start", "duration", "process", "thread", "correlation"
    )


def _by_name(rows: pl.DataFrame) -> pl.DataFrame:
    return _ranked(rows, "name").with_columns(pl.col("name").cast(pl.String))


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
