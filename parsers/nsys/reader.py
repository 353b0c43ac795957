"""Reads one SQLite export of Nsight Systems, or a database of nvprof or rocprof, into the six frames."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.parsers import replays, resources
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.iterations import whole_steps, with_steps
from tracetui.parsers.names.people import without_users
from tracetui.parsers.nsys import metadata, names, nccl, tables
from tracetui.parsers.nsys.compact import Columns, Store
from tracetui.parsers.nsys.database import Database, Query, open_database
from tracetui.parsers.nsys.dialects import NSYS, Dialect, dialect_of
from tracetui.parsers.nsys.frames import COUNTED, Events, build_trace
from tracetui.parsers.nsys.metadata import Metadata
from tracetui.parsers.nsys.names import Strings
from tracetui.parsers.nsys.privacy import shown
from tracetui.parsers.nsys.scan import TableReader, stretches
from tracetui.parsers.nsys.tables import EventTable, Shared
from tracetui.parsers.nsys.unread import say_warnings, say_what_is_unread
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.resources import in_order
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import DeviceInfo, Source, Trace, TraceInfo

LARGEST_TEMPORARY = 4 << 20
"""Larger blocks are columns of the whole file, whose memory must return to the system when they are freed."""


def read_nsys(path: Path, watch: Watch | None = None, *, bulk: bool = True) -> Trace:
    """Reads an nsys export, plain or gzip, into the six frames.

    Args:
        path: the database.
        watch: told of progress; may stop the load.
        bulk: use the fast path where possible; both paths give the same result.

    Raises:
        TraceError: the file can't be read or is no export of Nsight Systems.
        Cancelled: stopped before the first event.
    """
    watch = watch or Watch()
    tally = Tally()
    try:
        events = read_events(path, tally, watch, bulk=bulk)
    except sqlite3.Error as error:
        raise TraceError(path, f"an SQLite database that can't be read: {error}", "export the report anew") from error
    size = path.stat().st_size
    watch.report(Progress("linking", size, size, events.parsed, path))
    return trace_of(events, path, size, tally)


def trace_of(events: Events, path: Path, size: int, tally: Tally) -> Trace:
    """The trace of a file's events, which are consumed."""
    source = Source(path, size, events.total, events.parsed, events.partial)
    info = _info(events, tally)
    nodes = _captured_nodes(events.graph_nodes, events.dialect)
    return replays.with_nodes(whole_steps(with_steps(build_trace(events, info, source, tally))), nodes)


GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS"
MOST_CLONES = 8
"""How often a graph that was copied from a copy is followed back."""


def _captured_nodes(rows: Iterable[dict[str, Any]], dialect: Dialect) -> pl.DataFrame:
    """When and by which thread each node of a CUDA graph was captured (`replays.NODES`).

    Instantiating a graph copies its nodes. A copy has two rows, of which one says what it is a copy of; nodes that are
    no copies have one.
    """
    whole = (row for row in rows if None not in (row["graphNodeId"], row["globalTid"], row["start"]))
    # numbers are those of a process
    named = [(dialect.ids.process(row["globalTid"]), row) for row in whole]
    copied = {(pid, row["graphNodeId"]): row["originalGraphNodeId"] for pid, row in named if row["originalGraphNodeId"]}
    begun = {(pid, row["graphNodeId"]): row for pid, row in named if (pid, row["graphNodeId"]) not in copied}
    found = []
    for pid, node in {(pid, row["graphNodeId"]): None for pid, row in named}:
        original = node
        for _ in range(MOST_CLONES):
            original = copied.get((pid, original), original)
        if (row := begun.get((pid, original))) is not None:
            found.append((pid, node, dialect.ids.thread(row["globalTid"]), row["start"]))
    return pl.DataFrame(found, replays.NODES, orient="row")


