"""The report's section ``memory`` (`docs/reference/report.md` describes its keys)."""

from __future__ import annotations

import polars as pl

from tracetui.analysis.base.json_values import filled, known, us
from tracetui.analysis.memory.lifetime import growth, long_lived
from tracetui.analysis.memory.peak import By, curve, curve_points, holders, memory, peak
from tracetui.analysis.memory.segments import EndState, end_state, ooms, peak_fragmentation
from tracetui.analysis.report.model import Memory, MemoryPeak, MemoryPoint, Row, Segments
from tracetui.analysis.report.rows import rows, table_rows
from tracetui.analysis.selection import Selection
from tracetui.analysis.tables.memory import HOLDERS, LONG_LIVED, OUT_OF_MEMORY, STEPS
from tracetui.analysis.tables.table import Table

POINTS = 200
"""The most points of the curve; its peak is one of them."""
_BYTES = {"allocated": "allocated_bytes", "reserved": "reserved_bytes"}
PEAKS = ("device_type", "device", "allocated_bytes", "reserved_bytes")
CURVE = ("at_ns", "allocated_bytes", "reserved_bytes")


def memory_section(sel: Selection, limit: int | None) -> Memory:
    """Peaks, the curve in at most `POINTS` points, who held the peak, what outlives steps, the end state."""
    peaks, most, end = memory(sel), peak(sel), end_state(sel)
    whole = curve(sel, most)
    owners = callers(sel)
    allocated, reserved = whole.select("allocated", "reserved").row(-1) if whole.height else (None, None)
    return filled(
        Memory,
        peaks,
        peak_device=None if most is None else most.device,
        peak_time_us=_since(sel, None if most is None else most.time),
        peaks=[MemoryPeak(**row) for row in rows(peaks.peaks.rename(_BYTES, strict=False), PEAKS)],
        unused_percent=None if most is None else known(most.unused_percent),
        peak_fragmentation_percent=known(peak_fragmentation(sel, most)),
        end_allocated_bytes=allocated if end.allocated_bytes is None else end.allocated_bytes,
        end_reserved_bytes=reserved if end.reserved_bytes is None else end.reserved_bytes,
        fragmentation_percent=None if end.fragmentation_percent is None else known(end.fragmentation_percent),
        segments=_segments(end),
        curve=[
            MemoryPoint(**row) for row in rows(_since_begin(sel, curve_points(whole, POINTS)).rename(_BYTES), CURVE)
        ],
        holders=_by_owner({by: holders(sel, by, most) for by in owners}, HOLDERS, limit),
        long_lived=_by_owner({by: long_lived(sel, by) for by in owners}, LONG_LIVED, limit),
        growth=table_rows(growth(sel), STEPS, limit),
        oom=table_rows(_since_begin(sel, ooms(sel)), OUT_OF_MEMORY, limit),
    )


def callers(sel: Selection) -> tuple[By, ...]:
    """The kinds of owner that a recording knows of allocations: a snapshot stacks, a trace operators and modules."""
    if not sel.trace.memory.height:
        return ()
    if sel.trace.info.kind == "memory_snapshot":
        return ("stack", "range") if sel.trace.host.height else ("stack",)
    return ("operator", "module") if (sel.trace.host["kind"] == "module").any() else ("operator",)


def _by_owner(frames: dict[By, pl.DataFrame], table: Table, limit: int | None) -> list[Row]:
    """The first rows by each kind of owner."""
    return [row for by, frame in frames.items() for row in table_rows(frame.with_columns(by=pl.lit(by)), table, limit)]


def _since_begin(sel: Selection, frame: pl.DataFrame) -> pl.DataFrame:
    """Adds the time since the recording began to each row."""
    window = sel.trace.info.window
    begin = pl.lit(window[0] if window else None, dtype=pl.Int64)
    return frame.with_columns((pl.col("time") - begin).alias("at_ns"))


def _since(sel: Selection, time: int | None) -> float | None:
    window = sel.trace.info.window
    return None if time is None or window is None else us(time - window[0])


def _segments(end: EndState) -> Segments | None:
    return None if end.reserved_bytes is None else filled(Segments, end, count=end.segments)
