"""NVIDIA's reports about calls that no frame holds: MPI, OpenMP, OpenACC, system calls, video and Vulkan."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.nsys.values import spread_columns, statistics, timing_columns, with_percent
from tracetui.parsers.nsys.beside import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tracetui.analysis.selection import Selection
    from tracetui.parsers.nsys.beside import Beside

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
