"""Reads the event tables: ranges of rows in parallel on the fast path, the rest on the slow path."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec import Struct

from tracetui.parsers import resources
from tracetui.parsers.nsys import careful, tables
from tracetui.parsers.nsys.compact import Store
from tracetui.parsers.nsys.database import PRAGMAS, quoted
from tracetui.parsers.progress import Progress
from tracetui.parsers.resources import in_order

if TYPE_CHECKING:
    from tracetui.parsers.nsys.compact import Columns
    from tracetui.parsers.nsys.database import Database, Table
    from tracetui.parsers.nsys.query import Query
    from tracetui.parsers.nsys.tables import EventTable, Shared
    from tracetui.parsers.progress import Watch
    from tracetui.parsers.tally import Tally


BATCH_ROWS = 1 << 15
_BATCH_OPTION = "adbc.sqlite.query.batch_rows"


class Unsuited(Exception):  # noqa: N818  not an error: the slow path must be used
    """The rows can't be read in bulk: a value of another type than its column's, a damaged page, or no driver."""


class BulkReader:
    """Reads from one database on any number of threads, with a connection for each."""

    def __init__(self, uri: str) -> None:
        try:
            import adbc_driver_manager
            import adbc_driver_sqlite
        except ImportError as error:
            raise Unsuited from error
        self._adbc = adbc_driver_manager
        self._driver = adbc_driver_sqlite._driver_path()
        self._uri = uri
        self._local = threading.local()
        self._opened: list[Any] = []

    def read(self, query: Query, first: int | None = None, last: int | None = None) -> pl.DataFrame:
        """Reads the rows numbered `first` to `last` (all if not given), in order.

        Raises:
            Unsuited: the rows must be read one value at a time.
        """
        try:
            with self._adbc.AdbcStatement(self._connection()) as statement:
                statement.set_options(**{_BATCH_OPTION: str(BATCH_ROWS)})
                statement.set_sql_query(query.sql(first, last))
                handle, _ = statement.execute_query()
                # the types follow from the first rows; text in a column of numbers must not even be imported,
                # for Arrow's consumers trust it to be UTF-8
                found = dict(pl.Schema(handle))
                if any(found[name] != dtype for name, dtype in query.columns.items()):
                    raise Unsuited
                return pl.DataFrame(handle)
        except (self._adbc.Error, pl.exceptions.PolarsError, OSError, KeyError, TypeError, ValueError) as error:
            raise Unsuited from error

    def close(self) -> None:
        """Closes every thread's connection."""
        for opened in reversed(self._opened):
            opened.close()
        self._opened.clear()

    def _connection(self) -> Any:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            database = self._adbc.AdbcDatabase(driver=self._driver, uri=self._uri)
            self._opened.append(database)
            connection = self._local.connection = self._adbc.AdbcConnection(database)
            self._opened.append(connection)
            for pragma in PRAGMAS:
                with self._adbc.AdbcStatement(connection) as statement:
                    statement.set_sql_query(pragma)
                    statement.execute_update()
        return connection


RANGE_ROWS = 1 << 17
"""How many rows are read at once: so few that their wide form stays small, but enough to keep two cores busy."""
LARGEST_TEMPORARY = 4 << 20
"""Larger blocks are columns of the whole file, whose memory must return to the system when they are freed."""


class Scan(Struct):
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


class TableReader:
    """Reads selections of one database on the fastest path that can read them; for any number of threads."""

    def __init__(self, database: Database, tally: Tally, *, bulk: bool = True) -> None:
        self._database, self._tally = database, tally
        self._bulk: BulkReader | None = None
        if bulk:
            with contextlib.suppress(Unsuited):
                self._bulk = BulkReader(database.uri)

    def read(self, query: Query, first: int | None = None, last: int | None = None) -> pl.DataFrame:
        """Reads the rows numbered `first` to `last`, or all if not given."""
        if self._bulk is not None:
            with contextlib.suppress(Unsuited):
                return self._bulk.read(query, first, last)
        connection = self._database.connect()
        try:
            return careful.read(connection, query, self._tally, first, last)
        finally:
            connection.close()

    def close(self) -> None:
        """Closes the connections."""
        if self._bulk is not None:
            self._bulk.close()


def scan(database: Database, reader: TableReader, shared: Shared, watch: Watch) -> Scan:
    """Reads every event table that the file has."""
    resources.keep_chunks_in_heap(LARGEST_TEMPORARY)
    tasks = _tasks(database)
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
    return Scan({group: store.finish() for group, store in stores.items()}, read, partial)


def _tasks(database: Database) -> list[_Task]:
    connection = database.connect()
    try:
        spans = [
            (event_table, table, _numbers(connection, database, table))
            for event_table, table in tables.present(database)
        ]
    finally:
        connection.close()
    todo = []
    for event_table, table, span in spans:
        query = event_table.query(table)
        if not query.columns:
            continue
        if span is None:
            todo.append(_Task(event_table, query, None, None, 0))
            continue
        low, high = span
        for first in range(low, high + 1, RANGE_ROWS):
            last = min(first + RANGE_ROWS - 1, high)
            todo.append(_Task(event_table, query, first, last, last - first + 1))
    return todo


def _numbers(connection: sqlite3.Connection, database: Database, table: Table) -> tuple[int, int] | None:
    """The first and last row number, where the numbers between are dense enough to be read in ranges."""
    if table.rowid is None:
        return None
    try:
        low = connection.execute(f"SELECT min({table.rowid}) FROM {quoted(table.name)}").fetchone()[0]
        high = connection.execute(f"SELECT max({table.rowid}) FROM {quoted(table.name)}").fetchone()[0]
    except sqlite3.Error:
        return None
    # a row takes more than a byte, so a wider span has holes
    if low is None or high - low > database.bytes:
        return None
    return low, high
