"""Memory: how much the allocator held over time, who held the peak, what is never freed, and the fragmentation."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import polars as pl

from tracetui.analysis.base.number_format import format_bytes, format_ns, format_percent
from tracetui.analysis.memory.lifetime import growth, long_lived, outliving
from tracetui.analysis.memory.owners import EARLIER
from tracetui.analysis.memory.peak import ROUNDING, By, Peak, columns, curve, holders, holding, memory, peak
from tracetui.analysis.memory.segments import EndState, blocks, end_state, ooms, peak_fragmentation, segments
from tracetui.analysis.selection import Scope, Selection, select
from tracetui.analysis.tables.memory import (
    ALLOCATIONS,
    BLOCKS,
    HOLDERS,
    LONG_LIVED,
    OUT_OF_MEMORY,
    SEGMENTS,
    STEPS,
    named_by,
)
from tracetui.analysis.tables.table import Table
from tracetui.app.charts.area import area_chart, curve_svg, plot_width
from tracetui.app.reports.content.charts import FINE
from tracetui.app.views.common.chart import ViewChart
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import TableView

LEAST_ROWS = 14
"""In a tab with fewer lines, the table gets all of them."""
MOST_OTHERS = 8
TOO_FAR = 4
"""Reserved memory is drawn in the same chart up to this multiple of the allocated memory."""


@dataclass(frozen=True)
class Picture:
    """One memory over time."""

    peak: Peak | None
    end: EndState
    curve: pl.DataFrame
    """`analysis.memory.peak.curve`."""
    window: tuple[int, int] | None
    """Start and duration, ns."""
    peaks: pl.DataFrame | None = None
    """`analysis.memory.peak.Memory.peaks`: of every memory."""
    fragmentation: float | None = None
    """At the peak."""


def memory_text(picture: Picture, width: int, height: int, *, ascii: bool = False) -> list[str]:
    """Lines for a tab of this size: the figures, then the chart; none where the table needs the room."""
    lines = _wrapped(_figures(picture, ascii=ascii), width - 2)
    lines = [f" {line}" for line in lines[: max(height // 3, 4)]]
    rows = min(max(height // 3, 5), 14)
    if height < LEAST_ROWS or picture.curve.height < 2 or width < 40:
        return lines
    room = plot_width(*_lines(picture, width), width - 2, rows, label=format_bytes)
    chart = area_chart(
        *_lines(picture, room),
        width - 2,
        rows,
        label=format_bytes,
        times=_times(picture, room, ascii=ascii),
        ascii=ascii,
    )
    return [*lines, *(f" {line}" for line in chart)]


def _lines(picture: Picture, width: int) -> tuple[list[int | None], list[int | None]]:
    """Allocated and reserved memory by column of the chart; no reserved memory where it would flatten the curve."""
    allocated, reserved = columns(picture.curve, width, picture.window)
    return allocated, reserved if _worth_a_line(picture.curve) else []


def memory_svg(picture: Picture, *, ascii: bool = False) -> str | None:
    """The curve as SVG; None where there is none."""
    if picture.curve.height < 2:
        return None
    return curve_svg(
        *_lines(picture, FINE),
        "Memory over time",
        label=format_bytes,
        times=_times(picture, FINE, ascii=ascii),
        names=("allocated", "reserved"),
    )


def _figures(picture: Picture, *, ascii: bool) -> list[str]:
    """Parts of a sentence, the most telling first; each may begin a line."""
    peak, end = picture.peak, picture.end
    parts = []
    if peak is not None:
        where = _memory(peak.device_type, peak.device)
        text = f"{where[0].upper()}{where[1:]} peak {format_bytes(peak.allocated)} allocated"
        if peak.reserved:
            text += f" of {format_bytes(peak.reserved)} reserved"
        if peak.time is not None and picture.window is not None:
            text += f" at {format_ns(peak.time - picture.window[0], ascii=ascii)}"
        parts.append(text)
    if picture.fragmentation is not None:
        parts.append(f"fragmentation then {format_percent(picture.fragmentation)} of what is free")
    parts += _others(picture)
    if end.allocated_bytes is not None:
        text = f"end {format_bytes(end.allocated_bytes)} allocated"
        if end.reserved_bytes is not None:
            text += f" of {format_bytes(end.reserved_bytes)} reserved"
        parts.append(text)
    if end.fragmentation_percent is not None:
        parts.append(
            f"fragmentation then {format_percent(end.fragmentation_percent)}"
            f" (largest free {format_bytes(end.largest_free_bytes)})"
        )
    mark = "-" if ascii else "─"
    fill = "#" if ascii else "█"
    if picture.curve.height > 1:
        line = f", {mark} reserved" if _worth_a_line(picture.curve) else ""
        parts.append(f"{fill} most held{line}")
    return [f"{part}{' ·' if not ascii else ' |'}" for part in parts[:-1]] + parts[-1:]


def _memory(device_type: int | None, device: int | None) -> str:
    """Returns which memory it is, in words."""
    if device_type is None:
        return "memory of an unknown device"
    return "host" if device_type == 0 else f"GPU {device}"


def _others(picture: Picture) -> list[str]:
    """Returns the peaks of the other memories, which have no curve, GPUs first."""
    peak = picture.peak
    if picture.peaks is None or peak is None:
        return []
    peaks = []
    for row in picture.peaks.sort("device_type", "device", descending=[True, False]).iter_rows(named=True):
        mine = (row["device_type"], row["device"]) == (peak.device_type, peak.device)
        if not mine and row["allocated"]:
            peaks.append(f"{_memory(row['device_type'], row['device'])} {format_bytes(row['allocated'])}")
    return peaks[:MOST_OTHERS]


def _worth_a_line(curve: pl.DataFrame) -> bool:
    """Returns whether reserved and allocated memory can share a scale; far more reserved would flatten the curve."""
    reserved, allocated = curve["reserved"].max(), curve["allocated"].max()
    return isinstance(reserved, int) and isinstance(allocated, int) and reserved <= TOO_FAR * allocated


def _times(picture: Picture, room: int, *, ascii: bool) -> tuple[str, str]:
    if picture.window is None or picture.curve["time"].null_count():
        return "first event", f"event {picture.curve.height:,}"
    begin, middle = "0 s", " since the recording began"
    end = format_ns(picture.window[1], ascii=ascii)
    return (begin + middle if room > 60 else begin), end


def _wrapped(parts: list[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines += textwrap.wrap(part, width)
    return lines


OF: dict[str, By] = {"by stack": "stack", "by operator": "operator", "by module": "module", "by range": "range"}

PLAIN: dict[str, tuple[Table, Callable[[Selection], pl.DataFrame], str, str]] = {
    "steps": (STEPS, growth, "allocated at start and end of each step", "No steps in this recording."),
    "segments": (
        SEGMENTS, segments, "what the allocator holds at the end", "The allocator holds no segments at the end.",
    ),
}  # fmt: skip
"""Tables that are all of one analysis: what computes them, their note, and why they are empty."""

NO_HISTORY = """\
No history of allocations, so neither a peak nor what was given back is known.

