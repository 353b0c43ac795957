"""The report's memory section in words and tables, for the terminal and for Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.quantities import UNKNOWN, format_bytes, format_count, format_percent
from tracetui.app.reports.charts import indented, memory_chart
from tracetui.app.reports.text_table import WIDTH, Column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.text_table import Page

TITLES = {"stack": "own code", "operator": "operator", "module": "module", "range": "range"}


def sentences(found: Json, page: Page) -> list[str]:
    """The peak, the end, and what is wrong with them; nothing where nothing was recorded."""
    if found["peak_allocated_bytes"] is None and found["segments"] is None:
        return []
    lines = []
    if found["peak_allocated_bytes"] is not None:
        where = "GPU" if found["on_gpu"] else "Host"
        allocated, reserved = format_bytes(found["peak_allocated_bytes"]), found["peak_reserved_bytes"]
        known = "" if reserved is None else f", {format_bytes(reserved)} reserved"
        at = f", at {page.time(found['peak_time_us'])}" if found["peak_time_us"] is not None else ""
        lines.append(f"{where} memory peak: {allocated} allocated{known}{at}.")
    if (held := found["segments"]) is not None:
        text = (
            f"At the end: {format_bytes(held['allocated_bytes'])} allocated, {format_bytes(held['reserved_bytes'])} "
            f"reserved in {format_count(held['count'])} segments"
        )
        if found["fragmentation_percent"] is not None:
            text += (
                f"; of {format_bytes(held['free_bytes'])} free the largest block is "
                f"{format_bytes(held['largest_free_bytes'])} (fragmentation "
                f"{format_percent(found['fragmentation_percent'])}), {format_bytes(held['inactive_split_bytes'])} is "
                "in segments also in use"
            )
        lines.append(f"{text}.")
    for event in found["oom"]:
        at = f" at {page.time(event['at_us'])}" if event["at_us"] is not None else ""
        lines.append(
            f"Out of memory{at}: {format_bytes(event['requested_bytes'])} asked for, "
            f"{format_bytes(event['device_free_bytes'])} free on the GPU, {format_bytes(event['allocated_bytes'])} "
            f"allocated, {format_bytes(event['reserved_bytes'])} reserved"
            + (f"; {event['own']}." if event["own"] else ".")
        )
    return lines


def tables(found: Json, limit: int | None) -> Iterator[tuple[str, str, list[Column], list[list[str]], int]]:
    """(heading, base, columns, cells, rows in all) of each table."""
    for by, title in TITLES.items():
        mine = [row for row in found["holders"] if row["by"] == by]
        if not mine:
            continue
        by_stack = by == "stack"
        columns = [
            Column("bytes"), Column("share"), Column("allocations"), Column(title, right=False, share=3, keep_end=True),
            *([Column("library", right=False, share=2, keep_end=True)] if by_stack else []),
        ]  # fmt: skip
        cells = [
            [
                format_bytes(row["bytes"]),
                format_percent(row["percent"]),
                format_count(row["allocations"]),
                row["name"],
                *([row["library"] or UNKNOWN] if by_stack else []),
            ]
            for row in mine[:limit]
        ]
        yield f"Held at the peak, by {by}", "share of the peak", columns, cells, len(mine)
    first = next((row["by"] for row in found["long_lived"]), None)
    longer = [row for row in found["long_lived"] if row["by"] == first]
    if longer:
        stepped = longer[0]["steps"] is not None
        columns = [
            Column("bytes"), Column("kept"), Column("allocations"), *([Column("steps")] if stepped else []),
            Column(TITLES[str(first)], right=False, share=1, keep_end=True),
        ]  # fmt: skip
        cells = [
            [
                format_bytes(row["bytes"]),
                format_bytes(row["kept_bytes"]),
                format_count(row["allocations"]),
                *([format_count(row["steps"])] if stepped else []),
                row["name"],
            ]
            for row in longer[:limit]
        ]
        base = "made in a step, there after it" if stepped else "made in the recording, never given back"
        yield "Long-lived memory", base, columns, cells, len(longer)
    growing = [row for row in found["growth"] if row["growth_bytes"]]
    if growing:
        columns = [Column("step"), Column("at start"), Column("at end"), Column("growth"), Column("peak")]
        keys = ("allocated_start_bytes", "allocated_end_bytes", "growth_bytes", "peak_bytes")
        cells = [[str(row["index"]), *(format_bytes(row[key]) for key in keys)] for row in found["growth"][:limit]]
        yield "Memory per step", "allocated", columns, cells, len(found["growth"])


def memory_lines(found: Json, page: Page) -> list[str]:
    """The section as plain text."""
    lines = [line for text in sentences(found, page) for line in page.paragraph(text)]
    if page.charts and (chart := indented(memory_chart(found, WIDTH - 2, ascii=page.ascii))):
        lines += ["", *chart]
    for heading, base, columns, cells, whole in tables(found, page.limit):
        lines += ["", page.heading(heading, base, len(cells), whole), *page.table(columns, cells)]
    return lines
