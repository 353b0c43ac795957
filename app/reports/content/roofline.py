"""The roofline section: the chart of a table's kernels, and the sources of its roofs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, convert

from tracetui.analysis.base.number_format import format_count, format_percent
from tracetui.analysis.roofline.words import AT_ROOF_PERCENT, PRECISIONS
from tracetui.analysis.tables.nsight.counters import ROOFLINE
from tracetui.app.charts.roofline import Ceiling, Point, rate, roofline_chart, roofline_svg
from tracetui.app.reports.parts import Block, Chart, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.report.model import Roofs, Row, Trace
    from tracetui.app.reports.layout import Layout

CHART_ROWS = 18
"""Of a chart in a report."""
NOTES_SHOWN = 4
LEAST_SHARE = 0.01
"""A roof is not drawn if a smaller share of the FLOPs uses it."""


class Kernel(Struct, frozen=True):
    """A row of the section, as far as its chart and sentences need it."""

    letter: str | None
    name: str
    short_name: str | None
    origin: str
    launches: int
    flops: float | None
    precision: str | None
    intensity: float | None
    achieved_flops: float | None
    achieved_bytes: float | None
    bound: str | None
    roof: str | None
    unknown: list[str] | None


def chart_lines(rows: Sequence[Row], roofs: Roofs, width: int, height: int, *, ascii: bool = False) -> list[str]:
    """The chart of the kernels that have a letter, under the roofs that they go by."""
    if roofs.bandwidth is None or not roofs.compute:
        return []
    points, ceilings = _drawn(rows, roofs)
    return roofline_chart(points, ceilings, roofs.bandwidth.bytes, width, height, ascii=ascii)


def chart_svg(rows: Sequence[Row], roofs: Roofs, *, ascii: bool = False) -> str:
    """The same as SVG; to be asked for only where there are `chart_lines`."""
    points, ceilings = _drawn(rows, roofs)
    assert roofs.bandwidth is not None
    return roofline_svg(points, ceilings, roofs.bandwidth.bytes, "Roofline of the kernels below", ascii=ascii)


def _drawn(rows: Sequence[Row], roofs: Roofs) -> tuple[list[Point], list[Ceiling]]:
    """The kernels that have a letter, and the roofs that they go by."""
    kernels = convert(rows, list[Kernel])
    points = [Point(row.letter, row.intensity or 0.0, row.achieved_flops or 0.0) for row in kernels if row.letter]
    used = main_precisions(kernels)
    chosen = [roof for roof in roofs.compute if roof.precision in used] or [
        roof for roof in roofs.compute if roof.precision == "fp32"
    ]
    return points, [Ceiling(PRECISIONS[roof.precision], roof.flops) for roof in chosen]


def main_precisions(rows: Sequence[Kernel]) -> set[str]:
    """The precisions that more than a trace of the FLOPs is in: a compiler moves constants with arithmetic of fp16."""
    flops: dict[str, float] = {}
    for row in rows:
        if row.precision and row.flops:
            flops[row.precision] = flops.get(row.precision, 0.0) + row.flops * row.launches
    return {name for name, total in flops.items() if total >= LEAST_SHARE * sum(flops.values())}


def roofs_text(rows: Sequence[Row], roofs: Roofs) -> list[str]:
    """A sentence on the roofs in use, their ridges and sources; then what is not known."""
    used = main_precisions(convert(rows, list[Kernel]))
    parts = [
        f"{PRECISIONS[roof.precision]} {rate(roof.flops, 'FLOP/s')} ({roof.source}"
        + (f", ridge {roof.ridge:.3g} FLOP/byte)" if roof.ridge else ")")
        for roof in roofs.compute
        if roof.precision in used
    ]
    if roofs.bandwidth is not None:
        parts.append(f"memory {rate(roofs.bandwidth.bytes, 'B/s')} ({roofs.bandwidth.source})")
    lines = [f"Roofs: {', '.join(parts)}."] if parts else []
    return lines + [f"Not known: {text}." for text in roofs.unknown]


def notes_text(rows: Sequence[Kernel]) -> list[str]:
    """What is not known of the kernels, or was assumed, the most frequent first."""
    said = (set("; ".join(row.unknown or ()).split("; ")) - {""} for row in rows)
    most = Counter(text for texts in said for text in sorted(texts)).most_common(NOTES_SHOWN)
    return [f"{text}: {format_count(count)} of {format_count(len(rows))} rows" for text, count in most]


def roofline_block(trace: Trace, layout: Layout, width: int) -> Block:
    """The chart and the table, with its roofs in words."""
    everything, roofs = trace.roofline or [], trace.roofline_peaks
    assert roofs
    covered = roofs.covered_percent
    kernels = convert(everything, list[Kernel])
    both = len({row.origin for row in kernels}) > 1
    origin = "" if both else f"from {kernels[0].origin}" if kernels else ""
    base = ", ".join(filter(None, (origin, f"{format_percent(covered)} of kernel time" if covered is not None else "")))
    shown = everything[: layout.limit]
    after = [*roofs_text(shown, roofs), *notes_text(kernels)]
    if any(row.bound == "neither" for row in kernels[: layout.limit]):
        after.append(f"Bound by neither: it attains less than {AT_ROOF_PERCENT:g} % of the roof above it.")
    rows = [
        {
            **row,
            "gflops": None if kernel.achieved_flops is None else kernel.achieved_flops / 1e9,
            "gbytes": None if kernel.achieved_bytes is None else kernel.achieved_bytes / 1e9,
        }
        for row, kernel in zip(everything, kernels, strict=True)
    ]
    fields = ROOFLINE.chosen(name for name in ROOFLINE.reports if both or name != "origin")
    picture = chart_lines(shown, roofs, width, CHART_ROWS, ascii=layout.ascii)
    return listed(
        ROOFLINE, rows, layout, fields=fields, base=base, after=tuple(after),
        chart=Chart("", tuple(picture), lambda: chart_svg(shown, roofs, ascii=layout.ascii)), chart_first=True,
    )  # fmt: skip
