"""The roofline in the Counters tab: a chart above the table of kernels that its letters are keys of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.report.roofline import roofs
from tracetui.app.reports.roofline_text import chart_lines, roofs_text
from tracetui.app.tables.columns import Column
from tracetui.app.text.formats import format_percent, printable
from tracetui.app.text.names import tell_apart
from tracetui.app.views.common.page import Page

if TYPE_CHECKING:
    from tracetui.analysis.roofline.roofline import Roofline

ROOFLINE_PAGE = "roofline"
LEAST_ROWS, MOST_ROWS = 20, 30
"""Lines of a tab below which the table needs all of them; the most that a chart takes."""
TABLE_ROWS = 16
"""What is left to the table where there is room."""
ROOFLINE = (
    Column("letter", "Key", width=3, priority=0, about="letter in the chart; none where it has no place there"),
    Column("name", "Kernel", width=18, priority=0, flex=True, short="short_name", about="kernel function"),
    Column(
        "attained_percent",
        "Roof%",
        "percent",
        width=5,
        priority=0,
        main=True,
        about="time that the work takes at the roof above it, of the time taken",
    ),
    Column(
        "bound", "Bound", width=8, priority=1, about="as ncu tells; from shapes the roof from 60 % on, else neither"
    ),
    Column("roof", "Roof", width=7, priority=3, about="which roof is above it: compute or memory"),
    Column("gflops", "GFLOP/s", "number", width=7, priority=1, about="achieved, 10^9 FLOP per second"),
    Column("gbytes", "GB/s", "number", width=6, priority=1, about="DRAM traffic, 10^9 byte per second"),
    Column("intensity", "FLOP/B", "number", width=6, priority=1, about="arithmetic intensity: FLOP per byte of DRAM"),
    Column("total_ns", "Total", "time", priority=0, main=True, about="time of these launches"),
    Column("launches", "N", "count", width=4, priority=3, about="launches, or calls of the operator"),
    Column("gap_ns", "Gap", "time", priority=3, about="what the roof would save in all"),
    Column("origin", "From", width=8, priority=2, about="counters: what was done; shapes: what must be done at least"),
    Column("precision", "Precision", width=10, priority=4, about="that most of its FLOPs are in"),
    Column("compute_roof_percent", "FLOPs%", "percent", width=6, priority=5, about="of the arithmetic's peak"),
    Column("memory_roof_percent", "Bytes%", "percent", width=6, priority=5, about="of the memory's peak"),
    Column("mflop", "MFLOP", "number", width=7, priority=6, about="10^6 FLOP per launch, the mean"),
    Column("bytes", "Bytes", "bytes", width=9, priority=6, about="per launch, the mean"),
    Column("unknown_text", "Not known", width=12, priority=7, flex=True, about="what is not known, or was assumed"),
)


def roofline_page(found: Roofline, *, with_counters: bool) -> Page:
    """The table of kernels whose work is known."""
    covered = found.covered_percent
    notes = [f"{format_percent(covered)} of kernel time"] if covered is not None else []
    notes += [] if with_counters or not found.points.height else ["by operators' shapes, without ncu"]
    frame = found.points.with_columns(
        unknown_text=pl.col("unknown").list.join("; "),
        gflops=pl.col("achieved_flops") / 1e9,
        gbytes=pl.col("achieved_bytes") / 1e9,
        mflop=pl.col("flops") / 1e6,
    )
    return Page(
        id=ROOFLINE_PAGE,
        title="Roofline",
        frame=tell_apart(frame) if frame.height else frame,
        columns=ROOFLINE,
        noun="kernels",
        note=" · ".join(notes),
        empty="No kernel's work is known: the counters hold no FLOPs, or operators were recorded without shapes.",
        sort=("total_ns", True),
        key="name",
    )


def roofline_lines(found: Roofline, width: int, height: int, *, ascii: bool) -> list[str]:
    """The chart and its roofs in words, for a tab of this size; none where the table needs the room."""
    if height < LEAST_ROWS:
        return []
    rows, peaks = found.points.to_dicts(), roofs(found)
    room = min(max(height - TABLE_ROWS, height // 2), MOST_ROWS)
    said = [f" {printable(text, ascii=ascii)}" for text in roofs_text(rows, peaks)]
    return [*chart_lines(rows, peaks, width - 2, room, ascii=ascii), *said]
