"""The tables with events, the columns that are read, and how batches of rows become columns.

Schemas from 2020 to 2026 differ in tables and columns, and tables are made only when there is something to put into
them; whatever a file lacks is null.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracetui.parsers import categories, schema
from tracetui.parsers.arrays import Codes
from tracetui.parsers.nsys.compact import Columns, Numbering, narrow, triple, wide
from tracetui.parsers.nsys.database import Query, Table
from tracetui.parsers.nsys.names import labels
from tracetui.parsers.tally import Tally

UNSIGNED_NONE = 0xFFFFFFFF
"""-1 as nsys writes it into some columns of ids."""
PID_BITS, PID_MASK, TID_MASK = 24, 0xFFFFFF, 0xFFFFFF
"""A global id is hardware << 56 | machine << 48 | process << 24 | thread."""


class Ids(Struct, frozen=True):
    """How processes and threads make one number."""

    tid_bits: int = PID_BITS
    pids: int = PID_MASK

    def process(self, thread: Any) -> Any:
        """The process of a thread, or of many."""
        return (thread >> self.tid_bits) & self.pids

    def thread(self, thread: Any) -> Any:
        """The system's number of a thread, or of many."""
        return thread & ((1 << self.tid_bits) - 1)


PLAIN = Ids(32, 0x7FFFFFFF)
"""Process << 32 | thread, of programs that have a column for each."""
OSRT_PSEUDO = (31, 32)
"""Event classes of OSRT_API that say when tracing began and ended on a thread; they are no calls."""
DRIVER_CLASS = 1
MARKS, PUSH_POP, START_END = (34, 65), (59, 70), (60, 71)
THREAD_NAMES, CATEGORY, DOMAIN_CREATE = (39, 72), 33, 75
NAMED_KERNEL = ("demangledName", "shortName", "mangledName")
"""Columns that name a kernel, best first."""

KERNEL, MEMCPY, MEMSET, GRAPH, SYNCHRONIZATION = (
    schema.DEVICE_KINDS.index(kind) for kind in ("kernel", "memcpy", "memset", "graph", "synchronization")
)
RUNTIME, DRIVER, OS, OVERHEAD, ANNOTATION = (
    schema.HOST_KINDS.index(kind) for kind in ("runtime", "driver", "os", "overhead", "annotation")
)
STYLES = {style: number for number, style in enumerate(schema.RANGE_STYLES)}
NO_STYLE = 255
LONGEST = 1 << 53
"""ns: 104 days."""
LATEST = 1 << 61
"""ns before or after a clock's zero: 73 years."""


class Vocabulary(Struct, frozen=True):
    """Labels for the numbers of copy kinds and memory kinds."""

    copies: dict[int, str]
    memories: dict[int, str]

    def copy(self, kind: int | None) -> str:
        """``Host-to-Device`` and so on."""
        return "Unknown" if kind is None else self.copies.get(kind, f"kind {kind}")

    def memory(self, kind: int | None) -> str | None:
        """``Pageable``, ``Device`` and so on."""
        return None if kind is None else self.memories.get(kind, f"kind {kind}")


class Shared(Struct):
    """State shared by the batches of all tables; several threads may fill it."""

    tally: Tally
    vocabulary: Vocabulary
    ids: Ids = field(default_factory=Ids)
    is_cut: bool = False
    """Rows may have lost values with the end of the file."""
    threads: Numbering = field(default_factory=Numbering)
    """Numbers of global thread ids."""
    processes: Numbering = field(default_factory=Numbering)
    """Numbers of global process ids without their thread bits."""
    ranges_end: int | None = None
    """The latest time of any NVTX row, at which ranges end that were never closed."""
    nvtx_rows: list[dict[str, Any]] = field(default_factory=list)
    """NVTX rows that name something: threads, domains, categories."""
    strings: dict[str, set[int]] = field(default_factory=dict)
    """Ids of the strings that kept rows refer to, by what they name."""
    unusable: int = 0
    """How many rows were read but say too little to be an event."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def skip(self, reason: str, rows: int) -> None:
        """Counts rows that can't be used."""
        self.tally.skipped(reason, rows)
        with self.lock:
            self.unusable += rows

    def refer(self, purpose: str, ids: pl.Series) -> None:
        """Notes which strings are needed."""
        distinct = ids.unique().drop_nulls().to_list()
        with self.lock:
            self.strings.setdefault(purpose, set()).update(distinct)