def events_of_rows(
    dialect: Dialect,
    rows: Mapping[str, pl.DataFrame],
    strings: Mapping[int, str],
    known: Metadata,
    counters: pl.DataFrame,
    tally: Tally,
) -> Events:
    """Events of rows in the columns of nsys's tables, by table, that stood in no database.

    Args:
        dialect: of the program that wrote them.
        rows: by table.
        strings: the names that the rows refer to.
        known: about the recording.
        counters: of kernels, as `frames.COUNTED`.
        tally: counts what can't be used.
    """
    shared = Shared(tally, metadata.LABELS, dialect.ids)
    stores = {group: Store(0, needed) for group, needed in tables.GROUPS.items()}
    for event_table in tables.EVENT_TABLES:
        if event_table.name in rows:
            whole = rows[event_table.name].cast(pl.Int64, strict=False)
            stores[event_table.group].append(event_table.convert(whole, shared))
    groups = {group: store.finish() for group, store in stores.items()}
    found = names.Strings(None, set().union(*shared.strings.values()), (), strings)
    names.fill(found, groups, dict(shared.strings), _domains(shared, found), tally)
    _count_from_the_first(groups, shared, known, dialect)
    total = sum(frame.height for frame in rows.values())
    return Events(
        **groups,
        dialect=dialect,
        shared=shared,
        metadata=known,
        payloads=pl.DataFrame(schema=nccl.PAYLOADS),
        strings=found,
        total=total + tally.skipped_events - shared.unusable,
        parsed=total - shared.unusable,
        partial=False,
        graph_nodes=(),
        counters=counters,
    )


def read_events(path: Path, tally: Tally, watch: Watch, *, bulk: bool = True) -> Events:
    """Reads a file's events into columns, not yet sorted or linked."""
    with open_database(path, tally, watch) as database:
        dialect = dialect_of(database)
        reader = TableReader(database, tally, bulk=bulk)
        connection = database.connect()
        try:
            small = metadata.SmallTables(database, connection, tally)
            shared = Shared(tally, metadata.vocabulary(small), dialect.ids, database.is_cut)
            known = metadata.read(small, dialect)
            of_nccl = nccl.payloads(database, connection, tally)
            counters = _counters(database, connection, dialect, reader)
            nodes = small.rows(GRAPH_NODES, "start", "globalTid", "graphNodeId", "originalGraphNodeId")
            found = _scan(database, dialect, reader, shared, watch)
            if found.partial and not found.rows:
                raise Cancelled
            present = dialect.present(database)
            say_what_is_unread(
                database, {*(table.name for _, table, _ in present), GRAPH_NODES}, dialect.context, tally
            )
            say_warnings(small, dict(known.processes), _processes(shared), tally)
            needed = dict(shared.strings)
            needed["thread"] = _thread_strings(shared, known)
            wanted = set().union(*needed.values())
            strings = names.Strings(reader, wanted, dialect.named(database), dialect.constants())
        finally:
            connection.close()
            reader.close()
    names.fill(strings, found.groups, needed, _domains(shared, strings), tally)
    if dialect is not NSYS:
        _count_from_the_first(found.groups, shared, known, dialect)
    damaged = tally.skipped_events - shared.unusable
    return Events(
        **found.groups,
        dialect=dialect,
        shared=shared,
        metadata=known,
        payloads=of_nccl,
        strings=strings,
        total=found.rows + damaged,
        parsed=found.rows - shared.unusable,
        partial=found.partial,
        graph_nodes=tuple(nodes),
        counters=counters,
    )


def _counters(
    database: Database, connection: sqlite3.Connection, dialect: Dialect, reader: TableReader
) -> pl.DataFrame:
    """What a database says was counted of its kernels (`frames.COUNTED`)."""
    name, columns = dialect.counters
    found = [pl.DataFrame(schema=COUNTED)]
    for part in dialect.parts(database):
        if name in part:
            query = Query.computing(database.tables[part[name][1:-1]], connection, part, columns, tuple(columns))
            if len(query.columns) == len(columns):
                texts = reader.read(query).select(pl.all().cast(pl.String, strict=False))
                found.append(texts.select(pl.col(given).cast(dtype, strict=False) for given, dtype in COUNTED.items()))
    return pl.concat(found).with_columns(pl.col("unit").replace("", None))


