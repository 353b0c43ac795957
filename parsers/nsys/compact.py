"""Columns between reading and linking: NumPy arrays that are no wider than their values.

Signed numbers are int32 if all values of the column fit, else int64, and the smallest value means null. Codes of
strings and of kinds are unsigned, and the largest value means null (see `parsers.categories`). A column with three
numbers per row has -1 for null.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetui.parsers.arrays import Bools, Ints

Array = NDArray[Any]
Columns = dict[str, Array]

NULL = int(np.iinfo(np.int64).min)
_NULL32 = int(np.iinfo(np.int32).min)


def null_of(dtype: np.dtype[Any]) -> int:
    """The value that means null in a column of this type."""
    if dtype.kind == "u":
        return int(np.iinfo(dtype).max)
    return int(np.iinfo(dtype).min)


def is_null(values: Array) -> Bools:
    """Which values are null."""
    missing: Bools = values == null_of(values.dtype)
    return missing


def wide(values: pl.Series) -> Ints:
    """An Int64 column unchanged, with `NULL` for null."""
    array: Ints = (values.fill_null(NULL) if values.null_count() else values).to_numpy()
    return array


def narrow(values: pl.Series) -> Array:
    """An Int64 column as int32, if its values fit."""
    small = values.cast(pl.Int32, strict=False)
    if small.null_count() != values.null_count():
        return wide(values)
    array: Array = (small.fill_null(_NULL32) if small.null_count() else small).to_numpy()
    return array


def triple(x: pl.Series, y: pl.Series, z: pl.Series) -> NDArray[np.int32]:
    """Three Int64 columns side by side; a row that lacks one value is null."""
    joined = np.empty((len(x), 3), np.int32)
    missing = np.zeros(len(x), np.bool_)
    for place, part in enumerate((x, y, z)):
        small = part.cast(pl.Int32, strict=False)
        if small.null_count():
            missing |= small.is_null().to_numpy()
            small = small.fill_null(-1)
        joined[:, place] = small.to_numpy()
    if missing.any():
        joined[missing] = -1
    return joined


class Store:
    """Columns that grow by parts: each part is copied to its place and can then be freed."""

    def __init__(self, room: int, needed: dict[str, np.dtype[Any]]) -> None:
        self._room = room
        self._needed = needed
        self._columns: Columns = {}
        self.size = 0

    def append(self, part: Columns) -> None:
        """Adds rows; columns that the part lacks, or that no part before had, are null there."""
        begin, end = self.size, self.size + part["start"].shape[0]
        if begin == end:
            return
        if end > self._room:
            self._room = max(end, 2 * self._room)
            self._columns = {name: self._moved(column, column.dtype) for name, column in self._columns.items()}
        for name, values in part.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = self._empty(values.dtype, values.shape[1:])
                column[:begin] = _null_in(column)
            elif column.dtype != values.dtype and (wider := np.result_type(column, values)) != column.dtype:
                column = self._columns[name] = self._moved(column, wider)
            _copy(values, column[begin:end])
        for name in self._columns.keys() - part.keys():
            self._columns[name][begin:end] = _null_in(self._columns[name])
        self.size = end

    def finish(self) -> Columns:
        """The columns at their final length, including every required column that the file lacks."""
        for name, dtype in self._needed.items():
            if name not in self._columns:
                self._columns[name] = np.full(self.size, null_of(dtype), dtype)
        return {name: column[: self.size] for name, column in self._columns.items()}

    def _empty(self, dtype: np.dtype[Any], rest: tuple[int, ...]) -> Array:
        # memory that is never written costs nothing
        return np.empty((self._room, *rest), dtype)

    def _moved(self, column: Array, dtype: np.dtype[Any]) -> Array:
        wider = self._empty(dtype, column.shape[1:])
        _copy(column[: self.size], wider[: self.size])
        return wider


def _null_in(column: Array) -> int:
    return -1 if column.ndim > 1 else null_of(column.dtype)


def _copy(values: Array, target: Array) -> None:
    """Copies into a column that is at least as wide; null stays null."""
    target[...] = values
    if values.dtype != target.dtype and values.ndim == 1 and (missing := is_null(values)).any():
        target[missing] = null_of(target.dtype)


def taken(columns: Columns, rows: Array) -> None:
    """Replaces each column by these rows of it, one column at a time."""
    for name in columns:
        columns[name] = columns[name][rows]


class Numbering:
    """Gives each distinct value a small number, in the order of first sight; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[int | None, int] = {}

    def of(self, values: pl.Series) -> NDArray[np.int32]:
        """The number of each value of an Int64 column."""
        distinct = values.unique().sort()
        with self._lock:
            numbers = [self._numbers.setdefault(value, len(self._numbers)) for value in distinct.to_list()]
        if len(numbers) == 1:
            return np.full(len(values), numbers[0], np.int32)
        at = np.searchsorted(wide(distinct), wide(values))  # null sorts first, as `NULL` does
        found: NDArray[np.int32] = np.array(numbers, np.int32)[at]
        return found

    @property
    def values(self) -> list[int | None]:
        """The values by number."""
        with self._lock:
            return list(self._numbers)
