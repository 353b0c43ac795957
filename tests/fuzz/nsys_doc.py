"""An export of Nsight Systems in the making: a copy of a base, and statements that change it."""

from __future__ import annotations

import contextlib
import gzip
import random
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.spans import Spans

DEVICE_TABLES = tuple(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in
                      ("KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "GRAPH_TRACE"))  # fmt: skip
HOST_TABLES = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUDA_GRAPH_EVENTS", "OSRT_API", "PROFILER_OVERHEAD", "NVTX_EVENTS")
EVENTS = (*DEVICE_TABLES, *HOST_TABLES)


@dataclass
class NsysDoc:
    """A copy of a base, and how many of its rows each change may have cost."""

    base: NsysBase
    changes: list[list[tuple[str, tuple[Any, ...]]]] = field(default_factory=list)
    """Statements of SQL with their values."""
    last: list[list[tuple[str, tuple[Any, ...]]]] = field(default_factory=list)
    """Triggers, which are there for the program to meet: a later step must not set them off."""
    spoilt: Counter[str] = field(default_factory=Counter)
    """Rows by table that may be read differently, or no longer."""
    names: bool = True
    """Whether names are those of the base."""
    damaged: bool = False
    may_refuse: bool = False
    encoding: str = ""
    packed: bool = False
    bytewise: list[tuple[Any, int]] = field(default_factory=list)

    def change(self, sql: str, *given: Any) -> None:
        self.changes.append([(sql, given)])

    def change_at_once(self, *statements: str) -> None:
        """Statements that belong together: where one of them fails, none is done."""
        self.changes.append([(sql, ()) for sql in statements])

    def write(self, folder: Path) -> Path:
        path = folder / "in.sqlite"
        path.write_bytes(self.base.content)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=MEMORY")
            connection.execute("PRAGMA synchronous=OFF")
            connection.set_progress_handler(lambda: 1, 20_000_000)  # a step that reads a view without end is given up
            for statements in (*self.changes, *self.last):
                # a later step may meet a table that an earlier one took away
                with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                    _apply(connection, statements)
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


def _apply(connection: sqlite3.Connection, statements: list[tuple[str, tuple[Any, ...]]]) -> None:
    connection.execute("BEGIN")
    try:
        for sql, given in statements:
            connection.execute(sql, given)
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # some errors have ended the transaction already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _recoded(path: Path, encoding: str) -> None:
    """Writes the database anew, with its texts in another encoding."""
    target = path.with_suffix(".new")
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(target, isolation_level=None)) as new:
        old.text_factory = lambda raw: raw.decode("utf-8", "replace")
        new.execute(f"PRAGMA encoding='{encoding}'")
        new.execute("BEGIN")
        for name, sql in old.execute(
            "SELECT name, sql FROM sqlite_master WHERE type='table' AND sql NOT NULL"
        ).fetchall():
            new.execute(sql)
            quoted = '"' + name.replace('"', '""') + '"'
            rows = old.execute(f"SELECT * FROM {quoted}").fetchall()
            if rows:
                new.executemany(f"INSERT INTO {quoted} VALUES ({','.join('?' * len(rows[0]))})", rows)
        new.execute("COMMIT")
    target.replace(path)
