"""The fast path: reads rows in bulk through the Arrow database driver for SQLite, as typed columns."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.parsers.nsys.database import PRAGMAS

if TYPE_CHECKING:
    from tracetui.parsers.nsys.query import Query

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