class EventTable(Struct, frozen=True):
    """One table of events: the group its rows belong to, its columns, and how a batch becomes columns."""

    name: str
    group: str
    """One of `GROUPS`."""
    integers: tuple[str, ...]
    convert: Callable[[pl.DataFrame, Shared], Columns]
    texts: tuple[str, ...] = ()
    computed: dict[str, str] = {}
    """Of a program other than nsys: the columns in nsys's words, and what finds them (`dialects`)."""
    where: str = ""
    """Which of the rows are meant."""
    whole: bool = False
    """Whether rows belong to others far away, so that all are read at once."""

    def query(self, table: Table, connection: sqlite3.Connection, part: Mapping[str, str]) -> Query:
        """What is read of it."""
        if self.computed:
            return Query.computing(table, connection, part, self.computed, self.texts, self.where)
        unneeded = [name for name in NAMED_KERNEL if name in table.columns][1:]
        return Query.of(
            table, *(name for name in self.integers if name not in unneeded), texts=self.texts, is_events=True
        )


def _column(batch: pl.DataFrame, name: str) -> pl.Series:
    if name in batch.columns:
        return batch.get_column(name)
    missing: pl.Series = pl.repeat(None, batch.height, dtype=pl.Int64, eager=True)
    return missing


def _timed(batch: pl.DataFrame, shared: Shared, what: str, *, open_ended: bool = False) -> pl.DataFrame:
    """The rows that have a start and, unless `open_ended`, an end."""
    if shared.is_cut and {"start", "end"} <= set(batch.columns):
        torn = (batch["end"] < batch["start"]).fill_null(value=False)
        shared.skip("row that lost values with the end of the file", int(torn.sum()))
        batch = batch.filter(~torn)
    batch = _on_a_clock(batch, shared, what)
    start, end = _column(batch, "start"), _column(batch, "end")
    missing = start.null_count() if open_ended else start.null_count() + end.null_count()
    if not missing and {"start", "end"} <= set(batch.columns):
        return batch
    usable = start.is_not_null() if open_ended else start.is_not_null() & end.is_not_null()
    kept = batch.with_columns(start.alias("start"), end.alias("end")).filter(usable)
    shared.skip(f"{what} without a start or an end", batch.height - kept.height)
    return kept


def _on_a_clock(batch: pl.DataFrame, shared: Shared, what: str) -> pl.DataFrame:
    """The rows with plausible times; sums and differences of others don't fit into 64 bits."""
    for name in ("start", "end"):
        if name not in batch.columns or not batch.height:
            continue
        low, high = batch.select(low=pl.col(name).min(), high=pl.col(name).max()).row(0)
        if low is not None and (low < -LATEST or high > LATEST):
            within = batch[name].is_between(-LATEST, LATEST).fill_null(value=True)
            shared.skip(f"{what} at a time that no clock shows", int((~within).sum()))
            batch = batch.filter(within)
    return batch


def _duration(batch: pl.DataFrame, shared: Shared) -> pl.Series:
    """End less start, null where there is no end, and 0 where no event could take so long."""
    duration: pl.Series = batch["end"] - batch["start"]
    absurd = (duration > LONGEST).sum()
    if absurd:
        shared.tally.repaired("duration of more than 104 days, taken as none", int(absurd))
        duration = duration.set((duration > LONGEST).fill_null(value=False), 0)
    negative = (duration < 0).sum()
    if negative:
        shared.tally.repaired("end before the start, taken as no duration", int(negative))
        return duration.clip(lower_bound=0)
    return duration


