"""What stands above the Memory tab's tables: the peak in words and the curve."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.analysis.base import number_format
from tracetui.analysis.memory.curve import columns
from tracetui.app.charts.area import area_chart, plot_width
from tracetui.app.charts.svg.curve import curve_svg
from tracetui.app.reports.content.charts import FINE

if TYPE_CHECKING:
    import polars as pl

    from tracetui.analysis.memory.peak import Peak
    from tracetui.analysis.memory.segments import EndState

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
    """`analysis.memory_curve.curve`."""
    window: tuple[int, int] | None
    """Start and duration, ns."""
    peaks: pl.DataFrame | None = None
    """`analysis.memory.Memory.peaks`: of every memory."""


def memory_text(picture: Picture, width: int, height: int, *, ascii: bool = False) -> list[str]:
    """Lines for a tab of this size: the figures, then the chart; none where the table needs the room."""
    lines = _wrapped(_figures(picture, ascii=ascii), width - 2)
    lines = [f" {line}" for line in lines[: max(height // 3, 4)]]
    rows = min(max(height // 3, 5), 14)
    if height < LEAST_ROWS or picture.curve.height < 2 or width < 40:
        return lines
    allocated, reserved = columns(picture.curve, width, picture.window)
    with_line = _worth_a_line(picture.curve)
    reserved = reserved if with_line else []
    room = plot_width(allocated, reserved, width - 2, rows, label=number_format.format_bytes)
    allocated, reserved = columns(picture.curve, room, picture.window)
    reserved = reserved if with_line else []
    chart = area_chart(
        allocated,
        reserved,
        width - 2,
        rows,
        label=number_format.format_bytes,
        times=_times(picture, room, ascii=ascii),
        ascii=ascii,
    )
    return [*lines, *(f" {line}" for line in chart)]


def memory_svg(picture: Picture, *, ascii: bool = False) -> str | None:
    """The curve as SVG; null where there is none."""
    if picture.curve.height < 2:
        return None
    allocated, reserved = columns(picture.curve, FINE, picture.window)
    with_line = _worth_a_line(picture.curve)
    return curve_svg(
        allocated,
        reserved if with_line else [],
        "Memory over time",
        label=number_format.format_bytes,
        times=_times(picture, FINE, ascii=ascii),
        names=("allocated", "reserved"),
    )


def _figures(picture: Picture, *, ascii: bool) -> list[str]:
    """Parts of a sentence, the most telling first; each may begin a line."""
    peak, end = picture.peak, picture.end
    parts = []
    if peak is not None:
        where = _memory(peak.device_type, peak.device)
        text = f"{where[0].upper()}{where[1:]} peak {number_format.format_bytes(peak.allocated)} allocated"
        if peak.reserved:
            text += f" of {number_format.format_bytes(peak.reserved)} reserved"
        if peak.time is not None and picture.window is not None:
            text += f" at {number_format.format_ns(peak.time - picture.window[0], ascii=ascii)}"
        parts.append(text)
    parts += _others(picture)
    if end.allocated_bytes is not None:
        text = f"end {number_format.format_bytes(end.allocated_bytes)} allocated"
        if end.reserved_bytes is not None:
            text += f" of {number_format.format_bytes(end.reserved_bytes)} reserved"
        parts.append(text)
    if end.fragmentation_percent is not None:
        parts.append(
            f"fragmentation {number_format.format_percent(end.fragmentation_percent)}"
            f" (largest free block {number_format.format_bytes(end.largest_free_bytes)})"
        )
    mark = "-" if ascii else "─"
    fill = "#" if ascii else "█"
    if picture.curve.height > 1:
        line = f", {mark} reserved" if _worth_a_line(picture.curve) else ""
        parts.append(f"{fill} allocated{line}")
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
    found = []
    for row in picture.peaks.sort("device_type", "device", descending=[True, False]).iter_rows(named=True):
        mine = (row["device_type"], row["device"]) == (peak.device_type, peak.device)
        if not mine and row["allocated"]:
            found.append(f"{_memory(row['device_type'], row['device'])} {number_format.format_bytes(row['allocated'])}")
    return found[:MOST_OTHERS]


def _worth_a_line(curve: pl.DataFrame) -> bool:
    """Returns whether reserved and allocated memory can share a scale; far more reserved would flatten the curve."""
    reserved, allocated = curve["reserved"].max(), curve["allocated"].max()
    return isinstance(reserved, int) and isinstance(allocated, int) and reserved <= TOO_FAR * allocated


def _times(picture: Picture, room: int, *, ascii: bool) -> tuple[str, str]:
    if picture.window is None or picture.curve["time"].null_count():
        return "first event", f"event {picture.curve.height:,}"
    begin, middle = "0 s", " since the recording began"
    end = number_format.format_ns(picture.window[1], ascii=ascii)
    return (begin + middle if room > 60 else begin), end


def _wrapped(parts: list[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines += textwrap.wrap(part, width)
    return lines
