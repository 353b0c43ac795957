"""Rows of the report from frames, by the declaration of their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.rows import key_of, rows

if TYPE_CHECKING:
    import polars as pl

    from tracetui.analysis.base.rows import Json
    from tracetui.analysis.tables.table import Table


def table_rows(frame: pl.DataFrame, table: Table, limit: int | None = None) -> list[Json]:
    """The frame's first rows as JSON objects with the keys that the table declares, in their order."""
    found = rows(frame, table.data, limit)
    renamed = {key_of(field.name): field.json_key for field in table.data_fields if field.key}
    return [{renamed.get(key, key): value for key, value in row.items()} for row in found] if renamed else found
