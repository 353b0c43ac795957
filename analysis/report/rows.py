"""Turns frames in ns into the report's rows in µs: the one place where units of whole columns change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.json_values import Json, key_of, known, us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import polars as pl

    from tracetui.analysis.tables.table import Field, Table


def table_rows(frame: pl.DataFrame, table: Table, limit: int | None = None) -> list[Json]:
    """The frame's first rows as JSON objects with the keys that the table declares, in their order."""
    found = rows(frame, table.data, limit)
    renamed = {key_of(field.name): field.json_key for field in table.data_fields if field.key}
    return [{renamed.get(key, key): value for key, value in row.items()} for row in found] if renamed else found


def object_row(fields: Iterable[Field], value: Callable[[str], object], **more: object) -> Json:
    """A row of declared columns: what `value` says of each, or `more` where that has it."""
    return {
        field.json_key: more[field.name] if field.name in more else _value(field.name, value(field.name))
        for field in fields
    }


def rows(frame: pl.DataFrame, columns: Iterable[str], limit: int | None = None) -> list[Json]:
    """The frame's first rows as JSON objects with these columns.

    A column ``x_ns`` becomes the key ``x_us``; a list of structs with an ``ns`` field becomes a list of objects with
    ``us``. A column that the frame lacks is null: the key stays even if a source can't fill it.
    """
    chosen = tuple(columns)
    head = frame if limit is None else frame.head(limit)
    keys = [key_of(column) for column in chosen]
    cells = [_cells(head, column) for column in chosen]
    return [dict(zip(keys, row, strict=True)) for row in zip(*cells, strict=True)]


def _cells(frame: pl.DataFrame, column: str) -> list[object]:
    """A column's values as the report has them."""
    if column not in frame.columns:
        return [None] * frame.height
    series = frame[column]
    values: list[object] = series.to_list()
    if column.endswith("_ns") or column == "ns" or series.dtype.is_float() or series.dtype.is_nested():
        return [_value(column, value) for value in values]
    return values


def _value(column: str, value: object) -> object:
    if isinstance(value, int | float) and (column == "ns" or column.endswith("_ns")):
        return us(value)
    if isinstance(value, float):
        return known(value)
    if isinstance(value, list):
        return [
            {key_of(name): _value(name, part) for name, part in item.items()} if isinstance(item, dict) else item
            for item in value
        ]
    return value
