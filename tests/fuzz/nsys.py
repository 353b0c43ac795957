"""SQLite exports of Nsight Systems."""

from __future__ import annotations

import gzip
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fuzz import road, same, values
from fuzz.case import NOTED, READ, REFUSED, Find
from fuzz.spans import BYTEWISE, Spans

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from fuzz.case import Plan

DEVICE_TABLES = tuple(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in
                      ("KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "GRAPH_TRACE"))  # fmt: skip
HOST_TABLES = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUDA_GRAPH_EVENTS", "OSRT_API", "PROFILER_OVERHEAD", "NVTX_EVENTS")
EVENTS = (*DEVICE_TABLES, *HOST_TABLES)
DEVICE = ("kind", "start", "duration", "stream", "context", "correlation", "grid", "block", "registers", "bytes")
HOST = ("kind", "start", "correlation")


@dataclass
class NsysDoc:
    """A copy of a base, and how many of its rows each change may have cost."""

    base: NsysBase
    changes: list[tuple[str, Callable[[sqlite3.Connection], None]]] = field(default_factory=list)
    spoilt: Counter[str] = field(default_factory=Counter)
    """Rows by table that may be read differently, or no longer."""
    names: bool = True
    """Whether names are those of the base."""
    damaged: bool = False
    may_refuse: bool = False
    encoding: str = ""
    packed: bool = False
    bytewise: list[tuple[Any, int]] = field(default_factory=list)
    failed: bool = False

    def change(self, sql: str, *given: Any) -> None:
        self.changes.append((sql, lambda connection: connection.execute(sql, given) and None))

    def write(self, folder: Path) -> Path:
        import random

        path = folder / "in.sqlite"
        path.write_bytes(self.base.content)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute("PRAGMA synchronous=OFF")
            connection.set_progress_handler(lambda: 1, 20_000_000)  # a step that reads a view without end is given up
            for _, apply in self.changes:
                try:
                    apply(connection)
                except (sqlite3.Error, OverflowError, UnicodeEncodeError):
                    self.failed = True  # a later step met a table that an earlier one took away
        if self.encoding:
            _recoded(path, self.encoding)
        if self.bytewise:
            spans = Spans(bytearray(path.read_bytes()), [])
            for change, seed in self.bytewise:
                change(spans, random.Random(seed))
            path.write_bytes(bytes(spans.data))
        if self.packed:
            path.write_bytes(gzip.compress(path.read_bytes(), 1))
        return path


@dataclass
class NsysBase:
    """A database, and what the program reads in it."""

    content: bytes
    tables: dict[str, list[str]]
    """Columns of each table."""
    rows: dict[str, int]
    device: Counter[tuple[object, ...]]
    host: Counter[tuple[object, ...]]
    kernels: Counter[tuple[object, ...]]
    total: int

    def events(self) -> list[str]:
        return [table for table in EVENTS if self.rows.get(table)]


def _recoded(path: Path, encoding: str) -> None:
    """Writes the database anew, with its texts in another encoding."""
    target = path.with_suffix(".new")
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(target, isolation_level=None)) as new:
        old.text_factory = lambda raw: raw.decode("utf-8", "replace")
        new.execute(f"PRAGMA encoding='{encoding}'")
        new.execute("BEGIN")
        for name, sql in old.execute("SELECT name, sql FROM sqlite_master WHERE type='table' AND sql NOT NULL").fetchall():
            new.execute(sql)
            quoted = '"' + name.replace('"', '""') + '"'
            rows = old.execute(f"SELECT * FROM {quoted}").fetchall()
            if rows:
                new.executemany(f'INSERT INTO {quoted} VALUES ({",".join("?" * len(rows[0]))})', rows)
        new.execute("COMMIT")
    target.replace(path)


def _cell(dice: Random) -> Any:
    """What a column of numbers should not hold."""
    value = values.plain(values.anything(dice))
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass") if dice.random() < 0.3 else value.encode("utf-8", "replace").decode()
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else float(value)
    return value if isinstance(value, float) else b"\x00\xff\xfe"


def _table(doc: NsysDoc, dice: Random) -> str:
    return dice.choice(doc.base.events())


def _row(doc: NsysDoc, table: str, dice: Random) -> int:
    return dice.randrange(1, doc.base.rows[table] + 1)


def odd_cell(doc: NsysDoc, dice: Random) -> None:
    table = _table(doc, dice)
    for _ in range(dice.choice((1, 1, 2, 8))):
        column = dice.choice(doc.base.tables[table])
        doc.change(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', _cell(dice), _row(doc, table, dice))
        doc.spoilt[table] += 1


def null_cell(doc: NsysDoc, dice: Random) -> None:
    table = _table(doc, dice)
    column = dice.choice(doc.base.tables[table])
    many = dice.random() < 0.3
    where = "" if many else f" WHERE rowid = {_row(doc, table, dice)}"
    doc.change(f'UPDATE "{table}" SET "{column}" = NULL{where}')
    doc.spoilt[table] += doc.base.rows[table] if many else 1


def huge_ids(doc: NsysDoc, dice: Random) -> None:
    """Correlation and other ids at the ends of 64 bits, or beyond them as text."""
    table = _table(doc, dice)
    ids = [c for c in doc.base.tables[table] if c.endswith(("Id", "Pid", "Tid", "Name", "Node"))] or doc.base.tables[table]
    column = dice.choice(ids)
    value = dice.choice((2**63 - 1, -(2**63), 2**62, 2**53, 2**32, 2**31, -1, "18446744073709551615", 1e19, -1e300))
    many = dice.random() < 0.4
    where = "" if many else f" WHERE rowid = {_row(doc, table, dice)}"
    plus = f'"{column}" + ?' if many and isinstance(value, int) and dice.random() < 0.5 else "?"
    doc.change(f'UPDATE "{table}" SET "{column}" = {plus}{where}', value)
    doc.spoilt[table] += doc.base.rows[table] if many else 1


def odd_times(doc: NsysDoc, dice: Random) -> None:
    """Zero-length durations, ends before starts, all at once."""
    table = _table(doc, dice)
    sql = dice.choice(("end = start", "end = start - 1", "start = 0, end = 0", "start = end", "start = -start, end = -end",
                       "start = 9223372036854775807", "end = NULL", "start = NULL", "start = 5, end = 6"))  # fmt: skip
    some = "" if dice.random() < 0.5 else f" WHERE rowid % {dice.choice((2, 3, 10))} = 0"
    doc.change(f'UPDATE "{table}" SET {sql}{some}')
    doc.spoilt[table] += doc.base.rows[table]


def odd_string(doc: NsysDoc, dice: Random) -> None:
    """NULLs and odd texts in the list of strings."""
    doc.names = False
    for _ in range(dice.choice((1, 3, 20))):
        kind = dice.randrange(5)
        where = f"rowid = (SELECT rowid FROM StringIds LIMIT 1 OFFSET {dice.randrange(max(doc.base.rows['StringIds'], 1))})"
        if kind == 0:
            doc.change(f"UPDATE StringIds SET value = NULL WHERE {where}")
        elif kind == 1:
            doc.change(f"DELETE FROM StringIds WHERE {where}")
        elif kind == 2:
            doc.change(f"UPDATE StringIds SET value = CAST(? AS TEXT) WHERE {where}", dice.choice((b"\xff\xfe", b"\xc3(", b"")))
        elif kind == 3:
            doc.change(f"UPDATE StringIds SET id = ? WHERE {where}", dice.choice((2**31, 2**62, -1, -(2**63), 2**63 - 1)))
        else:
            doc.change(f"UPDATE StringIds SET value = ? WHERE {where}", _cell(dice))


def removed_rows(doc: NsysDoc, dice: Random) -> None:
    table = _table(doc, dice)
    number = _row(doc, table, dice)
    doc.change(f'DELETE FROM "{table}" WHERE rowid BETWEEN ? AND ?', number, number + (span := dice.choice((0, 3, 1000))))
    doc.spoilt[table] += span + 1


def doubled_rows(doc: NsysDoc, dice: Random) -> None:
    table = _table(doc, dice)
    doc.change(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE rowid = ?', _row(doc, table, dice))
    doc.spoilt[table] += 2


def far_row(doc: NsysDoc, dice: Random) -> None:
    """A row number far from the others."""
    table = _table(doc, dice)
    doc.change(f'UPDATE "{table}" SET rowid = ? WHERE rowid = ?', dice.choice((2**63 - 1, -(2**63), -5, 10**12)), 1)
    doc.spoilt[table] += 1


def renamed_table(doc: NsysDoc, dice: Random) -> None:
    table = dice.choice(list(doc.base.tables))
    new = dice.choice((f"{table}_OLD", f"X{table}", table.lower() + "_", f"odd \x1b[31m{dice.random()}", "select", '"'))
    doc.change(f'ALTER TABLE "{table}" RENAME TO "{new.replace(chr(34), chr(34) * 2)}"')
    _gone(doc, table)


def dropped_table(doc: NsysDoc, dice: Random) -> None:
    table = dice.choice(list(doc.base.tables))
    doc.change(dice.choice((f'DROP TABLE "{table}"', f'DELETE FROM "{table}"')))
    _gone(doc, table)


def _gone(doc: NsysDoc, table: str) -> None:
    doc.spoilt[table] += doc.base.rows[table]
    doc.names &= table != "StringIds"
    if table.startswith(("ENUM_", "TARGET_INFO")):
        doc.spoilt["device names"] += 1


def as_view(doc: NsysDoc, dice: Random) -> None:
    """A view in a table's place, which is not to be looked at."""
    table = _table(doc, dice)
    doc.change(f'ALTER TABLE "{table}" RENAME TO hidden{dice.randrange(9)}_x')
    doc.change(f'CREATE VIEW "{table}" AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start+1 FROM n) SELECT * FROM n')
    _gone(doc, table)


def renamed_column(doc: NsysDoc, dice: Random) -> None:
    table = dice.choice(list(doc.base.tables))
    column = dice.choice(doc.base.tables[table])
    doc.change(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{dice.choice(("x", column.lower() + "_", "a b", "rowid"))}"')
    _gone(doc, table)


def dropped_column(doc: NsysDoc, dice: Random) -> None:
    table = dice.choice(list(doc.base.tables))
    doc.change(f'ALTER TABLE "{table}" DROP COLUMN "{dice.choice(doc.base.tables[table])}"')
    _gone(doc, table)


def more_columns(doc: NsysDoc, dice: Random) -> None:
    """Columns of another version, a generated one among them."""
    table = _table(doc, dice)
    doc.change(f'ALTER TABLE "{table}" ADD COLUMN "{dice.choice(("laterId", "x y", "rowid_"))}" {dice.choice(("", "TEXT", "BLOB"))}')
    if dice.random() < 0.4:
        doc.change(f'ALTER TABLE "{table}" ADD COLUMN made INTEGER GENERATED ALWAYS AS (randomblob(1000000000)) VIRTUAL')


def retyped(doc: NsysDoc, dice: Random) -> None:
    """A table with other types of columns: text, real, or numbers as bytes."""
    table = dice.choice([*doc.base.events(), "StringIds"])
    kind = dice.choice(("TEXT", "REAL", "BLOB", "NUMERIC"))
    columns = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name in doc.base.tables[table])
    doc.change(f'CREATE TABLE made AS SELECT {columns} FROM "{table}"')
    doc.change(f'DROP TABLE "{table}"')
    doc.change(f'ALTER TABLE made RENAME TO "{table}"')
    _gone(doc, table)


def no_rowid(doc: NsysDoc, dice: Random) -> None:
    """A table without row numbers."""
    table = _table(doc, dice)
    columns = doc.base.tables[table]
    named = ", ".join(f'"{name}"' for name in columns)
    doc.change(f'CREATE TABLE made (n INTEGER PRIMARY KEY, {named}) WITHOUT ROWID')
    doc.change(f'INSERT INTO made SELECT rowid, {named} FROM "{table}"')
    doc.change(f'DROP TABLE "{table}"')
    doc.change(f'ALTER TABLE made RENAME TO "{table}"')


def odd_metadata(doc: NsysDoc, dice: Random) -> None:
    """Odd values in the tables that say what the recording is."""
    small = [table for table in doc.base.tables if table not in EVENTS and table != "StringIds" and doc.base.rows[table]]
    for _ in range(dice.choice((1, 3))):
        table = dice.choice(small)
        doc.change(f'UPDATE "{table}" SET "{dice.choice(doc.base.tables[table])}" = ? WHERE rowid = ?', _cell(dice),
                   _row(doc, table, dice))  # fmt: skip
        doc.spoilt["device names"] += 1


def other_encoding(doc: NsysDoc, dice: Random) -> None:
    doc.encoding = dice.choice(("UTF-16le", "UTF-16be"))


def with_index(doc: NsysDoc, dice: Random) -> None:
    """Indexes and triggers, which change nothing."""
    table = _table(doc, dice)
    doc.change(f'CREATE INDEX i{dice.randrange(9)} ON "{table}" ("{dice.choice(doc.base.tables[table])}")')
    doc.change(f'CREATE TRIGGER t{dice.randrange(9)} AFTER INSERT ON "{table}" BEGIN DELETE FROM StringIds; END')


def packed(doc: NsysDoc, dice: Random) -> None:
    doc.packed = True


def _bytewise(change: Any) -> Any:
    def later(doc: NsysDoc, dice: Random) -> None:
        doc.bytewise.append((change, dice.randrange(1 << 32)))
        doc.damaged = True

    return later


def odd_head(doc: NsysDoc, dice: Random) -> None:
    """Another page size, version, encoding or count of pages in the database's first 100 bytes."""

    def change(spans: Spans, dice: Random) -> None:
        at = dice.randrange(16, 100)
        spans.data[at : at + 1] = bytes((dice.choice((0, 1, 2, 3, 255, dice.randrange(256))),))

    doc.bytewise.append((change, dice.randrange(1 << 32)))
    doc.damaged = True


class Nsys:
    """SQLite exports."""

    name = "nsys"
    files = ("nsys/graph_node.sqlite.gz", "nsys/graph_whole.sqlite.gz", "ops/ops.sqlite.gz", "made")
    shaped = {
        "odd cell": odd_cell, "NULL": null_cell, "huge ids": huge_ids, "odd times": odd_times, "odd string": odd_string,
        "rows removed": removed_rows, "row twice": doubled_rows, "far row number": far_row,
        "table renamed": renamed_table, "table gone": dropped_table, "view": as_view, "column renamed": renamed_column,
        "column gone": dropped_column, "more columns": more_columns, "other types": retyped, "no row numbers": no_rowid,
        "odd metadata": odd_metadata, "other encoding": other_encoding, "index and trigger": with_index, "packed": packed,
    }  # fmt: skip
    bytewise = {**{name: _bytewise(change) for name, change in BYTEWISE.items()}, "odd head": odd_head}

    def __init__(self) -> None:
        self.bases: list[NsysBase] = []

    def prepare(self, folder: Path) -> None:
        from nsys_file import NsysFile
        from sample_runs import recorded

        for name in self.files:
            path = folder / "base.sqlite"
            path.unlink(missing_ok=True)
            if name == "made":
                _made(NsysFile()).write(path)
            else:
                path.write_bytes(gzip.decompress(recorded(name).read_bytes()))
            self.bases.append(_read(path))

    def base(self, dice: Random) -> NsysDoc:
        return NsysDoc(dice.choice(self.bases))

    def examine(self, doc: NsysDoc, plan: Plan, folder: Path) -> str:
        from tracetui.parsers import TraceError, open_path
        from tracetui.parsers.nsys.reader import read_nsys

        path = doc.write(folder)
        try:
            run = open_path(path, cache=False)
        except TraceError as error:
            road.one_line(str(error))
            lost = sum(doc.spoilt[table] for table in EVENTS)
            if not (doc.damaged or doc.encoding) and lost < doc.base.total // 2:
                raise Find(f"refused, though most of it is intact: {error}") from error
            return REFUSED
        trace = run.main
        same.counts(trace)
        same.ids(trace)
        if not doc.damaged:
            _compare(doc, trace)
            if plan.dice("paths").random() < 0.3:
                road.equal(trace, read_nsys(path, bulk=False), "bulk and careful path")
        road.follow(run, plan, folder)
        return NOTED if trace.notes or run.warnings else READ


def _made(file: Any) -> Any:
    """What no small recording has: OS calls, marks, domains, named threads, memsets, synchronizations."""
    file.gpu()
    file.process("/usr/bin/python3")
    file.thread_name("main", 100)
    file.domain("NCCL", 3)
    file.diagnostic("Some events were lost")
    for step in range(6):
        at = step * 1000
        file.push_pop(f"step {step}", at, at + 900)
        file.start_end("load", at + 5, at + 400, end_tid=101)
        file.mark("here", at + 7)
        file.nvtx(59, "reduce", at + 20, at + 60, domain=3)
        file.launch("void gemm<float>(float*)", call=(at + 10, at + 20), kernel=(at + 30, at + 300))
        file.launch("add", call=(at + 40, at + 50), kernel=(at + 310, at + 400), graphNodeId=7)
        file.memcpy(at + 400, at + 420, correlation=file.call("cudaMemcpyAsync_v3020", at + 60, at + 70))
        file.memset(at + 430, at + 440)
        file.synchronization(at + 450, at + 800)
        file.call("cudaDeviceSynchronize_v3020", at + 450, at + 810)
        file.os_call("poll", at + 100, at + 200, tid=102)
        file.overhead("CUDA profiling data flush overhead", at + 820, at + 830)
    return file


def _read(path: Path) -> NsysBase:
    from tracetui.parsers import open_path

    trace = open_path(path, cache=False).main
    with closing(sqlite3.connect(path)) as connection:
        tables = {name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
                  for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()}  # fmt: skip
        rows = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
    return NsysBase(path.read_bytes(), tables, rows, *_rows(trace), trace.source.events_total)


def _rows(trace: Any) -> tuple[Counter[tuple[object, ...]], ...]:
    import polars as pl

    kernels = trace.device.filter(pl.col("kind") == "kernel")
    return same.rows(trace.device, DEVICE), same.rows(trace.host, HOST), same.rows(kernels, ("start", "name"))


def _compare(doc: NsysDoc, trace: Any) -> None:
    device, host, kernels = _rows(trace)
    lost_device = sum(doc.spoilt[table] for table in DEVICE_TABLES)
    same.kept(doc.base.device, device, lost_device, "device")
    same.kept(doc.base.host, host, sum(doc.spoilt[table] for table in HOST_TABLES), "host")
    if doc.names:
        same.kept(doc.base.kernels, kernels, lost_device, "kernels")
    spoilt = sum(doc.spoilt[table] for table in doc.base.tables)
    if not spoilt and trace.source.events_total != doc.base.total:
        raise Find(f"the file holds {doc.base.total} events, {trace.source.events_total} are counted")
