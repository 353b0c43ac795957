"""Opens an SQLite file for reading only, and lists its real tables.

Nothing in the file is executed: queries never name views, virtual tables or generated columns.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import Struct

from tracetui.parsers.bytes_source import ByteSource, read_all
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names.kernel_key import key
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.written import scratch

MAGIC = b"SQLite format 3\x00"
HEADER_BYTES = 100
BLOCK = 1 << 22
LOCK_WAIT_SECONDS = 2.0
_UTF16 = (2, 3)
"""How the header says that texts are written."""
ROWID_NAMES = ("rowid", "_rowid_", "oid")
OF_EVENTS = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "OSRT_API", "StringIds")

PRAGMAS = (
    "PRAGMA query_only=ON",
    "PRAGMA trusted_schema=OFF",
    # needed to read a database that lost its end or the definition of one table
    "PRAGMA writable_schema=ON",
)

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_NEEDED = ((_KERNELS, "demangledName"), ("StringIds", "id"), ("StringIds", "value"))
_NAMES = f"SELECT CAST(value AS BLOB) FROM StringIds WHERE id IN (SELECT DISTINCT demangledName FROM {_KERNELS})"


@dataclass(frozen=True, slots=True)
class Table:
    """One real table of the file."""

    name: str
    columns: frozenset[str]
    rowid: str | None
    """The name of its row number; None if it has none."""


class Database(Struct, frozen=True):
    """An SQLite file that can be read, and its tables by name."""

    path: Path
    """The file that the user gave."""
    uri: str
    """The URI to open, never for writing."""
    bytes: int
    """Size of the database, uncompressed."""
    tables: dict[str, Table]
    is_cut: bool = False
    """Whether it ends in the middle of a page: the last rows there may have lost values unnoticed."""

    def connect(self) -> sqlite3.Connection:
        """A connection of the standard library, for one thread."""
        return connect(self.uri)


def connect(uri: str) -> sqlite3.Connection:
    """Opens a database URI with text as raw bytes and the file's own SQL switched off."""
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_WAIT_SECONDS, check_same_thread=False)
    connection.text_factory = bytes
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


def quoted(name: str) -> str:
    """An identifier as SQL spells it."""
    return '"' + name.replace('"', '""') + '"'


def numbers(connection: sqlite3.Connection, table: Table) -> tuple[int | None, int | None]:
    """The first and last row number of a table; None where it has none, or no rows."""
    if table.rowid is None:
        return None, None
    # one query for both would read the whole table
    low, high = (
        connection.execute(f"SELECT {end}({table.rowid}) FROM {quoted(table.name)}").fetchone()[0]
        for end in ("min", "max")
    )
    return low, high


@contextmanager
def open_database(path: Path, tally: Tally, watch: Watch) -> Iterator[Database]:
    """Opens the database in `path`; a gzipped one is inflated into a private folder that is removed afterwards.

    Raises:
        TraceError: it is not an SQLite database, is locked, or its list of tables can't be read.
        Cancelled: the user cancelled while it was being inflated.
    """
    _check_header(path, read_all(path, HEADER_BYTES))
    with ByteSource(path) as source:
        if not source.is_gzip:
            yield _opened(path, path, tally)
            return
    with ExitStack() as until_read:
        try:
            inflated = until_read.enter_context(scratch()) / "export.sqlite"
        except OSError as error:
            raise _no_room(path, Path(tempfile.gettempdir()), error) from error
        _inflate(path, inflated, tally, watch)
        yield _opened(path, inflated, tally)


def kernel_keys(path: Path, watch: Watch | None = None) -> frozenset[str] | None:
    """The keys (`kernel_key.key`) of an export's kernels, without reading these; none where it can't be read.

    None of a database that is no export of nsys.

    Raises:
        Cancelled: the user gave up while it was being inflated.
    """
    try:
        with open_database(path, Tally(), watch or Watch()) as database:
            if not any(name.startswith(OF_EVENTS) for name in database.tables) or "StringTable" in database.tables:
                return None
            columns = {name: table.columns for name, table in database.tables.items()}
            if any(column not in columns.get(name, ()) for name, column in _NEEDED):
                return frozenset()
            with closing(database.connect()) as connection:
                found = connection.execute(_NAMES).fetchall()
    except (TraceError, OSError, sqlite3.Error):
        return frozenset()
    return frozenset(key(bytes(value).decode("utf-8", "replace")) for (value,) in found if value)