v goes on to the segments and blocks held at the end. To record the history:

torch.cuda.memory._record_memory_history()"""

NO_MEMORY = (
    "No memory in this recording.\n\n"
    "Record it with profile(..., profile_memory=True), or take a snapshot:\n"
    "torch.cuda.memory._record_memory_history(); ...\n"
    'torch.cuda.memory._dump_snapshot("snapshot.pickle")\n'
    "and open that file, or the folder that holds it and the trace."
)


class MemoryView(TableView):
    """A curve, and below it one of several tables."""

    TAB = "memory"
    ABOVE = True
    TABLES = (*OF, "long-lived", "steps", "segments", "out of memory")

    def __init__(self) -> None:
        super().__init__()
        self._there: tuple[str, ...] = ()
        """The tables that this recording can fill."""
        self._picture: Picture | None = None

    # --- what is computed in a thread

    def root(self) -> Page:
        """The table in view; beside it the curve."""
        self._picture = None
        snapshot, timeline = self._sources()
        self._there = _tables(snapshot, timeline)
        if not self._there:
            return Page.of(HOLDERS, pl.DataFrame(), id="memory", title="Memory", empty=NO_MEMORY, alone=True)
        if self.kind not in self._there:
            self.kind = self._there[0]
        sel = self._source(self.kind, snapshot, timeline)
        cached = self.session.cached
        most = cached(("memory_peak", sel.trace.source.path), lambda: peak(sel))
        self._picture = Picture(
            most,
            cached(("memory_end", sel.trace.source.path), lambda: end_state(sel)),
            cached(("memory_curve", sel.trace.source.path), lambda: curve(sel, most)),
            _window(sel),
            cached(("memory_peaks", sel.trace.source.path), lambda: memory(sel)).peaks,
            cached(("memory_free", sel.trace.source.path), lambda: peak_fragmentation(sel, most)),
        )
        return self._page(self.kind, sel, most)

    def _sources(self) -> tuple[Selection | None, Selection | None]:
        """The snapshot of the run, and the trace in view where it recorded memory."""
        shown = self.session.selection()
        if shown.trace.info.kind == "memory_snapshot":
            return shown, None
        snapshots = self.session.runs["a"].of_kind("memory_snapshot")
        snapshot = select(snapshots[0], Scope(devices=self.session.scope.devices)) if snapshots else None
        return snapshot, shown if shown.trace.memory.height else None

    @staticmethod
    def _source(kind: str, snapshot: Selection | None, timeline: Selection | None) -> Selection:
        only_there = kind in ("by operator", "by module")
        chosen = timeline if only_there or snapshot is None else snapshot
        assert chosen is not None
        return chosen

    def _page(self, kind: str, sel: Selection, most: Peak | None) -> Page:
        cached = self.session.cached
        key = ("memory", kind, sel.trace.source.path)
        # the peak is the whole recording's unless a part of it was asked for
        part_of = sel.by_steps or sel.scope.window is not None or sel.scope.devices is not None
        base = sel.describe() if part_of else "whole recording"
        if kind in OF:
            by = OF[kind]
            share = f"% of {format_bytes(most.allocated)}" if most else ""
            note = " · ".join(part for part in (share, base) if part)
            return Page.of(
                named_by(HOLDERS, by),
                cached(key, lambda: holders(sel, by, most)),
                id=f"memory_{by}",
                title=f"{HOLDERS.title}, {kind}",
                note=note,
                empty="Nothing is known to be held at the peak." if most else NO_HISTORY,
            )
        if kind == "long-lived":
            by = _long_by(sel)
            what = "outlive their step" if sel.steps.height else "never given back in the recording"
            nothing = (
                "No step made what outlives it; what grows between steps: table steps (v)."
                if sel.steps.height
                else "All that was allocated in the recording was given back in it."
            )
            return Page.of(
                named_by(LONG_LIVED, by),
                cached(key, lambda: long_lived(sel, by)),
                note=f"{what} · {sel.describe()}",
                empty=NO_HISTORY if most is None else nothing,
            )
        if kind in PLAIN:
            table, compute, note, empty = PLAIN[kind]
            return Page.of(table, cached(key, lambda: compute(sel)), note=note, empty=empty)
        frame = cached(key, lambda: ooms(sel))
        window = _window(sel)
        begin = window[0] if window else None
        return Page.of(OUT_OF_MEMORY, frame.with_columns((pl.col("time") - begin).alias("at_ns")))

    # --- on the screen

    def above(self, width: int, height: int) -> list[str]:
        """The figures and the curve."""
        if self._picture is None or len(self._stack) != 1:
            return []
        return memory_text(self._picture, width, height, ascii=self.session.ascii)

    def chart(self) -> ViewChart | None:
        """The curve, where the tab's own page is in view."""
        first = self._picture if len(self._stack) == 1 and not self.has_class("-blank") else None
        svg = None if first is None else memory_svg(first, ascii=self.session.ascii)
        base = "" if self.state is None else self.state.page.note
        return super().chart() if svg is None else ViewChart("Memory over time", base, svg)

    # --- in and out

    @property
    def tables(self) -> tuple[str, ...]:
        """Returns the tables that this recording can fill."""
        return self._there or self.TABLES

    def action_show_table(self, kind: str) -> None:
        """Shows a table that this recording can fill."""
        if kind in self.tables:
            super().action_show_table(kind)

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """The allocations of a holder, the blocks of a segment, what was held when memory ran out."""
        if row.get("name") in (EARLIER, ROUNDING):
            return None
        snapshot, timeline = self._sources()
        sel = self._source(self.kind, snapshot, timeline)
        if page.id == "memory_segments":
            return lambda: _block_page(sel, row)
        if page.id == "memory_oom":
            return lambda: _held_page(sel, row)
        if page.id == "memory_long":
            listed = outliving
            by = _long_by(sel)
        elif page.id.removeprefix("memory_") in OF.values():
            listed = holding
            by = cast("By", page.id.removeprefix("memory_"))
        else:
            return None
        name, stack = str(row["name"]), row.get("stack")
        return lambda: _allocation_page(sel, listed(sel, by, name, stack), name)


