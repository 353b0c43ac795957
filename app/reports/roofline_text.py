"""The roofline for people: the chart of a table's kernels, and what its roofs are from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.quantities import UNKNOWN, format_count, format_percent
from tracetui.analysis.roofline.words import AT_ROOF_PERCENT, PRECISIONS
from tracetui.app.charts.roofline import Ceiling, Point, rate, roofline_chart, si
from tracetui.app.reports.counter_blocks import Block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.text_table import Page

CHART_ROWS = 18
"""Of a chart in a report."""
NOTES_SHOWN = 4
LEAST_SHARE = 0.01
"""Of the FLOPs: a roof that fewer go by is not drawn."""


def chart_lines(rows: Sequence[Json], roofs: Json, width: int, height: int, *, ascii: bool = False) -> list[str]:
    """The chart of the kernels that have a letter, under the roofs that they go by."""
    if roofs["bandwidth"] is None or not roofs["compute"]:
        return []
    points = [Point(row["letter"], row["intensity"], row["achieved_flops"]) for row in rows if row["letter"]]
    used = main_precisions(rows)
    chosen = [roof for roof in roofs["compute"] if roof["precision"] in used] or [
        roof for roof in roofs["compute"] if roof["precision"] == "fp32"
    ]
    ceilings = [Ceiling(PRECISIONS[roof["precision"]], roof["flops"]) for roof in chosen]
    return roofline_chart(points, ceilings, roofs["bandwidth"]["bytes"], width, height, ascii=ascii)


def main_precisions(rows: Sequence[Json]) -> set[str]:
    """The precisions that more than a trace of the FLOPs is in: a compiler moves constants with arithmetic of fp16."""
    flops: dict[str, float] = {}
    for row in rows:
        if row["precision"] and row["flops"]:
            flops[row["precision"]] = flops.get(row["precision"], 0.0) + row["flops"] * row["launches"]
    return {name for name, total in flops.items() if total >= LEAST_SHARE * sum(flops.values())}


def roofs_text(rows: Sequence[Json], roofs: Json) -> list[str]:
    """A sentence on the roofs in use, their ridges and sources; then what is not known."""
    used = main_precisions(rows)
    parts = [
        f"{PRECISIONS[roof['precision']]} {rate(roof['flops'], 'FLOP/s')} ({roof['source']}"
        + (f", ridge {roof['ridge']:.3g} FLOP/byte)" if roof["ridge"] else ")")
        for roof in roofs["compute"]
        if roof["precision"] in used
    ]
    if roofs["bandwidth"] is not None:
        parts.append(f"memory {rate(roofs['bandwidth']['bytes'], 'B/s')} ({roofs['bandwidth']['source']})")
    lines = [f"Roofs: {', '.join(parts)}."] if parts else []
    return lines + [f"Not known: {text}." for text in roofs["unknown"]]


def notes_text(rows: Sequence[Json]) -> list[str]:
    """What is not known of the kernels, or was assumed, the most frequent first."""
    counts: dict[str, int] = {}
    for row in rows:
        for text in row["unknown"] or []:
            counts[text] = counts.get(text, 0) + 1
    most = sorted(counts.items(), key=lambda item: -item[1])[:NOTES_SHOWN]
    return [f"{text}: {format_count(count)} of {format_count(len(rows))} rows" for text, count in most]


def bound_text(row: Json) -> str:
    """What keeps the kernel from running faster; in brackets the roof above it, where it stays far below both."""
    if row["bound"] == "neither":
        return f"({row['roof']})"
    return str(row["bound"] or row["roof"] or UNKNOWN)


def block(trace: Json, page: Page) -> Block:
    """The table with its roofs in words."""
    everything, roofs = trace["roofline"], trace["roofline_peaks"]
    rows = everything[: page.limit]
    covered = roofs["covered_percent"]
    both = len({row["origin"] for row in everything}) > 1
    origin = "" if both else f"from {everything[0]['origin']}" if everything else ""
    base = ", ".join(filter(None, (origin, f"{format_percent(covered)} of kernel time" if covered is not None else "")))
    after = [*roofs_text(rows, roofs), *notes_text(everything)]
    if any(row["bound"] == "neither" for row in rows):
        after.append(f"Bound in brackets: the roof above a kernel that attains less than {AT_ROOF_PERCENT:g} % of it.")
    return Block(
        "Roofline",
        base,
        ("", "of roof", "FLOP/s", "byte/s", "FLOP/B", "time", "bound", *(("from",) if both else ()), "kernel"),
        [
            [
                row["letter"] or "",
                format_percent(row["attained_percent"]),
                _rate(row["achieved_flops"]),
                _rate(row["achieved_bytes"]),
                f"{row['intensity']:.3g}" if row["intensity"] is not None else UNKNOWN,
                page.time(row["total_us"]),
                bound_text(row),
                *((row["origin"],) if both else ()),
                row["short_name"] or row["name"],
            ]
            for row in rows
        ],
        text=3 if both else 2,
        whole=len(everything),
        after=tuple(after),
    )


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else si(value) if value else "0"