def _check_header(path: Path, head: bytes) -> None:
    if not head:
        raise TraceError(path, "the file is empty")
    if head.startswith(b"version https://git-lfs"):
        raise TraceError(path, "a Git LFS pointer, not the file itself", "fetch it with: git lfs pull")
    if not head.startswith(MAGIC):
        raise TraceError(path, "not an SQLite database", "export one with: nsys export --type sqlite REPORT.nsys-rep")


def _inflate(path: Path, target: Path, tally: Tally, watch: Watch) -> None:
    try:
        with ByteSource(path) as source, target.open("wb") as out:
            for block in source.blocks(BLOCK, watch, share=10):  # inflating takes about a tenth of the time
                out.write(block)
            if source.damage:
                tally.missing("the compressed stream ends early", 1, source.damage)
    except OSError as error:
        raise _no_room(path, target.parent.parent, error) from error


def _no_room(path: Path, folder: Path, error: OSError) -> TraceError:
    problem = f"could not be inflated into {folder}: {(error.strerror or str(error)).lower()}"
    return TraceError(path, problem, "give an inflated file, or set TMPDIR to a folder with room")


def _opened(path: Path, file: Path, tally: Tally) -> Database:
    with file.open("rb") as opened:
        header = opened.read(HEADER_BYTES)
    if int.from_bytes(header[56:60], "big") in _UTF16:
        advice = "write it anew: sqlite3 FILE .dump | sqlite3 NEW.sqlite"
        raise TraceError(path, "an SQLite database with texts in UTF-16, as no version of nsys writes it", advice)
    problem: sqlite3.Error | None = None
    for uri, is_partial in _uris(file, header):
        try:
            tables = _tables(uri, tally)
        except sqlite3.Error as error:
            problem = problem or error
            if "locked" in str(error) or "busy" in str(error):
                break
            continue
        if is_partial:
            tally.missing("rows still in the database's write-ahead log or journal, which can't be opened here")
        size = file.stat().st_size
        return Database(path, uri, size, tables, is_cut=size % (int.from_bytes(header[16:18], "big") or 1) != 0)
    text = str(problem)
    if "locked" in text or "busy" in text:
        raise TraceError(path, "another program is writing this database", "wait until its export has ended") from None
    raise TraceError(path, f"an SQLite database that can't be read: {text}", "export the report anew") from None


def _uris(file: Path, header: bytes) -> list[tuple[str, bool]]:
    """Ways to open a file, best first, and whether each may miss rows that are in files beside it.

    An immutable database is opened without looking for a log, without a lock, and without leaving files beside it.
    """
    base = file.resolve().as_uri()
    has_log = any(_size(file.with_name(file.name + suffix)) for suffix in ("-wal", "-journal"))
    keeps_log = header[18:20] == b"\x02\x02"
    if keeps_log and not has_log:
        return [(f"{base}?mode=ro&immutable=1", False)]
    return [(f"{base}?mode=ro", False), (f"{base}?mode=ro&immutable=1", has_log)]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _note_views(connection: sqlite3.Connection, tally: Tally) -> None:
    """Notes the views that replace tables of nsys: what a file's own SQL computes is not read."""
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type='view'").fetchall()
    except sqlite3.Error:
        return
    for name in (bytes(raw).decode("utf-8", "replace") for (raw,) in found):
        if name.startswith(OF_EVENTS):
            tally.missing("view in the place of a table, which is not read", 1, name)


def _tables(uri: str, tally: Tally) -> dict[str, Table]:
    """The real tables: those with pages of their own."""
    connection = connect(uri)
    try:
        found: list[tuple[Any, Any]] = []
        try:
            found.extend(connection.execute("SELECT name, sql FROM sqlite_master WHERE type='table' AND rootpage>0"))
        except sqlite3.DatabaseError as error:
            if not found:
                raise
            tally.missing("tables behind a damaged page of the database's list of tables", 1, str(error))
        _note_views(connection, tally)
        tables: dict[str, Table] = {}
        for raw, sql in found:
            name = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
            if name.lower().startswith("sqlite_"):
                continue
            try:
                # leaves out hidden and generated columns
                described = connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
            except sqlite3.Error as error:
                tally.missing("table that can't be read", 1, f"{name}: {error}")
                continue
            columns = frozenset(bytes(column[1]).decode("utf-8", "replace") for column in described)
            lower = {column.lower() for column in columns}
            is_plain = b"WITHOUT ROWID" not in bytes(sql or b"").upper()
            free = [candidate for candidate in ROWID_NAMES if candidate not in lower]
            tables[name] = Table(name, columns, free[0] if free and is_plain else None)
        return tables
    finally:
        connection.close()


