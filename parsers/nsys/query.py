"""Selects what is read from a table: its columns, their types, and the range of row numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.parsers.nsys.database import quoted

if TYPE_CHECKING:
    from tracetui.parsers.nsys.database import Table

INTEGER, TEXT = pl.Int64(), pl.Binary()
"""A column of whole numbers, null where there is none; one of undecoded text, empty where there is none."""


class Query(Struct, frozen=True):
    """A selection of one table's columns, without those that the table lacks."""

    table: Table
    columns: dict[str, pl.DataType]
    is_events: bool = False
    """Whether its rows are events, which are counted."""

    @classmethod
    def of(cls, table: Table, *integers: str, texts: tuple[str, ...] = (), is_events: bool = False) -> Query:
        """Those of these columns that exist."""
        wanted = dict.fromkeys(integers, INTEGER) | dict.fromkeys(texts, TEXT)
        return cls(table, {name: dtype for name, dtype in wanted.items() if name in table.columns}, is_events)

    def sql(self, first: int | None = None, last: int | None = None, *, numbered: bool = False) -> str:
        """The SELECT for rows numbered `first` to `last`, in that order; `numbered` puts the row number first.

        Text is taken as bytes, since a file may hold any, and as never null, since the type of the first row decides
        for all of them where rows are read in bulk.
        """
        fields = [
            f"ifnull(CAST({quoted(name)} AS BLOB), x'') AS {quoted(name)}" if dtype == TEXT else quoted(name)
            for name, dtype in self.columns.items()
        ]
        rowid = self.table.rowid
        if numbered:
            fields.insert(0, rowid or "NULL")
        where = f" WHERE {rowid} BETWEEN {first} AND {last}" if rowid and first is not None else ""
        order = f" ORDER BY {rowid}" if rowid else ""
        return f"SELECT {', '.join(fields)} FROM {quoted(self.table.name)}{where}{order}"

    def empty(self) -> pl.DataFrame:
        """No rows."""
        return pl.DataFrame(schema=self.columns)