def _tables(snapshot: Selection | None, timeline: Selection | None) -> tuple[str, ...]:
    """Which tables have something to show, in the order of `MemoryView.TABLES`."""
    there = set()
    for sel in (snapshot, timeline):
        if sel is not None and sel.trace.memory.height:
            there |= {"long-lived"} | ({"steps"} if sel.trace.steps.height else set())
    if snapshot is not None and snapshot.trace.memory.height:
        memory = snapshot.trace.memory
        there |= {"by stack"} | ({"segments"} if memory.filter(pl.col("action") == "segment").height else set())
        there |= {"by range"} if snapshot.trace.host.height else set()
        there |= {"out of memory"} if memory.filter(pl.col("action") == "oom").height else set()
    if timeline is not None:
        there |= {"by operator"}
        there |= {"by module"} if (timeline.trace.host["kind"] == "module").any() else set()
    return tuple(kind for kind in MemoryView.TABLES if kind in there)


def _long_by(sel: Selection) -> By:
    return "stack" if sel.trace.info.kind == "memory_snapshot" else "operator"


def _window(sel: Selection) -> tuple[int, int] | None:
    if not sel.by_steps or not sel.steps.height:
        return sel.trace.info.window
    start, last = int(sel.steps["start"][0]), sel.steps.row(-1, named=True)
    return start, last["start"] + last["duration"] - start


