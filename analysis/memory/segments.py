"""What a memory snapshot's allocator holds at its end, how fragmented that is, and where memory ran out."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.memory.owners import own_and_library
from tracetui.analysis.memory.peak import Peak, allocations, of_memory
from tracetui.analysis.selection import Selection

SEGMENTS: dict[str, pl.DataType] = {
    "address": pl.Int64(),
    "device": pl.Int64(),
    "stream": pl.Int64(),
    "bytes": pl.Int64(),
    "allocated": pl.Int64(),
    "free": pl.Int64(),
    "largest_free": pl.Int64(),
    "used_percent": pl.Float64(),
    "blocks": pl.Int64(),
    "in_use": pl.Int64(),
    "own": pl.String(),
    "stack": pl.String(),
}
OOMS: dict[str, pl.DataType] = {
    "time": pl.Int64(),
    "device": pl.Int64(),
    "requested": pl.Int64(),
    "device_free": pl.Int64(),
    "allocated": pl.Int64(),
    "reserved": pl.Int64(),
    "own": pl.String(),
    "stack": pl.String(),
    "row": pl.Int64(),
}

BLOCKS: dict[str, pl.DataType] = {
    "address": pl.Int64(),
    "bytes": pl.Int64(),
    "requested": pl.Int64(),
    "state": pl.String(),
    "own": pl.String(),
    "stack": pl.String(),
}


class EndState(Struct, frozen=True):
    """The allocator at the snapshot, of all devices in scope together; null where the source has no segments."""

    segments: int
    reserved_bytes: int | None
    allocated_bytes: int | None
    free_bytes: int | None
    """Bytes of free blocks in held segments, which the allocator can give out without asking the driver."""
    largest_free_bytes: int | None
    inactive_split_bytes: int | None
    """Bytes of free blocks in segments that are partly in use, which can't go back to the driver."""
    fragmentation_percent: float | None
    """100 x (1 - largest free block / free bytes): what of the free memory no single allocation can get."""


def segments(sel: Selection) -> pl.DataFrame:
    """One row per segment that the allocator holds at the end, the largest first (`SEGMENTS`)."""
    memory = _of_devices(sel)
    held = memory.filter(pl.col("action") == "segment")
    blocks = memory.filter(pl.col("action").is_in(["block", "free_block"]))
    free = pl.col("action") == "free_block"
    sums = blocks.group_by("device", "segment").agg(
        free=pl.col("bytes").filter(free).sum(),
        largest_free=pl.col("bytes").filter(free).max().fill_null(0),
        blocks=pl.len().cast(pl.Int64),
        in_use=(~free).sum().cast(pl.Int64),
    )
    table = held.drop("segment").join(
        sums, left_on=["device", "address"], right_on=["device", "segment"], how="left", maintain_order="left"
    )
    return (
        table.with_columns(
            (pl.col("allocated") * 100 / pl.col("bytes")).fill_nan(None).alias("used_percent"),
            pl.col("stack").cast(pl.String),
        )
        .with_columns(_own())
        .select(*SEGMENTS)
        .cast(SEGMENTS)  # type: ignore[arg-type]
        .sort("bytes", "address", descending=[True, False])
    )


def end_state(sel: Selection) -> EndState:
    """Totals and fragmentation at the end of a snapshot."""
    memory = _of_devices(sel)
    held = memory.filter(pl.col("action") == "segment")
    used = memory.filter(pl.col("action") == "block")
    if not held.height:
        nothing = sel.trace.info.kind == "memory_snapshot" and not used.height and _says_so(sel)
        zero = 0 if nothing else None
        allocated = int(used["allocated"].sum()) if used.height else zero
        return EndState(0, zero, allocated, zero, zero, zero, None)
    free = memory.filter(pl.col("action") == "free_block")
    total, largest = int(free["bytes"].sum()), int(free["bytes"].max() or 0)  # type: ignore[arg-type]
    split = free.join(used.select("device", "segment").unique(), on=["device", "segment"], how="semi")
    return EndState(
        segments=held.height,
        reserved_bytes=int(held["bytes"].sum()),
        allocated_bytes=int(held["allocated"].sum()),
        free_bytes=total,
        largest_free_bytes=largest,
        inactive_split_bytes=int(split["bytes"].sum()),
        fragmentation_percent=100 * (1 - largest / total) if total else None,
    )