def _count_from_the_first(groups: dict[str, Columns], shared: Shared, known: Metadata, dialect: Dialect) -> None:
    """Makes the first event's start the zero of all times, as it nearly is in exports of nsys."""
    starts = [columns["start"].min() for columns in groups.values() if columns["start"].size]
    if not starts:
        return
    zero = int(min(starts))
    for columns in groups.values():
        columns["start"] = columns["start"] - zero
    if shared.ranges_end is not None:
        shared.ranges_end -= zero
    known.base_time = None if dialect.since_boot else zero


class _Scan(Struct):
    """The rows of all event tables as columns, by group."""

    groups: dict[str, Columns]
    rows: int
    """How many rows were read, including those that turned out to be unusable."""
    partial: bool


class _Task(Struct, frozen=True):
    event_table: EventTable
    query: Query
    first: int | None
    last: int | None
    rows: int
    """How many rows there are at most; 0 if unknown."""


_Done = tuple[_Task, int, "Columns"]


def _scan(database: Database, dialect: Dialect, reader: TableReader, shared: Shared, watch: Watch) -> _Scan:
    """Reads every event table that the file has."""
    resources.keep_chunks_in_heap(LARGEST_TEMPORARY)
    tasks = _tasks(database, dialect)
    stores = {
        group: Store(sum(task.rows for task in tasks if task.event_table.group == group), needed)
        for group, needed in tables.GROUPS.items()
    }
    read, done, partial, expected = 0, 0, False, sum(task.rows for task in tasks) or 1

    def work(task: _Task) -> _Done:
        batch = reader.read(task.query, task.first, task.last)
        return task, batch.height, task.event_table.convert(batch, shared)

    for task, rows, columns in in_order(work, tasks):
        read += rows
        stores[task.event_table.group].append(columns)
        done += task.rows
        watch.report(Progress("reading", database.bytes * done // expected, database.bytes, read, database.path))
        if watch.cancelled:
            partial = True
            break
    resources.release_freed()
    return _Scan({group: store.finish() for group, store in stores.items()}, read, partial)


def _tasks(database: Database, dialect: Dialect) -> list[_Task]:
    todo = []
    with closing(database.connect()) as connection:
        for event_table, table, part in dialect.present(database):
            query = event_table.query(table, connection, part)
            if query.columns:
                pieces = [(None, None)] if event_table.whole else stretches(database, connection, table)
                todo += [
                    _Task(event_table, query, first, last, 0 if first is None or last is None else last - first + 1)
                    for first, last in pieces
                ]
    return todo


def _thread_strings(shared: Shared, known: Metadata) -> set[int]:
    """Strings that name threads with events."""
    present = set(shared.threads.values)
    return {string for thread, _, string in known.thread_names if thread in present} | {
        row["textId"] for row in shared.nvtx_rows if row.get("textId") is not None
    }


def _domains(shared: Shared, strings: Strings) -> names.Domains:
    """The domains that the program named; if two have the same number, the earlier counts, as in nsys."""
    first: dict[tuple[int, int], tuple[int, str]] = {}
    for row in shared.nvtx_rows:
        thread, domain = row.get("globalTid"), row.get("domainId")
        if row["eventType"] != tables.DOMAIN_CREATE or thread is None or domain is None:
            continue
        at, key = row.get("start") or 0, (thread >> shared.ids.tid_bits, domain)
        if key not in first or at < first[key][0]:
            first[key] = (at, _text(row, strings))
    processes = [None if value is None else value >> shared.ids.tid_bits for value in shared.threads.values]
    return names.Domains({key: name for key, (_, name) in first.items()}, processes)


def _text(row: dict[str, object], strings: Strings) -> str:
    inline = row.get("text")
    if isinstance(inline, bytes) and inline:
        return inline.decode("utf-8", "replace")
    number = row.get("textId")
    return (strings.text(number) if isinstance(number, int) else None) or ""


def _info(events: Events, tally: Tally) -> TraceInfo:
    known, shared = events.metadata, events.shared
    threads = [value for value in shared.threads.values if value is not None]
    processes = _processes(shared)
    _say_what_is_missing(events, tally)
    return TraceInfo(
        kind=events.dialect.kind,
        tool=events.dialect.tool,
        tool_version=known.product_version,
        devices=_devices(events, tally),
        captured=known.settings + _categories(events),
        window=_window(events),
        base_time=known.base_time,
        processes=tuple(entry for entry in known.processes if entry[0] in processes),
        threads=_thread_names(events, threads),
    )


def _processes(shared: Shared) -> set[int]:
    """The processes with events."""
    found = {value & shared.ids.pids for value in shared.processes.values if value is not None}
    return found | {shared.ids.process(value) for value in shared.threads.values if value is not None}


def _thread_names(events: Events, threads: list[int]) -> tuple[tuple[int, int, str], ...]:
    """The name of each thread that has one: the program's own, else the system's."""
    best: dict[int, tuple[int, int, str]] = {}
    for place, (thread, priority, string) in enumerate(events.metadata.thread_names):
        if name := events.strings.text(string):
            best[thread] = max(best.get(thread, (-1, 0, "")), (priority, place, name))
    names, ids = {thread: name for thread, (_, _, name) in best.items()}, events.shared.ids
    for row in events.shared.nvtx_rows:
        if row["eventType"] in tables.THREAD_NAMES and (name := _text(row, events.strings)):
            names[row["globalTid"]] = name
    return tuple(
        (ids.process(thread), ids.thread(thread), without_users(shown(names[thread])))
        for thread in sorted(threads)
        if thread in names
    )


def _categories(events: Events) -> tuple[tuple[str, str], ...]:
    """The names that the program gave to NVTX categories."""
    rows = [row for row in events.shared.nvtx_rows if row["eventType"] == tables.CATEGORY]
    texts = dict.fromkeys(shown(text) for row in rows if (text := _text(row, events.strings)))
    return (("NVTX categories", ", ".join(texts)),) if texts else ()


def _devices(events: Events, tally: Tally) -> tuple[DeviceInfo, ...]:
    """The GPUs that did any work, or all if none did."""
    known = events.metadata.gpus
    used = set(np.unique(events.device["device"]).tolist())
    gpu_of = events.metadata.gpu_of
    used |= {gpu for (_, cuda), gpu in gpu_of.items() if cuda in used}
    if events.device["start"].size and not known:
        tally.missing(f"description of the GPUs ({events.dialect.gpus_in})")
    return tuple(gpu for gpu in known if gpu.id in used) or known


def _window(events: Events) -> tuple[int, int] | None:
    """Start and duration of the recording.

    The file's clock for them starts with the profiler, while events count from the start of the recording.
    """
    start, duration = events.metadata.capture
    if duration is None or duration < 0:
        return None
    times = [group["start"] for group in (events.device, events.calls, events.ranges) if group["start"].size]
    if not times or not start:
        return 0, duration
    middle = int(np.median([np.median(values) for values in times]))
    return (start, duration) if start <= middle <= start + duration and middle > duration else (0, duration)


def _say_what_is_missing(events: Events, tally: Tally) -> None:
    kinds = events.device["kind"]
    if graphs := int((kinds == tables.GRAPH).sum()):
        tally.missing(
            "kernels of CUDA graphs, which were recorded as a whole (capture with --cuda-graph-trace=node)", graphs
        )
