"""From frames in ns to the report's rows in µs: the one place where units change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

Json = dict[str, Any]
"""A JSON object of the report."""


def us(ns: float | None) -> float | None:
    """µs of a time in ns; unknown stays unknown."""
    return None if ns is None else known(ns / 1000)


def known(value: float | None) -> float | None:
    """The value, or null where it is not a number: JSON has no NaN, and a reader expects null."""
    return value if value is not None and math.isfinite(value) else None


def rows(frame: pl.DataFrame, columns: Iterable[str], limit: int | None = None) -> list[Json]:
    """The frame's first rows as JSON objects with these columns.

    A column ``x_ns`` becomes the key ``x_us``; a list of structs with an ``ns`` field becomes a list of objects with
    ``us``. A column that the frame lacks is null: a source that can't fill it still keeps the key.
    """
    chosen = [(column, key_of(column)) for column in columns]
    present = [column for column, _ in chosen if column in frame.columns]
    head = frame.select(present) if limit is None else frame.select(present).head(limit)
    return [{key: _value(column, row.get(column)) for column, key in chosen} for row in head.iter_rows(named=True)]


def key_of(column: str) -> str:
    """The report's key for a frame's column: ns become µs."""
    if column == "ns":
        return "us"
    return column.removesuffix("_ns") + "_us" if column.endswith("_ns") else column


def _value(column: str, value: Any) -> Any:
    if value is None:
        return None
    if column == "ns" or column.endswith("_ns"):
        return us(value)
    if isinstance(value, float):
        return known(value)
    if isinstance(value, list):
        return [_struct(item) if isinstance(item, dict) else item for item in value]
    return value


def _struct(item: Mapping[str, Any]) -> Json:
    return {key_of(name): _value(name, value) for name, value in item.items()}
