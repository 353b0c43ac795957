"""NVIDIA's reports about what no frame holds: MPI, OpenMP, OpenACC, video and Vulkan calls, unified memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.nsys.values import rounded, spread_columns, statistics, timing_columns, with_percent
from tracetui.parsers.nsys.beside.reading import beside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.analysis.selection import Selection
    from tracetui.parsers.nsys.beside.reading import Beside

MPI = {
    "MPI_P2P_EVENTS": "p2p", "MPI_START_WAIT_EVENTS": "start-wait", "MPI_OTHER_EVENTS": "other",
    "MPI_COLLECTIVES_EVENTS": "collectives",
}  # fmt: skip
VIDEO = {"NVVIDEO_ENCODER_API": "Encoder", "NVVIDEO_DECODER_API": "Decoder", "NVVIDEO_JPEG_API": "JPEG"}
OPENMP, OPENACC = re.compile(r"OPENMP_EVENT_KIND_.+"), re.compile(r"CUPTI_ACTIVITY_KIND_OPENACC_.+")
SYSCALL_CLASS, VULKAN_CLASS = 107, 53
"""The event class of the calls themselves, among what else these tables hold."""
_VERSION = re.compile(r"_v.{4}$")
"""What NVIDIA cuts off the names of API functions."""
_SENT, _RECEIVED, _BETWEEN_TWO = "coll_send", "coll_recv", "p2p"
_MPI_TRACE = {
    "Start (ns)": pl.Int64, "End (ns)": pl.Int64, "Duration (ns)": pl.Int64, "Event": pl.String, "Pid": pl.Int64,
    "Tid": pl.Int64, "Tag": pl.Int64, "Rank": pl.Int64, "PeerRank": pl.Int64, "RootRank": pl.Int64,
    "Size (MB)": pl.Float64, "CollSendSize (MB)": pl.Float64, "CollRecvSize (MB)": pl.Float64,
}  # fmt: skip


def mpi_event_sum(sel: Selection) -> pl.DataFrame:
    """MPI calls by kind and name."""
    return _calls(sel, MPI, "Instances", name="textId", label="Source")


def openmp_sum(sel: Selection) -> pl.DataFrame:
    """OpenMP events by name."""
    return _calls(sel, _like(sel, OPENMP), "Count")


def syscall_sum(sel: Selection) -> pl.DataFrame:
    """System calls by name."""
    return _calls(sel, {"SYSCALL": ""}, "Num Calls", event_class=SYSCALL_CLASS)


def vulkan_api_sum(sel: Selection) -> pl.DataFrame:
    """Vulkan calls by name."""
    return _calls(sel, {"VULKAN_API": ""}, "Num Calls", event_class=VULKAN_CLASS, versions=True)


def nvvideo_api_sum(sel: Selection) -> pl.DataFrame:
    """Calls of the video encoder, decoder and JPEG engine by name."""
    return _calls(sel, VIDEO, "Num Calls", label="Event Type", versions=True)


def openacc_sum(sel: Selection) -> pl.DataFrame:
    """OpenACC events by name and place in the source."""
    return _calls(sel, _like(sel, OPENACC), "Num Calls", placed=True)


def _like(sel: Selection, pattern: re.Pattern[str]) -> dict[str, str]:
    with beside(sel.trace) as file:
        return {} if file is None else dict.fromkeys(sorted(filter(pattern.fullmatch, file.database.tables)), "")


def _calls(
    sel: Selection,
    tables: Mapping[str, str],
    count: str,
    *,
    name: str = "nameId",
    label: str = "",
    event_class: int | None = None,
    versions: bool = False,
    placed: bool = False,
) -> pl.DataFrame:
    """Calls by name, the most time first.

    Args:
        sel: the trace.
        tables: where the calls are, each with its label.
        count: the title of the number of calls.
        name: the column with the number of the name.
        label: the title of the labels; without one they are not shown.
        event_class: the rows that count; all where there is none.
        versions: whether a name loses its version.
        placed: whether a name gets its file and line.
    """
    kept = [pl.DataFrame(schema={"label": pl.String, "string": pl.Int64, "file": pl.Int64, "line": pl.Int64,
                                 "duration": pl.Int64})]  # fmt: skip
    texts: dict[int, str] = {}
    with beside(sel.trace) as file:
        for table, spelled in tables.items():
            if file is None:
                break
            rows = file.whole(table, "start", "end", name, "eventClass", "srcFile", "lineNo")
            if event_class is not None:
                rows = rows.filter(pl.col("eventClass") == event_class)
            kept.append(
                rows.drop_nulls(["start", "end"]).select(
                    label=pl.lit(spelled), string=name, file="srcFile", line="lineNo",
                    duration=pl.col("end") - pl.col("start"),
                )
            )  # fmt: skip
        calls = pl.concat(kept)
        if file is not None:
            texts = file.texts({*calls["string"].to_list(), *calls["file"].to_list()})
    distinct = calls.select("string", "file", "line").unique()
    named = [_name(texts, *row, versions=versions, placed=placed) for row in distinct.iter_rows()]
    calls = calls.join(
        distinct.with_columns(name=pl.Series(named, dtype=pl.String)), on=["string", "file", "line"], nulls_equal=True
    )
    groups = calls.group_by("label", "name").agg(statistics("duration"))
    groups = groups.sort("total", "label", "name", descending=[True, False, False])
    labels = [groups["label"].alias(label)] if label else []
    return with_percent(groups, [*timing_columns(groups, count), *labels, groups["name"].alias("Name")])


def _name(
    texts: Mapping[int, str], string: int | None, file: int | None, line: int | None, *, versions: bool, placed: bool
) -> str | None:
    found = None if string is None else texts.get(string)
    if versions and found:
        return _VERSION.sub("", found)
    if placed and file is not None:
        return f"{found}@{texts.get(file)}:{line}"
    return found


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
    whole = pl.when(pl.col("ns") > 0).then((pl.col("to_gpu") + pl.col("to_cpu")) * (1_000_000_000 // pl.col("ns")))
    rows = by.with_columns(rate=whole).sort("rate", "address", descending=[True, False], nulls_last=True).head(10)
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
