"""Events as plain NumPy columns, which the reader fills and `frames` links.

Whole numbers are int64 with `NULL` for "missing", strings are category codes (see `parsers.categories`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tracetui.parsers import resources
from tracetui.parsers.arrays import Ints
from tracetui.parsers.categories import NULL_CODE

Columns = dict[str, NDArray[Any]]

NULL = np.iinfo(np.int64).min
OTHER_KIND = 255
"""The kind of an event whose category doesn't say what it is; `frames` decides once all metadata is known."""
NAMED_WORK = 254
"""The kind of an activity of a device whose name says what it is (see `classify.work_kind`)."""

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
    "input_shapes": _CODE, "input_types": _CODE, "concrete_inputs": _CODE,
    "stack": _CODE, "kernel": _CODE, "kernel_file": _CODE, "step": _INT,
    "offset": _INT,
}  # fmt: skip
DEVICE: dict[str, np.dtype[Any] | None] = {
    "kind": _KIND, "name": _CODE, "start": _INT, "duration": _INT, "process": _INT, "thread": _INT,
    "device": _INT, "stream": _INT, "context": _INT, "correlation": _INT, "external_id": _INT,
    "grid": _DIM3, "block": _DIM3, "registers": _INT, "shared_memory": _INT,
    "occupancy_percent": _FLOAT, "blocks_per_sm": _FLOAT, "bytes": _INT, "graph_node": _INT, "offset": _INT,
    "hlo_op": _CODE, "hlo_module": _CODE, "tf_op": _CODE, "op_name": _CODE, "step_num": _CODE,
    "kernel_details": _CODE, "memcpy_details": _CODE, "memset_details": _CODE, "xla_context": _CODE,
}  # fmt: skip
MEMORY: dict[str, np.dtype[Any] | None] = {
    "time": _INT, "process": _INT, "thread": _INT, "device_type": _INT, "device": _INT,
    "address": _INT, "bytes": _INT, "allocated": _INT, "reserved": _INT,
}  # fmt: skip
FLOWS: dict[str, np.dtype[Any] | None] = {
    "id": _INT, "process": _INT, "thread": _INT, "time": _INT, "begins": np.dtype(np.bool_),
}  # fmt: skip
COUNTERS: dict[str, np.dtype[Any] | None] = {
    "time": _INT, "name": _CODE, "series": _CODE, "value": _FLOAT,
    "counted": _INT,  # the `offset` of the kernel whose counter it is
}  # fmt: skip

COLLECTIVES: dict[str, np.dtype[Any] | None] = {
    "offset": _INT, "said": _CODE, "in_elements": _INT, "out_elements": _INT, "group_size": _INT, "seq": _INT,
    "source_rank": _INT, "target_rank": _INT, "said_type": _CODE, "group": _CODE, "group_description": _CODE,
    "group_ranks": _CODE, "in_splits": _CODE, "out_splits": _CODE,
}  # fmt: skip
"""What kernels and operators say about their collective; `offset` tells which event said it."""

OPTIONAL = frozenset({
    "step", "kernel", "kernel_file", "concrete_inputs",
    "counted", "graph_node", "hlo_op", "hlo_module", "tf_op", "op_name", "step_num",
    "kernel_details", "memcpy_details", "memset_details", "xla_context",
})  # fmt: skip
"""Columns that only some tools fill; a group has them only if one of its parts does."""
GROUPS = {
    "host": HOST,
    "device": DEVICE,
    "memory": MEMORY,
    "flows": FLOWS,
    "counters": COUNTERS,
    "collectives": COLLECTIVES,
}
"""Columns of each group; events of `OTHER_KIND` are in ``device``, which has more columns."""


def _nulls(dtype: np.dtype[Any] | None) -> tuple[np.dtype[Any], Any]:
    """Returns a column's type and the value that means null; `dtype` is None for grid and block sizes."""
    if dtype is None:
        return np.dtype(np.int32), -1
    return dtype, {_CODE: NULL_CODE, _FLOAT: np.nan, _INT: NULL}.get(dtype, 0)


def _empty(dtype: np.dtype[Any] | None, size: int) -> NDArray[Any]:
    return np.empty((size, 3) if dtype is None else size, _nulls(dtype)[0])


def blank(group: dict[str, np.dtype[Any] | None], size: int) -> Columns:
    """Returns the columns of this group with `size` rows of nulls."""
    columns: Columns = {}
    for name, dtype in group.items():
        columns[name] = _empty(dtype, size)
        columns[name][...] = _nulls(dtype)[1]
    return columns


def concatenate(group: dict[str, np.dtype[Any] | None], parts: list[Columns]) -> Columns:
    """Concatenates the parts; a column is null where a part lacks it, and an optional one that all lack is left out.

    Each part's columns are released as they are copied, so that the whole never exists twice.
    """
    sizes = [next(iter(part.values())).shape[0] for part in parts]
    joined: Columns = {}
    freed = 0
    for name, dtype in group.items():
        if name in OPTIONAL and not any(name in part for part in parts):
            continue
        joined[name] = column = _empty(dtype, sum(sizes))
        end = 0
        for part, size in zip(parts, sizes, strict=True):
            start, end = end, end + size
            column[start:end] = part.pop(name) if name in part else _nulls(dtype)[1]
        freed += column.nbytes
        if freed >= resources.WORTH_RELEASING:
            resources.release_freed()
            freed = 0
    return joined


class Events(Struct):
    """What a reader returns: the groups, and what it learned about the file."""

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


def lanes(process: Ints, thread: Ints) -> tuple[Ints, Ints]:
    """Numbers processes and threads from 0; returns (the number of each event, the first event of each number)."""
    _, first, number = np.unique(mixed(process, thread), return_index=True, return_inverse=True)
    return number, first


def mixed(first: Ints, second: Ints) -> Ints:
    """One number for each pair of numbers, as unique as a 64-bit mix can be."""
    with np.errstate(over="ignore"):
        pair: Ints = first * np.int64(0x9E3779B97F4A7C1) + second
    return pair


def move_to_host(events: Events, rows: Ints, kind: NDArray[Any], **more: NDArray[Any]) -> None:
    """Moves rows from the device group to the host group, as events of these kinds with the added columns `more`."""
    device, host = events.groups["device"], events.groups["host"]
    kept = np.ones(device["kind"].size, np.bool_)
    kept[rows] = False
    layout = {name: dtype for name, dtype in HOST.items() if name in host or name in more}
    moved: Columns = {}
    for name in list(device):  # each column is released as it is split, so that the whole never exists twice
        column = device.pop(name)
        if name in layout:
            moved[name] = column[rows]
        device[name] = column[kept]
    moved |= {"kind": kind.astype(np.uint8), **more}
    moved |= blank({name: dtype for name, dtype in layout.items() if name not in moved}, rows.size)
    if host["start"].size:
        whole = host | blank({name: dtype for name, dtype in layout.items() if name not in host}, host["start"].size)
        moved = {name: np.concatenate([whole.pop(name), moved.pop(name)]) for name in layout}
    events.groups["host"] = {name: moved[name] for name in layout}