def _allocation_page(sel: Selection, frame: pl.DataFrame, title: str) -> Page:
    window = _window(sel)
    frame = frame.with_columns(
        (pl.col("start") - (window[0] if window else 0)).alias("at_ns"),
        (pl.col("end") - pl.col("start")).alias("life_ns"),
        _hex("address"),
    )
    callers = ("operator", "module") if sel.trace.info.kind == "memory_snapshot" else ("stack", "stream")
    columns = tuple(column for column in ALLOCATIONS.columns if column.name not in callers)
    note = "those kept have no lifetime" if frame["life_ns"].null_count() else ""
    return Page.of(ALLOCATIONS, frame, title=title, columns=columns, note=note)


def _block_page(sel: Selection, row: Mapping[str, Any]) -> Page:
    frame = blocks(sel, int(row["device"]), int(row["address"])).with_columns(_hex("address"))
    return Page.of(BLOCKS, frame, title=f"Segment {int(row['address']):#x}", note="by address")


def _held_page(sel: Selection, row: Mapping[str, Any]) -> Page:
    moment = Peak(1, row["device"], int(row["row"]), row["time"], int(row["allocated"] or 0), row["reserved"])
    frame = holders(sel, "stack", moment)
    held = named_by(HOLDERS, "stack")
    note = f"% of {format_bytes(moment.allocated)}"
    return Page.of(held, frame, id="memory_then", title="Held then", note=note, inside="")


def _hex(column: str) -> pl.Expr:
    return pl.col(column).map_elements(hex, return_dtype=pl.String).alias(column)
