"""Each allocation from the event that made it to the one that gave it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import latest
from tracetui.parsers.schema import MEMORY_ACTIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints
    from tracetui.parsers import Trace

    Bools = NDArray[np.bool_]

BEFORE = -1
"""Stands for an event before the recording."""
_CODE = {name: code for code, name in enumerate(MEMORY_ACTIONS)}
ALLOC, FREE, REQUESTED = _CODE["alloc"], _CODE["free"], _CODE["free_requested"]
END_STATE = ("segment", "block", "free_block")


class Allocations(Struct, frozen=True):
    """All allocations of one memory (a GPU's, or the host's); arrays of one length."""

    begin: Ints
    """Row of `schema.MEMORY` that made it, or -1 if it was there before the recording."""
    finish: Ints
    """Row that gave it back, or the number of rows if it was still there at the end."""
    row: Ints
    """A row that tells its stack and operator: the one that made it, else the one that gave it back or its block."""
    bytes: Ints
    start: Ints
    """Time it was made, ns; the least int64 where that was before the recording or is unknown."""
    end: Ints
    """Time it was given back, ns; the largest int64 where that did not happen in the recording."""

    def held_at(self, row: int) -> Ints:
        """Which of them were there right after an event; after -1: before the first one."""
        return np.flatnonzero((self.begin <= row) & (self.finish > row))


UNBORN, UNDYING = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def of_memory(device_type: int | None, device: int | None) -> pl.Expr:
    """Which rows of `schema.MEMORY` are of one memory; null is what the recording does not say."""
    wanted = {"device_type": device_type, "device": device}
    return pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value, dtype=pl.Int64)) for name, value in wanted.items())


@latest
def allocations(trace: Trace, device_type: int | None, device: int | None) -> Allocations:
    """Pairs what was allocated with what was freed at the same address of one memory.

    A snapshot's allocation ends where the program gives it back (``free_requested``), even if a stream may still use
    it. Blocks in use at a snapshot's end that its history does not mention are allocations too.
    """
    memory = trace.memory
    mine = of_memory(device_type, device)
    frame = memory.select(
        "action", "time", "address", "bytes", "allocated", row=pl.int_range(memory.height, dtype=pl.Int64)
    ).filter(mine_of(memory, mine))
    events = frame.filter(pl.col("action").is_in(["alloc", "free", "free_requested"]) & pl.col("address").is_not_null())
    code = events["action"].to_physical().to_numpy()
    address = events["address"].to_numpy()
    order = np.argsort(address, kind="stable")
    code, address = code[order], address[order]
    row, size = events["row"].to_numpy()[order], np.abs(events["bytes"].fill_null(0).to_numpy()[order])
    kept = ~_asked_before(code, address)
    code, address, row, size = code[kept], address[kept], row[kept], size[kept]
    height = memory.height
    makes = code == ALLOC
    same = address[1:] == address[:-1]
    after, before = np.append(same, False), np.append(False, same)
    # if the event in between is lost: an address that is allocated again must have been given back by then
    finish = np.where(after, np.append(row[1:], height)[: row.size], height)[makes]
    begin = row[makes]
    orphan = ~makes & ~(before & np.append(False, makes[:-1])[: makes.size])
    earlier = np.where(before, np.append(BEFORE, row[:-1])[: row.size], BEFORE)[orphan]
    blocks = _untouched(frame, address)
    rows = np.concatenate((begin, row[orphan], blocks["row"].to_numpy()))
    first = np.concatenate((begin, earlier, np.full(blocks.height, BEFORE)))
    last = np.concatenate((finish, row[orphan], np.full(blocks.height, height)))
    sizes = np.concatenate((size[makes], size[orphan], blocks["bytes"].fill_null(0).to_numpy()))
    start = _times(memory["time"], np.where(np.isin(first, begin), first, BEFORE), UNBORN)
    end = _times(memory["time"], np.where(last < height, last, BEFORE), UNDYING)
    return Allocations(first, last, rows, sizes, start, end)


def mine_of(memory: pl.DataFrame, condition: pl.Expr) -> pl.Series:
    """The rows of a frame that meet a condition, as a mask."""
    return memory.select(condition.fill_null(value=False).alias("mine"))["mine"]


def _asked_before(code: NDArray[np.uint8], address: Ints) -> Bools:
    """Marks, among events ordered by address, each ``free`` that follows its ``free_requested`` and adds nothing."""
    if not (code == REQUESTED).any():
        return np.zeros(code.size, np.bool_)
    follows = np.append(False, (address[1:] == address[:-1]) & (code[:-1] == ALLOC))[: code.size]
    asked: Bools = (code == FREE) & ~follows
    return asked


def _untouched(frame: pl.DataFrame, addresses: Ints) -> pl.DataFrame:
    """Blocks in use at the end that no event of the history is about."""
    blocks = frame.filter((pl.col("action") == "block") & (pl.col("allocated") > 0))
    known = blocks["address"].fill_null(-1).is_in(pl.Series(np.unique(addresses)).implode())
    return blocks.filter(~known)


def _times(times: pl.Series, rows: Ints, unknown: int) -> Ints:
    """The times of rows; `unknown` for a negative row or one without a time."""
    if not len(times):
        return np.full(rows.size, unknown, np.int64)
    values = times.to_numpy() if not times.null_count() else times.fill_null(unknown).to_numpy()
    return np.where(rows >= 0, values[np.maximum(rows, 0)], unknown)
