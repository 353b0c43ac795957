"""Events as plain NumPy columns, between the reader that fills them and `frames`, which links them.

Whole numbers are int64 with `NULL` for "not there", strings are category codes (see `parsers.categories`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tracetui.parsers import allocator
from tracetui.parsers.categories import NULL_CODE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

NULL = np.iinfo(np.int64).min
OTHER_KIND = 255
"""Kind of an event whose category doesn't say what it is; `frames` decides when all metadata is known."""

_INT, _CODE, _FLOAT, _KIND, _DIM3 = (
    np.dtype(np.int64),
    np.dtype(np.uint32),
    np.dtype(np.float64),
    np.dtype(np.uint8),
    None,
)

HOST: dict[str, np.dtype[Any] | None] = {
    "kind": _KIND, "name": _CODE, "start": _INT, "duration": _INT, "process": _INT, "thread": _INT,
    "correlation": _INT, "external_id": _INT, "sequence": _INT, "module_id": _INT,
    "input_shapes": _CODE, "input_types": _CODE, "stack": _CODE, "offset": _INT,
}  # fmt: skip
DEVICE: dict[str, np.dtype[Any] | None] = {
    "kind": _KIND, "name": _CODE, "start": _INT, "duration": _INT, "process": _INT, "thread": _INT,
    "device": _INT, "stream": _INT, "context": _INT, "correlation": _INT, "external_id": _INT,
    "grid": _DIM3, "block": _DIM3, "registers": _INT, "shared_memory": _INT,
    "occupancy_percent": _FLOAT, "blocks_per_sm": _FLOAT, "bytes": _INT, "offset": _INT,
}  # fmt: skip
MEMORY: dict[str, np.dtype[Any] | None] = {
    "time": _INT, "process": _INT, "thread": _INT, "device_type": _INT, "device": _INT,
    "address": _INT, "bytes": _INT, "allocated": _INT, "reserved": _INT,
}  # fmt: skip
FLOWS: dict[str, np.dtype[Any] | None] = {
    "id": _INT, "process": _INT, "thread": _INT, "time": _INT, "begins": np.dtype(np.bool_),
}  # fmt: skip
COUNTERS: dict[str, np.dtype[Any] | None] = {"time": _INT, "name": _CODE, "series": _CODE, "value": _FLOAT}

GROUPS = {"host": HOST, "device": DEVICE, "memory": MEMORY, "flows": FLOWS, "counters": COUNTERS}
"""Columns of each group; events of `OTHER_KIND` stand in ``device``, whose columns are the wider ones."""


def _nulls(dtype: np.dtype[Any] | None) -> tuple[np.dtype[Any], Any]:
    """(type, the value that stands for null) of a column; grid and block sizes have no type of their own here."""
    if dtype is None:
        return np.dtype(np.int32), -1
    return dtype, {_CODE: NULL_CODE, _FLOAT: np.nan, _INT: NULL}.get(dtype, 0)


def _empty(dtype: np.dtype[Any] | None, size: int) -> NDArray[Any]:
    return np.empty((size, 3) if dtype is None else size, _nulls(dtype)[0])


def blank(group: dict[str, np.dtype[Any] | None], size: int) -> Columns:
    """Columns of this group with `size` rows of nulls."""
    columns: Columns = {}
    for name, dtype in group.items():
        columns[name] = _empty(dtype, size)
        columns[name][...] = _nulls(dtype)[1]
    return columns


def concatenate(group: dict[str, np.dtype[Any] | None], parts: list[Columns]) -> Columns:
    """The parts one after the other; columns that a part lacks are null there.

    Each part's columns are let go as they are taken, so that the whole never exists twice.
    """
    sizes = [next(iter(part.values())).shape[0] for part in parts]
    joined: Columns = {}
    for name, dtype in group.items():
        joined[name] = column = _empty(dtype, sum(sizes))
        end = 0
        for part, size in zip(parts, sizes, strict=True):
            start, end = end, end + size
            column[start:end] = part.pop(name) if name in part else _nulls(dtype)[1]
        allocator.release_freed()
    return joined


@dataclass(slots=True)
class Events:
    """What a reader hands over: the groups, and what it saw on the way."""

    groups: dict[str, Columns]
    metadata: list[dict[str, Any]] = field(default_factory=list)
    """The ``ph: M`` events (process and thread names), few."""
    header: dict[str, Any] = field(default_factory=dict)
    """The top-level keys beside ``traceEvents``."""
    window: tuple[int, int] | None = None
    """Start and duration of the profiler's own span."""
    total: int = 0
    parsed: int = 0
    partial: bool = False