def _says_so(sel: Selection) -> bool:
    """Whether the file has a list of segments, even an empty one."""
    return not any("end state" in note.reason or "segments of the driver" in note.reason for note in sel.trace.notes)


def peak_fragmentation(sel: Selection, at: Peak | None) -> float | None:
    """What of the free memory no single allocation could get at the peak, as `EndState.fragmentation_percent`.

    The segments held then are those of the end without what was taken from the driver since, and with what was given
    back. None where these or the allocations do not add up to what the recording says of the peak, and where segments
    grow in place. A block that only a stream still used counts as free.
    """
    if at is None or not at.reserved:
        return None
    memory = sel.trace.memory.with_row_index("row").filter(of_memory(at.device_type, at.device))
    memory = memory.drop_nulls(["address", "bytes"])  # of a damaged snapshot, whose sums differ then
    held = dict(memory.filter(pl.col("action") == "segment").select("address", "bytes").iter_rows())
    since = memory.filter((pl.col("row") > at.row) & pl.col("action").cast(pl.String).str.starts_with("segment_"))
    for action, address, size in reversed(since.select("action", "address", "bytes").rows()):
        if action == "segment_alloc":
            held.pop(address, None)
        elif action == "segment_free":
            held[address] = abs(size)
        else:
            return None
    blocks = allocations(sel.trace, at.device_type, at.device)
    there = blocks.held_at(at.row)
    begin = sel.trace.memory["address"].gather(blocks.row[there]).to_numpy()
    if (sum(held.values()), int(blocks.bytes[there].sum())) != (at.reserved, at.allocated):
        return None
    # segments are disjoint: in order, each end of a block is followed by the beginning of the next, or their segment's
    first, size = np.array(list(held)), np.array(list(held.values()))
    starts = np.sort(np.concatenate((first, begin + blocks.bytes[there])))
    free = np.sort(np.concatenate((begin, first + size))) - starts
    return 100 * (1 - int(free.max()) / int(free.sum())) if free.sum() and free.min() >= 0 else None


def ooms(sel: Selection) -> pl.DataFrame:
    """Requests that found no memory, in order (`OOMS`): what was asked for, what the device had, what was held."""
    if not (sel.trace.memory["action"] == "oom").any():
        return pl.DataFrame(schema=OOMS)
    memory = _of_devices(sel).with_columns(
        pl.col("reserved").alias("device_free"),
        pl.when(pl.col("action") != "oom").then("reserved").alias("reserved"),
    )
    events = memory.filter(pl.col("time").is_not_null() | ~pl.col("action").is_in(["segment", "block", "free_block"]))
    events = events.with_columns(pl.col("reserved").forward_fill().over("device_type", "device"))
    failed = events.filter(pl.col("action") == "oom").with_columns(
        pl.col("bytes").alias("requested"), pl.col("stack").cast(pl.String)
    )
    return failed.with_columns(_own()).select(*OOMS).cast(OOMS)  # type: ignore[arg-type]


def _own() -> pl.Expr:
    def own(stack: str) -> str:
        frames = own_and_library(stack)
        return frames[0] or frames[1] or stack.partition(";")[0]

    return pl.col("stack").map_elements(own, return_dtype=pl.String).alias("own")


def _of_devices(sel: Selection) -> pl.DataFrame:
    memory = sel.trace.memory.with_row_index("row")
    if sel.scope.devices is None:
        return memory
    return memory.filter((pl.col("device_type") == 0) | pl.col("device").is_in(list(sel.scope.devices)))


def blocks(sel: Selection, device: int, segment: int) -> pl.DataFrame:
    """The blocks of one segment by address (`BLOCKS`); `state` is in use, free, or awaiting free."""
    held = sel.trace.memory.filter(
        pl.col("action").is_in(["block", "free_block"]) & (pl.col("device") == device) & (pl.col("segment") == segment)
    )
    state = (
        pl.when(pl.col("action") == "free_block")
        .then(pl.lit("free"))
        .when(pl.col("allocated") > 0)
        .then(pl.lit("in use"))
        .otherwise(pl.lit("awaiting free"))
    )
    table = held.with_columns(state.alias("state"), pl.col("stack").cast(pl.String)).with_columns(_own())
    return table.select(*BLOCKS).cast(BLOCKS).sort("address")  # type: ignore[arg-type]
