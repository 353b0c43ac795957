"""NVIDIA's report tables: what `nsys stats` prints, made from any trace's frames.

Definitions: NVIDIA's description of its statistical reports (Nsight Systems Analysis Guide), and what `nsys stats`
printed for recordings, which `tests/test_nsys_stats.py` compares with value by value. docs/nsys.md says what differs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.memops import operation_name
from tracetui.analysis.nsys import nvtx
from tracetui.analysis.nsys.unified_memory import um_cpu_page_faults_sum, um_sum, um_total_sum
from tracetui.analysis.nsys.values import (
    StatsTable,
    rounded,
    rounded_series,
    spread_columns,
    statistics,
    timing_columns,
    with_percent,
)
from tracetui.parsers.nsys.beside import Beside, beside
from tracetui.parsers.nsys.unread import held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tracetui.analysis.selection import Selection

MPI = {
    "MPI_P2P_EVENTS": "p2p", "MPI_START_WAIT_EVENTS": "start-wait", "MPI_OTHER_EVENTS": "other",
    "MPI_COLLECTIVES_EVENTS": "collectives",
}  # fmt: skip
VIDEO = {"NVVIDEO_ENCODER_API": "Encoder", "NVVIDEO_DECODER_API": "Decoder", "NVVIDEO_JPEG_API": "JPEG"}
OPENMP, OPENACC = re.compile(r"OPENMP_EVENT_KIND_.+"), re.compile(r"CUPTI_ACTIVITY_KIND_OPENACC_.+")
_KERNEL_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
_OF_KERNEL = {"start": "start", "correlation": "correlationId", "stream": "streamId"}
"""What tells a kernel in the frames and in the file."""
SYSCALL_CLASS, VULKAN_CLASS = 107, 53
"""The event class of the calls themselves, among what else these tables hold."""
_VERSION = re.compile(r"_v.{4}$")
"""What NVIDIA cuts off the names of API functions."""
_ROWS = {"label": pl.String, "string": pl.Int64, "file": pl.Int64, "line": pl.Int64, "duration": pl.Int64}
_SENT, _RECEIVED, _BETWEEN_TWO = "coll_send", "coll_recv", "p2p"
_MPI_TRACE = {
    "Start (ns)": pl.Int64, "End (ns)": pl.Int64, "Duration (ns)": pl.Int64, "Event": pl.String, "Pid": pl.Int64,
    "Tid": pl.Int64, "Tag": pl.Int64, "Rank": pl.Int64, "PeerRank": pl.Int64, "RootRank": pl.Int64,
    "Size (MB)": pl.Float64, "CollSendSize (MB)": pl.Float64, "CollRecvSize (MB)": pl.Float64,
}  # fmt: skip


def calls(
    tables: Mapping[str, str] | re.Pattern[str],
    count: str,
    *,
    name: str = "nameId",
    label: str = "",
    event_class: int | None = None,
    versions: bool = False,
    placed: bool = False,
) -> Callable[[Selection], pl.DataFrame]:
    """A report of calls by name, the most time first.

    Args:
        tables: where the calls are, each with its label; or how the tables are called.
        count: the title of the number of calls.
        name: the column with the number of the name.
        label: the title of the labels; without one they are not shown.
        event_class: the rows that count; all where there is none.
        versions: whether a name loses its version.
        placed: whether a name gets its file and line.
    """

    def report(sel: Selection) -> pl.DataFrame:
        with beside(sel.trace) as file:
            parts = [] if file is None else _rows(file, tables, name, event_class)
            rows = pl.concat([pl.DataFrame(schema=_ROWS), *parts])
            texts = {} if file is None else file.texts({*rows["string"].to_list(), *rows["file"].to_list()})
        distinct = rows.select("string", "file", "line").unique()
        names = [_name(texts, *row, versions=versions, placed=placed) for row in distinct.iter_rows()]
        named = distinct.with_columns(name=pl.Series(names, dtype=pl.String))
        rows = rows.join(named, on=named.columns[:3], nulls_equal=True)
        groups = rows.group_by("label", "name").agg(statistics("duration"))
        groups = groups.sort("total", "label", "name", descending=[True, False, False])
        labels = [groups["label"].alias(label)] if label else []
        return with_percent(groups, [*timing_columns(groups, count), *labels, groups["name"].alias("Name")])

    return report


def _rows(
    file: Beside, tables: Mapping[str, str] | re.Pattern[str], name: str, event_class: int | None
) -> Iterator[pl.DataFrame]:
    if isinstance(tables, re.Pattern):
        tables = dict.fromkeys(sorted(filter(tables.fullmatch, file.database.tables)), "")
    for table, label in tables.items():
        rows = file.whole(table, "start", "end", name, "eventClass", "srcFile", "lineNo").drop_nulls(["start", "end"])
        if event_class is not None:
            rows = rows.filter(pl.col("eventClass") == event_class)
        duration = pl.col("end") - pl.col("start")
        yield rows.select(label=pl.lit(label), string=name, file="srcFile", line="lineNo", duration=duration)


def _name(
    texts: Mapping[int, str], string: int | None, file: int | None, line: int | None, *, versions: bool, placed: bool
) -> str | None:
    text = None if string is None else texts.get(string)
    if versions and text:
        return _VERSION.sub("", text)
    return f"{text}@{texts.get(file)}:{line}" if placed and file is not None else text


def mpi_event_trace(sel: Selection) -> pl.DataFrame:
    """Every MPI call, in the order of their starts."""
    columns = ("start", "end", "globalTid", "textId", "tag", "remoteRank", "rootRank", "size", "recvSize")
    with beside(sel.trace) as file:
        if file is None:
            return pl.DataFrame(schema=_MPI_TRACE)
        ranks = dict(file.whole("MPI_RANKS", "globalTid", "rank").iter_rows())
        parts = [file.whole(table, *columns).with_columns(of=pl.lit(table)) for table in MPI]
        calls = pl.concat(parts).sort("start", maintain_order=True)
        texts = file.texts(calls["textId"].unique().to_list())
    collective = pl.col("of") == "MPI_COLLECTIVES_EVENTS"
    size = pl.col("size") / 1_000_000
    return calls.select(
        pl.col("start").alias("Start (ns)"),
        pl.col("end").alias("End (ns)"),
        (pl.col("end") - pl.col("start")).alias("Duration (ns)"),
        pl.col("textId").replace_strict(texts, default=None, return_dtype=pl.String).alias("Event"),
        (pl.col("globalTid") // (1 << 24) % (1 << 24)).alias("Pid"),
        (pl.col("globalTid") % (1 << 24)).alias("Tid"),
        pl.col("tag").alias("Tag"),
        pl.col("globalTid").replace_strict(ranks, default=None, return_dtype=pl.Int64).alias("Rank"),
        pl.col("remoteRank").alias("PeerRank"),
        pl.col("rootRank").alias("RootRank"),
        pl.when(~collective).then(size).alias("Size (MB)"),
        pl.when(collective).then(size).alias("CollSendSize (MB)"),
        (pl.col("recvSize") / 1_000_000).alias("CollRecvSize (MB)"),
    ).cast(_MPI_TRACE)  # type: ignore[arg-type]


def mpi_msg_size_sum(sel: Selection) -> pl.DataFrame:
    """Sizes of MPI messages by kind and name."""
    with beside(sel.trace) as file:
        kept = [] if file is None else _messages(file)
        messages = pl.concat([pl.DataFrame(schema={"source": pl.String, "textId": pl.Int64, "bytes": pl.Int64}), *kept])
        texts = {} if file is None else file.texts(messages["textId"].unique().to_list())
    named = messages.with_columns(name=pl.col("textId").replace_strict(texts, default=None, return_dtype=pl.String))
    groups = named.group_by("source", "name").agg(statistics("bytes"))
    groups = groups.sort("total", "source", "name", descending=[True, False, False])
    return pl.DataFrame(
        [
            groups["total"].alias("Total Message Volume (B)"),
            groups["num"].cast(pl.Int64).alias("Instances"),
            *spread_columns(groups, "(B)"),
            groups["source"].alias("Source"),
            groups["name"].alias("Name"),
        ]
    )


def _messages(file: Beside) -> list[pl.DataFrame]:
    both = file.whole("MPI_COLLECTIVES_EVENTS", "textId", "size", "recvSize")
    two = file.whole("MPI_P2P_EVENTS", "textId", "size")
    return [
        rows.select(source=pl.lit(source), textId="textId", bytes=column).drop_nulls("bytes")
        for source, rows, column in ((_BETWEEN_TWO, two, "size"), (_SENT, both, "size"), (_RECEIVED, both, "recvSize"))
    ]


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
_MPI, _UNIFIED = "MPI event data", "CUDA Unified Memory data: copies and page faults of CPU and GPU"
_NVTX, _MEMORY = "NV Tools Extension (NVTX) data", "GPU memory data"
_REPORTS = {
    "cuda_api_gpu_sum": _Report("CUDA Summary (API/Kernels/MemOps)", cuda_api_gpu_sum, _API, "apigpusum"),
    "cuda_api_sum": _Report("CUDA API Summary", _by_name(_api, "Num Calls"), _API, "cudaapisum"),
    "cuda_api_trace": _Report("CUDA API Trace", cuda_api_trace, _API, "cudaapitrace"),
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
    "cuda_kern_exec_trace": _Report(
        "CUDA Kernel Launch & Exec Time Trace", cuda_kern_exec_trace, _KERNELS, "kernexectrace"
    ),
    "nvtx_gpu_proj_sum": _Report("NVTX GPU Projection Summary", nvtx.nvtx_gpu_proj_sum, _NVTX, "nvtxgpuprojsum"),
    "nvtx_gpu_proj_trace": _Report("NVTX GPU Projection Trace", nvtx.nvtx_gpu_proj_trace, _NVTX, "nvtxgpuproj"),
    "nvtx_kern_sum": _Report("NVTX Range Kernel Summary", nvtx.nvtx_kern_sum, _KERNELS, "nvtxkernsum"),
    "nvtx_pushpop_sum": _Report("NVTX Push/Pop Range Summary", nvtx.nvtx_pushpop_sum, _NVTX, "nvtxppsum"),
    "nvtx_pushpop_trace": _Report("NVTX Push/Pop Range Trace", nvtx.nvtx_pushpop_trace, _NVTX, "nvtxpptrace"),
    "nvtx_startend_sum": _Report("NVTX Start/End Range Summary", nvtx.nvtx_startend_sum, _NVTX, "nvtxsesum"),
    "nvtx_sum": _Report("NVTX Range Summary", nvtx.nvtx_sum, _NVTX, "nvtxsum"),
    "mpi_event_sum": _Report("MPI Event Summary", calls(MPI, "Instances", name="textId", label="Source"), _MPI),
    "mpi_event_trace": _Report("MPI Event Trace", mpi_event_trace, _MPI),
    "mpi_msg_size_sum": _Report("MPI Message Size Summary", mpi_msg_size_sum, _MPI),
    "nvvideo_api_sum": _Report(
        "NvVideo API Summary", calls(VIDEO, "Num Calls", label="Event Type", versions=True), "NvVideo trace data"
    ),
    "openacc_sum": _Report("OpenACC Summary", calls(OPENACC, "Num Calls", placed=True), "OpenACC event data"),
    "openmp_sum": _Report("OpenMP Summary", calls(OPENMP, "Count"), "OpenMP event data"),
    "syscall_sum": _Report(
        "Syscall Summary", calls({"SYSCALL": ""}, "Num Calls", event_class=SYSCALL_CLASS), "syscall data"
    ),
    "um_cpu_page_faults_sum": _Report(
        "Unified Memory CPU Page Faults Summary",
        um_cpu_page_faults_sum,
        "CUDA Unified Memory CPU page faults data",
    ),
    "um_sum": _Report("Unified Memory Analysis Summary", um_sum, _UNIFIED),
    "um_total_sum": _Report("Unified Memory Totals Summary", um_total_sum, _UNIFIED),
    "vulkan_api_sum": _Report(
        "Vulkan API Summary",
        calls({"VULKAN_API": ""}, "Num Calls", event_class=VULKAN_CLASS, versions=True),
        "Vulkan API trace data",
    ),
    "osrt_sum": _Report("OS Runtime Summary", _by_name(_os_calls, "Num Calls"), "OS Runtime trace data", "osrtsum"),
}
NOT_MADE = {
    "dx11_pix_sum": ("DX11 PIX Range Summary", "DX11 CPU debug markers", "D3D11_PIX_DEBUG_API"),
    "dx12_gpu_marker_sum": ("DX12 GPU Command List PIX Ranges Summary", "DX12 GPU debug markers", "DX12_WORKLOAD"),
    "dx12_pix_sum": ("DX12 PIX Range Summary", "DX12 CPU debug markers", "D3D12_PIX_DEBUG_API"),
    "network_congestion": ("Network Devices Congestion", "network device metrics", "NET_NIC_METRIC"),
    "opengl_khr_gpu_range_sum": (
        "OpenGL KHR_debug GPU Range Summary", "GPU KHR Extension (KHR_DEBUG) data", "KHR_DEBUG_EVENTS"
    ),
    "opengl_khr_range_sum": ("OpenGL KHR_debug Range Summary", "KHR Extension (KHR_DEBUG) data", "KHR_DEBUG_EVENTS"),
    "vulkan_api_trace": ("Vulkan API Trace", "Vulkan API trace data", "VULKAN_API"),
    "vulkan_gpu_marker_sum": (
        "Vulkan GPU Range Summary", "GPU Vulkan Debug Extension (GPU Vulkan Debug markers) data", "VULKAN_WORKLOAD"
    ),
    "vulkan_marker_sum": (
        "Vulkan Range Summary", "Vulkan Debug Extension (Vulkan Debug Util) data", "VULKAN_DEBUG_API"
    ),
    "wddm_queue_sum": ("WDDM Queue Utilization Summary", "WDDM event data", "WDDM_QUEUE_PACKET_START_EVENTS"),
}  # fmt: skip
"""Reports about graphics and networks, which are known by name only: title, data, and the table that has it."""
REPORTS = tuple(sorted({**_REPORTS, **NOT_MADE}))
"""The names that `nsys_report` takes, alphabetically."""
_ALIASES = {report.old: name for name, report in _REPORTS.items() if report.old} | {
    "nvtxsssum": "nvtx_startend_sum",
    "nvtx_pp_sum": "nvtx_pushpop_sum",
    "nvtx_se_sum": "nvtx_startend_sum",
}


def known_name(name: str) -> str | None:
    """The current name of a report, given that name or an older one; None for an unknown name."""
    return name if name in _REPORTS or name in NOT_MADE else _ALIASES.get(name)


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
    if current in NOT_MADE:
        title, data, table = NOT_MADE[current]
        return StatsTable(
            current, title, pl.DataFrame(schema={"Name": pl.String}), data, not_made=table in held(sel.trace)
        )
    report = _REPORTS[current]
    return StatsTable(current, report.title, report.make(sel), report.lacks)
