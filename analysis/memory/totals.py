"""How much memory the framework's allocator held, over time and at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.memory.allocations import END_STATE
from tracetui.analysis.memory.peak import peaks

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

CPU_TYPE = 0
PEAK_COLUMNS = ("device_type", "device", "allocated")


class Memory(Struct, frozen=True):
    """Allocator figures of a selection, as the profiler recorded them with each event."""

    peak_allocated_bytes: int | None
    """The most that tensors held on one GPU (in host memory where no GPU event was recorded); None if unknown."""
    peak_reserved_bytes: int | None
    """The most that the allocator held from one GPU's driver."""
    on_gpu: bool
    """Whether the peaks are a GPU's."""
    curve: pl.DataFrame
    """time, device, allocated, reserved at each event of the memory the peaks are of, bytes."""
    peaks: pl.DataFrame
    """device_type (0 CPU, 1 GPU), device, allocated, reserved: the peaks of each memory."""


def memory(sel: Selection) -> Memory:
    """Peaks and the curve, as in torch-tb-profiler: the largest totals in any event (`get_memory_curve`).

    What was allocated at the start of a snapshot's history counts too (`peak.peaks`); its end state is not an event.
    """
    if not sel.trace.memory.height:
        nothing = sel.trace.memory
        return Memory(
            None, None, False, nothing.select("time", "device", "allocated", "reserved"),
            nothing.select(*PEAK_COLUMNS, "reserved"),
        )  # fmt: skip
    events = sel.memory.filter(~pl.col("action").is_in([*END_STATE, "oom", "other"]))
    events = events.select("time", "device_type", "device", "allocated", "reserved")
    if sel.scope.devices is not None:
        chosen = pl.col("device").is_in(list(sel.scope.devices))
        events = events.filter(chosen | (pl.col("device_type") == CPU_TYPE) | pl.col("device_type").is_null())
    known = events.filter(pl.col("allocated").is_not_null() | pl.col("reserved").is_not_null())
    totals = known.group_by("device_type", "device").agg(pl.max("allocated", "reserved")).sort("device_type", "device")
    # other accelerators number their own device types
    on_gpu = known.filter(pl.col("device_type") > CPU_TYPE).height > 0
    unsaid = not on_gpu and known["device_type"].null_count() > 0
    shown = (
        pl.col("device_type").is_null()
        if unsaid
        else pl.col("device_type") > CPU_TYPE
        if on_gpu
        else pl.col("device_type") == CPU_TYPE
    )
    if sel.trace.info.kind == "memory_snapshot":
        known_peaks = [(one.device_type, one.device, one.allocated) for one in peaks(sel)]
        whole = pl.DataFrame(known_peaks, schema=dict.fromkeys(PEAK_COLUMNS, pl.Int64), orient="row")
        totals = totals.drop("allocated").join(whole, on=PEAK_COLUMNS[:2], how="left", nulls_equal=True)
        totals = totals.select(*PEAK_COLUMNS, "reserved").sort(PEAK_COLUMNS[:2])
    of_shown = totals.filter(shown)
    return Memory(
        peak_allocated_bytes=_largest(of_shown["allocated"]),
        peak_reserved_bytes=_largest(of_shown["reserved"]),
        on_gpu=on_gpu,
        curve=known.filter(shown).select("time", "device", "allocated", "reserved"),
        peaks=totals,
    )


def _largest(values: pl.Series) -> int | None:
    largest = values.max()
    return None if largest is None else int(largest)  # type: ignore[arg-type]
