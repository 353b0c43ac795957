"""The report's memory section in words and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, convert

from tracetui.analysis.base.number_format import format_bytes, format_count, format_percent
from tracetui.analysis.tables.memory import CALLERS, HOLDERS, LONG_LIVED, STEPS, named_by
from tracetui.app.reports.content.charts import memory_chart
from tracetui.app.reports.layout import WIDTH, Layout
from tracetui.app.reports.parts import Block, Part, Sentences, filled, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.report.model import Memory


class OutOfMemory(Struct, frozen=True):
    """A request that found no memory."""

    at_us: float | None
    requested_bytes: int
    device_free_bytes: int | None
    allocated_bytes: int | None
    reserved_bytes: int | None
    own: str | None


def sentences(found: Memory, layout: Layout) -> list[str]:
    """The peak, the end, and what is wrong with them; nothing where nothing was recorded."""
    if found.peak_allocated_bytes is None and found.segments is None:
        return []
    lines = []
    if found.peak_allocated_bytes is not None:
        where = "GPU" if found.on_gpu else "Host"
        allocated, reserved = format_bytes(found.peak_allocated_bytes), found.peak_reserved_bytes
        known = "" if reserved is None else f", {format_bytes(reserved)} reserved"
        at = f", at {layout.time(found.peak_time_us)}" if found.peak_time_us is not None else ""
        lines.append(f"{where} memory peak: {allocated} allocated{known}{at}.")
    if (held := found.segments) is not None:
        text = (
            f"At the end: {format_bytes(held.allocated_bytes)} allocated, {format_bytes(held.reserved_bytes)} "
            f"reserved in {format_count(held.count)} segments"
        )
        if found.fragmentation_percent is not None:
            text += (
                f"; of {format_bytes(held.free_bytes)} free the largest block is "
                f"{format_bytes(held.largest_free_bytes)} (fragmentation "
                f"{format_percent(found.fragmentation_percent)}), {format_bytes(held.inactive_split_bytes)} is "
                "in segments also in use"
            )
        lines.append(f"{text}.")
    for event in convert(found.oom, list[OutOfMemory]):
        at = f" at {layout.time(event.at_us)}" if event.at_us is not None else ""
        lines.append(
            f"Out of memory{at}: {format_bytes(event.requested_bytes)} asked for, "
            f"{format_bytes(event.device_free_bytes)} free on the GPU, {format_bytes(event.allocated_bytes)} "
            f"allocated, {format_bytes(event.reserved_bytes)} reserved" + (f"; {event.own}." if event.own else ".")
        )
    return lines


def memory_parts(found: Memory, layout: Layout) -> Iterator[Part]:
    """The section: sentences, the curve, who held the peak, what stays, how it grows."""
    yield Sentences(tuple(sentences(found, layout)))
    yield Block("", chart=memory_chart(found, WIDTH - 2, ascii=layout.ascii))
    for by in CALLERS:
        mine = [row for row in found.holders if row["by"] == by]
        if mine:
            table = named_by(HOLDERS, by)
            yield listed(table, mine, layout, heading=f"{HOLDERS.title}, by {by}")
    first = next((row["by"] for row in found.long_lived), None)
    longer = [row for row in found.long_lived if row["by"] == first]
    if longer:
        stepped = longer[0]["steps"] is not None
        table = named_by(LONG_LIVED, str(first))
        base = "made in a step, there after it" if stepped else "made in the recording, never given back"
        yield listed(table, longer, layout, fields=filled(table.chosen(table.reports), longer), base=base)
    if any(row["growth_bytes"] for row in found.growth):
        yield listed(STEPS, found.growth, layout)