def _ids(batch: pl.DataFrame, name: str) -> Any:
    """Ids of which 2^32 - 1 is none."""
    values = _column(batch, name)
    highest = values.max()
    if isinstance(highest, int) and highest >= UNSIGNED_NONE:
        values = values.replace(UNSIGNED_NONE, None)
    return narrow(values)


def _device(batch: pl.DataFrame, shared: Shared, kind: int) -> Columns:
    return {
        "kind": np.full(batch.height, kind, np.uint8),
        "start": wide(batch["start"]),
        "duration": wide(_duration(batch, shared)),
        "process": shared.processes.of(_column(batch, "globalPid") // (1 << shared.ids.tid_bits)),
        "device": _ids(batch, "deviceId"),
        "context": _ids(batch, "contextId"),
        "stream": _ids(batch, "streamId"),
        "correlation": narrow(_column(batch, "correlationId")),
    }


def _kernels(batch: pl.DataFrame, shared: Shared) -> Columns:
    batch = _timed(batch, shared, "kernel")
    columns = _device(batch, shared, KERNEL)
    name = next((_column(batch, name) for name in NAMED_KERNEL if name in batch.columns), _column(batch, ""))
    shared.refer("kernel", name)
    columns |= {
        "string": narrow(name),
        "grid": triple(*(_column(batch, f"grid{axis}") for axis in "XYZ")),
        "block": triple(*(_column(batch, f"block{axis}") for axis in "XYZ")),
        "registers": narrow(_column(batch, "registersPerThread")),
        "shared_memory": narrow(_column(batch, "staticSharedMemory") + _column(batch, "dynamicSharedMemory")),
    }
    if "counted" in batch.columns:
        columns["offset"] = narrow(_column(batch, "counted"))
    _add_graph_node(columns, batch)
    return columns


def _add_graph_node(columns: Columns, batch: pl.DataFrame) -> None:
    node = _column(batch, "graphNodeId")
    if node.null_count() < len(node):
        columns["graph_node"] = narrow(node)


def _copies(batch: pl.DataFrame, shared: Shared) -> Columns:
    batch = _timed(batch, shared, "copy")
    columns = _device(batch, shared, MEMCPY)
    vocabulary = shared.vocabulary
    columns |= {
        "bytes": narrow(_column(batch, "bytes")),
        "name": _labelled([_column(batch, "copyKind")], lambda kind: f"[CUDA memcpy {vocabulary.copy(kind)}]"),
        "memory_kinds": _labelled(
            [_column(batch, "srcKind"), _column(batch, "dstKind")],
            lambda source, target: _between(vocabulary.memory(source), vocabulary.memory(target)),
        ),
    }
    _add_graph_node(columns, batch)
    return columns


def _labelled(values: list[pl.Series], label: Callable[..., str | None]) -> Codes:
    """Category codes of the labels for each row's values, of which there are few different ones."""
    rows = pl.DataFrame([column.alias(str(number)) for number, column in enumerate(values)])
    place = rows.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy() - 1
    distinct = rows.unique().sort(pl.struct(pl.all()))
    found: Codes = categories.encode([label(*row) for row in distinct.rows()])[place]
    return found


def _between(source: str | None, target: str | None) -> str | None:
    return None if source is None and target is None else f"{source or 'Unknown'} -> {target or 'Unknown'}"


def _fills(batch: pl.DataFrame, shared: Shared) -> Columns:
    batch = _timed(batch, shared, "memset")
    columns = _device(batch, shared, MEMSET)
    columns |= {
        "bytes": narrow(_column(batch, "bytes")),
        "name": _labelled([_column(batch, "")], lambda _: "[CUDA memset]"),
        "memory_kinds": _labelled([_column(batch, "memKind")], shared.vocabulary.memory),
    }
    _add_graph_node(columns, batch)
    return columns


def _synchronizations(batch: pl.DataFrame, shared: Shared) -> Columns:
    return _device(_timed(batch, shared, "synchronization"), shared, SYNCHRONIZATION)


def _graphs(batch: pl.DataFrame, shared: Shared) -> Columns:
    batch = _timed(batch, shared, "CUDA graph")
    columns = _device(batch, shared, GRAPH)
    number = _column(batch, "graphId").fill_null(_column(batch, "graphExecId"))
    columns["name"] = _labelled([number], lambda n: "[CUDA graph]" if n is None else f"[CUDA graph {n}]")
    return columns


def _host(batch: pl.DataFrame, shared: Shared, kind: Any) -> Columns:
    return {
        "kind": kind if isinstance(kind, np.ndarray) else np.full(batch.height, kind, np.uint8),
        "start": wide(batch["start"]),
        "duration": wide(_duration(batch, shared)),
        "thread": shared.threads.of(_column(batch, "globalTid")),
    }


def _calls(batch: pl.DataFrame, shared: Shared) -> Columns:
    batch = _timed(batch, shared, "API call", open_ended=True)
    is_driver = (_column(batch, "eventClass") == DRIVER_CLASS).fill_null(value=False).to_numpy()
    columns = _host(batch, shared, np.where(is_driver, np.uint8(DRIVER), np.uint8(RUNTIME)))
    columns["correlation"] = narrow(_column(batch, "correlationId"))
    _add_name(columns, batch, shared)
    return columns


def _add_name(columns: Columns, batch: pl.DataFrame, shared: Shared) -> None:
    ids = _column(batch, "nameId")
    shared.refer("call", ids)
    columns["string"] = narrow(ids)


def _os_calls(batch: pl.DataFrame, shared: Shared) -> Columns:
    if "eventClass" in batch.columns:
        batch = batch.filter(~pl.col("eventClass").is_in(OSRT_PSEUDO) | pl.col("eventClass").is_null())
    batch = _timed(batch, shared, "OS runtime call", open_ended=True)
    columns = _host(batch, shared, OS)
    _add_name(columns, batch, shared)
    return columns


def _overheads(batch: pl.DataFrame, shared: Shared) -> Columns:
    batch = _timed(batch, shared, "profiler overhead", open_ended=True)
    columns = _host(batch, shared, OVERHEAD)
    _add_name(columns, batch, shared)
    return columns


def _ranges(batch: pl.DataFrame, shared: Shared) -> Columns:
    """Reads NVTX: ranges and marks become rows; rows that only name something are kept separately."""
    kind = _column(batch, "eventType")
    _note_times(batch, shared)
    timed = kind.is_in(list(MARKS + PUSH_POP + START_END))
    if not timed.all():
        _put_aside(batch.filter(~timed.fill_null(value=False)), shared)
        batch = batch.filter(timed)
    batch = _timed(batch, shared, "NVTX range", open_ended=True)
    kind = _column(batch, "eventType")
    columns = _host(batch, shared, ANNOTATION)
    style = np.full(batch.height, STYLES["push_pop"], np.uint8)
    if not kind.is_in(list(PUSH_POP)).all():
        mark, loose = (kind.is_in(list(kinds)).to_numpy() for kinds in (MARKS, START_END))
        ends_elsewhere = (_column(batch, "endGlobalTid") != _column(batch, "globalTid")).fill_null(value=False)
        style[mark] = STYLES["mark"]
        style[loose] = STYLES["start_end"]
        style[loose & ends_elsewhere.to_numpy()] = STYLES["cross_thread"]
        columns["duration"] = np.where(mark, 0, columns["duration"])
    columns["style"] = style
    columns["domain_id"] = narrow(_column(batch, "domainId").fill_null(0))
    _add_labels(columns, batch, shared)
    return columns


def _add_labels(columns: Columns, batch: pl.DataFrame, shared: Shared) -> None:
    """Inline text where there is some, the id of a registered string elsewhere."""
    texts = batch["text"] if "text" in batch.columns else pl.repeat(b"", batch.height, dtype=pl.Binary, eager=True)
    read = labels(texts)
    columns["name"] = read.name
    for column, values in (
        ("sequence", read.sequence),
        ("external_id", read.operation),
        ("input_shapes", read.sizes),
    ):
        if values is not None:
            columns[column] = values
    unnamed = read.name == categories.NULL_CODE
    if unnamed.any():
        ids = _column(batch, "textId")
        shared.refer("range", ids.filter(pl.Series(unnamed)))
        columns["string"] = narrow(ids)


def _note_times(batch: pl.DataFrame, shared: Shared) -> None:
    times = batch.select(pl.max_horizontal(pl.col(r"^(start|end)$").max())).item() if batch.width else None
    if isinstance(times, int):
        with shared.lock:
            shared.ranges_end = times if shared.ranges_end is None else max(times, shared.ranges_end)


def _put_aside(rows: pl.DataFrame, shared: Shared) -> None:
    naming = rows.filter(_column(rows, "eventType").is_in([*THREAD_NAMES, CATEGORY, DOMAIN_CREATE]))
    with shared.lock:
        shared.nvtx_rows.extend(naming.to_dicts())


_DEVICE_COLUMNS = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
_HOST_COLUMNS = ("start", "end", "globalTid")

_INT, _SHORT, _CODE, _SMALL = (np.dtype(kind) for kind in (np.int64, np.int32, np.uint32, np.uint8))
GROUPS: dict[str, dict[str, np.dtype[Any]]] = {
    "device": {
        "kind": _SMALL, "start": _INT, "duration": _INT, "process": _SHORT, "device": _SHORT, "correlation": _SHORT,
        "name": _CODE, "string": _SHORT,
    },
    "calls": {
        "kind": _SMALL, "start": _INT, "duration": _INT, "thread": _SHORT, "correlation": _SHORT, "string": _SHORT,
    },
    "ranges": {
        "kind": _SMALL, "start": _INT, "duration": _INT, "thread": _SHORT, "name": _CODE, "style": _SMALL,
        "domain_id": _SHORT, "string": _SHORT,
    },
}  # fmt: skip
"""What events are read into, and the columns that each has whatever the file has."""

EVENT_TABLES = (
    EventTable(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "device",
        (
            *_DEVICE_COLUMNS,
            *NAMED_KERNEL,
            *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
            *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "graphNodeId"),
        ),
        _kernels,
    ),
    EventTable(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "device",
        (*_DEVICE_COLUMNS, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"),
        _copies,
    ),
    EventTable("CUPTI_ACTIVITY_KIND_MEMSET", "device", (*_DEVICE_COLUMNS, "bytes", "memKind", "graphNodeId"), _fills),
    EventTable("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "device", (*_DEVICE_COLUMNS, "graphId", "graphExecId"), _graphs),
    EventTable("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "device", _DEVICE_COLUMNS, _synchronizations),
    EventTable(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "calls",
        (*_HOST_COLUMNS, "eventClass", "correlationId", "nameId"),
        _calls,
    ),
    EventTable("OSRT_API", "calls", (*_HOST_COLUMNS, "eventClass", "nameId"), _os_calls),
    EventTable("PROFILER_OVERHEAD", "calls", (*_HOST_COLUMNS, "nameId"), _overheads),
    EventTable("CUPTI_ACTIVITY_KIND_OVERHEAD", "calls", (*_HOST_COLUMNS, "nameId"), _overheads),
    EventTable(
        "NVTX_EVENTS",
        "ranges",
        (*_HOST_COLUMNS, "eventType", "endGlobalTid", "textId", "domainId", "category"),
        _ranges,
        ("text",),
    ),
)
"""In the order in which they are read."""