def _computable(connection: sqlite3.Connection, table: Table, sql: str, part: Mapping[str, str]) -> bool:
    """Whether a file has what an expression needs, and an index for what it looks up in a large table for each row."""
    try:
        asked = f"SELECT {sql.format_map(part)} FROM {quoted(table.name)} AS t"
        plan = [bytes(row[3]).decode("utf-8", "replace") for row in connection.execute(f"EXPLAIN QUERY PLAN {asked}")]
        scans = any("CORRELATED" in step for step in plan) and any(re.match(r"SCAN (?!t\b)", step) for step in plan)
        looked_up = [part[name] for name in re.findall(r"\{(\w+)\}", sql) if part[name].startswith('"')]
        return not scans or all(
            connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT {MOST_SCANNED + 1})").fetchone()[0]
            <= MOST_SCANNED
            for name in looked_up
        )
    except (sqlite3.Error, KeyError):
        return False


MOST_SCANNED = 1000
"""Rows of a table without an index that are looked through for each event."""
INTEGER, TEXT = pl.Int64(), pl.Binary()
"""A column of whole numbers, null where there is none; one of undecoded text, empty where there is none."""


class Query(Struct, frozen=True):
    """A selection of one table's columns, without those that the table lacks."""

    table: Table
    columns: dict[str, pl.DataType]
    is_events: bool = False
    """Whether its rows are events, which are counted."""
    computed: dict[str, str] = {}
    """What SQL computes of the row ``t`` for columns that the file has under another name, or in another table."""
    where: str = ""

    @classmethod
    def of(cls, table: Table, *integers: str, texts: tuple[str, ...] = (), is_events: bool = False) -> Query:
        """Those of these columns that exist."""
        wanted = dict.fromkeys(integers, INTEGER) | dict.fromkeys(texts, TEXT)
        return cls(table, {name: dtype for name, dtype in wanted.items() if name in table.columns}, is_events)

    @classmethod
    def computing(
        cls,
        table: Table,
        connection: sqlite3.Connection,
        part: Mapping[str, str],
        columns: Mapping[str, str],
        texts: Collection[str] = (),
        where: str = "",
    ) -> Query:
        """Those of these columns that can be computed, of an events table of a program other than nsys.

        Args:
            table: whose rows are read.
            connection: tells whether the file has what is needed.
            part: the names of the tables, for the placeholders in the SQL.
            columns: our names, and the SQL.
            texts: which of them are texts.
            where: which rows are read.
        """
        known = {name: sql for name, sql in columns.items() if _computable(connection, table, sql, part)}
        if where and not _computable(connection, table, where, part):
            known = {}
        types: dict[str, pl.DataType] = {name: TEXT if name in texts else INTEGER for name in known}
        computed = {name: sql.format_map(part) for name, sql in known.items()}
        return cls(table, types, is_events=True, computed=computed, where=where.format_map(part) if known else "")

    def sql(self, first: int | None = None, last: int | None = None, *, numbered: bool = False) -> str:
        """The SELECT for rows numbered `first` to `last`, in that order; `numbered` puts the row number first.

        Text is taken as bytes, since a file may hold any, and as never null, since the type of the first row decides
        for all of them where rows are read in bulk.
        """
        given = {name: self.computed.get(name, quoted(name)) for name in self.columns}
        fields = [
            f"ifnull(CAST({given[name]} AS BLOB), x'') AS {quoted(name)}"
            if dtype == TEXT
            else given[name] + (f" AS {quoted(name)}" if name in self.computed else "")
            for name, dtype in self.columns.items()
        ]
        rowid = self.table.rowid and f"t.{self.table.rowid}"
        if numbered:
            fields.insert(0, rowid or "NULL")
        conditions = [f"{rowid} BETWEEN {first} AND {last}"] if rowid and first is not None else []
        conditions += [self.where] if self.where else []
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = f" ORDER BY {rowid}" if rowid else ""
        return f"SELECT {', '.join(fields)} FROM {quoted(self.table.name)} AS t{where}{order}"

    def empty(self) -> pl.DataFrame:
        """No rows."""
        return pl.DataFrame(schema=self.columns)
