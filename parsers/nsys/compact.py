"""Columns between reading and linking: NumPy arrays no wider than their values.

Signed numbers are int32 where all of a column's values fit, else int64, and their smallest value stands for null;
codes of strings are uint32 (see `parsers.categories`); a column of three numbers a row has -1 for null.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.parsers import allocator
from tracetui.parsers.categories import NULL_CODE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Columns = dict[str, Array]

NULL = int(np.iinfo(np.int64).min)
_NULL32 = int(np.iinfo(np.int32).min)


def null_of(dtype: np.dtype[Any]) -> int:
    """What stands for null in a column of this type."""
    return NULL_CODE if dtype == np.uint32 else int(np.iinfo(dtype).min)


def is_null(values: Array) -> NDArray[np.bool_]:
    """Which values are null."""
    missing: NDArray[np.bool_] = values == null_of(values.dtype)
    return missing


def wide(values: pl.Series) -> NDArray[np.int64]:
    """An Int64 column as it is, `NULL` for null."""
    array: NDArray[np.int64] = (values.fill_null(NULL) if values.null_count() else values).to_numpy()
    return array


def narrow(values: pl.Series) -> Array:
    """An Int64 column as int32 if that holds it."""
    small = values.cast(pl.Int32, strict=False)
    if small.null_count() != values.null_count():
        return wide(values)
    array: Array = (small.fill_null(_NULL32) if small.null_count() else small).to_numpy()
    return array


def triple(x: pl.Series, y: pl.Series, z: pl.Series) -> NDArray[np.int32]:
    """Three Int64 columns side by side; a row that lacks one of them is null."""
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


def join(parts: list[Columns]) -> Columns:
    """The parts one after the other; what a part lacks is null there, and its columns are let go as they are taken."""
    sizes = [next(iter(part.values())).shape[0] for part in parts]
    names = dict.fromkeys(name for part in parts for name in part)
    joined: Columns = {}
    for name in names:
        there = [part[name] for part in parts if name in part]
        dtype = np.result_type(*(array.dtype for array in there))
        column = np.empty((sum(sizes), *there[0].shape[1:]), dtype)
        del there
        null = -1 if column.ndim > 1 else null_of(dtype)
        end = 0
        for part, size in zip(parts, sizes, strict=True):
            start, end = end, end + size
            if name not in part:
                column[start:end] = null
                continue
            values = part.pop(name)
            column[start:end] = values
            if values.dtype != dtype and values.ndim == 1 and (missing := is_null(values)).any():
                column[start:end][missing] = null
        joined[name] = column
        allocator.release_freed()
    return joined


def taken(columns: Columns, rows: Array) -> None:
    """Puts these rows of each column in its place, one column at a time."""
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
