"""Computes how much memory the allocator held at each event of a memory snapshot.

The history is a ring buffer whose start is lost, so the curve is anchored at its end, which the segments describe.

- *allocated* ends at the sum of the segments' ``allocated_size``, grows with each ``alloc`` and falls with each
  ``free_requested``, which is when `torch.cuda.memory_allocated` counts a block as freed (the official viewer counts
  it in use until ``free_completed``, when no stream needs it any more). Events have the requested bytes, while blocks
  are rounded up to 512: for blocks that were freed since, the curve lacks the rounding.
- *reserved* ends at the sum of the segments' ``total_size``, and changes when segments come, go, or are mapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.memory.events import ALLOC, FREE, OOM, OTHER, REQUESTED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.parsers.tally import Tally

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

_SEGMENTS = [
    schema.MEMORY_ACTIONS.index(name) for name in ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
]
_NEVER = -1
TOLERATED = 10
"""Other threads may allocate between the copies of the segments and of the history."""


def anchored(rows: pl.DataFrame, end: pl.DataFrame, tally: Tally, *, reserves: bool = True) -> pl.DataFrame:
    """Adds `allocated` and `reserved` after each event to one device's history; null before events that don't add up.

    Args:
        rows: the history, in order.
        end: the rows of the end state of the same device.
        tally: is told if the two don't fit.
        reserves: whether the segments are the driver's; in a snapshot made from a profile they are not.
    """
    action = rows["action"].to_numpy()
    size = rows["bytes"].fill_null(0).to_numpy()
    address = rows["address"].fill_null(_NEVER).to_numpy()
    previous, last = _neighbours(address, action)
    given_back = (action == REQUESTED) | _ends_unasked(action, previous)
    change = np.where((action == ALLOC) | given_back, size, 0)
    segments = end.filter(pl.col("action") == schema.MEMORY_ACTIONS.index("segment"))
    strays = _strays(address, action, last, end)
    columns = {"allocated": _walk(change, _total(segments["allocated"])), "reserved": np.full(size.size, _NEVER)}
    if reserves:
        columns["reserved"] = _walk(np.where(np.isin(action, _SEGMENTS), size, 0), _total(segments["bytes"]))
    if strays > max(TOLERATED, size.size // 100):
        tally.missing("recording of what happened between the history and the end state", strays)
        columns["allocated"] = np.full(size.size, _NEVER)
    known = {}
    for name, values in columns.items():
        below = np.flatnonzero(values < 0)
        if below.size and name == "allocated" and strays <= max(TOLERATED, size.size // 100):
            tally.missing("history before an event that the end state does not account for", int(below[-1]) + 1)
        series = pl.Series(np.where(values < 0, 0, values))
        first = int(below[-1]) + 1 if below.size else 0
        known[name] = pl.select(pl.when(pl.int_range(size.size) >= first).then(series)).to_series()
    # an out-of-memory event has the device's free memory in `reserved`, and a mark says nothing about memory
    return rows.with_columns(
        known["allocated"].alias("allocated"),
        pl.when(pl.col("action") == OOM)
        .then(pl.col("reserved"))
        .when(pl.col("action") != OTHER)
        .then(known["reserved"])
        .alias("reserved"),
    )


def _total(values: pl.Series) -> int:
    return int(values.fill_null(0).sum())


def _walk(change: Ints, end: int) -> Ints:
    """The bytes held after each event, given that `end` were held after the last."""
    running = np.cumsum(change)
    total: Ints = end - (running[-1] - running) if running.size else running
    return total


def _neighbours(address: Ints, action: Ints) -> tuple[Ints, Bools]:
    """For each event, the previous action at the same address (-1: none), and whether it is the last one there."""
    block = np.isin(action, (ALLOC, FREE, REQUESTED)) & (address != _NEVER)
    rows = np.flatnonzero(block)
    rows = rows[np.argsort(address[rows], kind="stable")]
    same = address[rows[1:]] == address[rows[:-1]]
    previous = np.full(action.size, _NEVER, np.int64)
    previous[rows[1:][same]] = action[rows[:-1][same]]
    last = np.zeros(action.size, np.bool_)
    last[rows] = np.append(~same, True)[: rows.size]
    return previous, last


def _ends_unasked(action: Ints, previous: Ints) -> Bools:
    """Completed frees without an earlier request: some histories record only one of the two events."""
    asked = bool((action == REQUESTED).any())
    unknown = (previous == _NEVER) & (not asked)
    ends: Bools = (action == FREE) & ((previous == ALLOC) | unknown)
    return ends


def _strays(address: Ints, action: Ints, last: Bools, end: pl.DataFrame) -> int:
    """Blocks in use according to the history but not the end state, or the other way round."""
    used = end.filter((pl.col("action") == schema.MEMORY_ACTIONS.index("block")) & (pl.col("allocated") > 0))["address"]
    if used.null_count():
        return 0
    held = np.isin(address, used.to_numpy())
    return int(np.count_nonzero(last & (held != (action == ALLOC))))
