"""Reads tables: ranges of rows in parallel on the fast path, the rest on the slow path.

The slow path reads one value at a time through the standard library, around damaged pages: values of another type than
their column's, and damaged databases.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import polars as pl

from tracetui.parsers.nsys.database import PRAGMAS, TEXT, Database, Query, Table, numbers
from tracetui.parsers.tally import Tally

BATCH = 1 << 14
INT64 = range(-(2**63), 2**63)
ROWID_END = 2**63 - 1


def read_carefully(
    connection: sqlite3.Connection, query: Query, tally: Tally, first: int | None = None, last: int | None = None
) -> pl.DataFrame:
    """Reads the rows numbered `first` to `last` (all if not given), as far as they are readable, in order.

    Rows on damaged pages are counted as missing as far as their number is known.
    """
    frames = [_frame(query, rows, tally) for rows in _batches(connection, query, tally, first, last) if rows]
    return pl.concat(frames) if frames else query.empty()


def _batches(
    connection: sqlite3.Connection, query: Query, tally: Tally, first: int | None, last: int | None
) -> Iterator[list[tuple[Any, ...]]]:
    """Raw rows, each with its row number first."""
    if query.table.rowid is None:
        yield from _unnumbered(connection, query, tally)
        return
    at, end = (-ROWID_END - 1, ROWID_END) if first is None or last is None else (first, last)
    while at <= end:
        try:
            cursor = connection.execute(query.sql(at, end, numbered=True))
            while found := cursor.fetchmany(BATCH):
                _check_numbers(found, at)
                yield found
                at = found[-1][0] + 1
        except (sqlite3.Error, OverflowError, _Disorder) as error:  # noqa: PERF203  once per damaged place
            # fetchmany loses the rows that it had fetched before the error
            if found := _up_to_damage(connection, query, at, end):
                yield found
                at = found[-1][0] + 1
            behind = _behind_damage(connection, query, at, end)
            _count_lost(query, tally, error, at, behind, end)
            if behind is None:
                return
            at = behind
        else:
            return


class _Disorder(Exception):  # noqa: N818  a kind of damage that SQLite doesn't notice
    """The row numbers do not ascend."""


def _check_numbers(rows: list[tuple[Any, ...]], at: int) -> None:
    """Checks the row number, since pages of another table may look like this table's and have any number."""
    for row in rows:
        if row[0] < at:
            raise _Disorder(f"row {row[0]} where {at} was expected")
        at = row[0] + 1


def _unnumbered(connection: sqlite3.Connection, query: Query, tally: Tally) -> Iterator[list[tuple[Any, ...]]]:
    found: list[tuple[Any, ...]] = []
    try:
        found.extend(connection.execute(query.sql(numbered=True)))  # keeps what was read before an error
    except (sqlite3.Error, OverflowError) as error:
        tally.missing(f"the rest of table {query.table.name} can't be read", 1, str(error))
    yield found


def _up_to_damage(connection: sqlite3.Connection, query: Query, at: int, end: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    try:
        for row in connection.execute(query.sql(at, end, numbered=True)):
            _check_numbers([row], at)
            found.append(row)
            at = row[0] + 1
            if len(found) >= BATCH:
                break
    except (sqlite3.Error, OverflowError, _Disorder):
        pass
    return found


def _behind_damage(connection: sqlite3.Connection, query: Query, at: int, end: int) -> int | None:
    """The first row number after `at` from which rows can be read again; None if there is none up to `end`."""

    def readable(number: int) -> int | None:
        """The first row from this number on; None if the path to it is damaged or ends."""
        try:
            row = connection.execute(query.sql(number, end, numbered=True) + " LIMIT 1").fetchone()
        except (sqlite3.Error, OverflowError):
            return None
        return None if row is None or row[0] < number else int(row[0])

    step = 1
    found: int | None = None
    while at + step <= end and (found := readable(at + step)) is None:
        step *= 2
    low = at + step // 2
    while found is not None and low + 1 < found:  # the damaged rows end somewhere between
        middle = (low + found) // 2
        earlier = readable(middle)
        if earlier is None:
            low = middle
        elif earlier < found:
            found = earlier
        else:  # no row between the middle and the one found
            break
    return found


def _count_lost(query: Query, tally: Tally, error: Exception, at: int, behind: int | None, end: int) -> None:
    """Counts the rows on damaged pages: as events, or as something missing."""
    # rows are numbered from 1; how many followed the last one found is unknown
    if behind is not None:
        lost = max(behind - max(at, 1), 1)
    else:
        lost = end - at + 1 if end < ROWID_END else 1
    count = tally.skipped if query.is_events else tally.missing
    count("rows on damaged pages of the database", lost, f"{query.table.name}: {error}")


def _frame(query: Query, rows: list[tuple[Any, ...]], tally: Tally) -> pl.DataFrame:
    columns = list(zip(*rows, strict=True))[1:]
    series = []
    for (name, dtype), values in zip(query.columns.items(), columns, strict=True):
        if dtype == TEXT:
            series.append(pl.Series(name, values, dtype=pl.Binary))
        else:
            series.append(pl.Series(name, _integers(query, name, values, tally), dtype=pl.Int64))
    return pl.DataFrame(series)


def _integers(query: Query, name: str, values: tuple[Any, ...], tally: Tally) -> list[int | None]:
    whole: list[int | None] = []
    for value in values:
        if value is None or type(value) is int:
            whole.append(value)
            continue
        number = _integer(value)
        whole.append(number)
        example = f"{query.table.name}.{name}: {value!r}"
        if number is None:
            tally.repaired("value that is no whole number was taken for unknown", 1, example)
        else:
            tally.repaired("number that was stored as another type", 1, example)
    return whole


def _integer(value: object) -> int | None:
    """The whole number that a float or a text represents."""
    try:
        if isinstance(value, bytes) or (isinstance(value, float) and value.is_integer()):
            number = int(value)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return number if number in INT64 else None


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


class TableReader:
    """Reads selections of one database on the fastest path that can read them; for any number of threads."""

    def __init__(self, database: Database, tally: Tally, *, bulk: bool = True) -> None:
        self._database, self._tally = database, tally
        self._bulk: BulkReader | None = None
        if bulk:
            with suppress(Unsuited):
                self._bulk = BulkReader(database.uri)

    def read(self, query: Query, first: int | None = None, last: int | None = None) -> pl.DataFrame:
        """Reads the rows numbered `first` to `last`, or all if not given."""
        if self._bulk is not None:
            with suppress(Unsuited):
                return self._bulk.read(query, first, last)
        with closing(self._database.connect()) as connection:
            return read_carefully(connection, query, self._tally, first, last)

    def close(self) -> None:
        """Closes the connections."""
        if self._bulk is not None:
            self._bulk.close()


def stretches(
    database: Database, connection: sqlite3.Connection, table: Table
) -> Iterator[tuple[int, int] | tuple[None, None]]:
    """The first and last number of rows that are read at once; None for all, where they are not numbered densely."""
    try:
        low, high = numbers(connection, table)
    except sqlite3.Error:
        low = high = None
    # a row takes more than a byte, so a wider span has holes
    if low is None or high is None or high - low > database.bytes:
        yield None, None
        return
    for first in range(low, high + 1, RANGE_ROWS):
        yield first, min(first + RANGE_ROWS - 1, high)
