"""The roofline in the Counters tab: a chart above the table of kernels that its letters are keys of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import to_builtins

from tracetui.analysis.base.number_format import format_percent
from tracetui.analysis.report.roofline import roofs
from tracetui.analysis.tables.nsight.counters import ROOFLINE
from tracetui.app.reports.content.pictures import BARS, letters
from tracetui.app.reports.content.roofline import chart_lines, chart_svg, roofs_text
from tracetui.app.text.fitting import printable
from tracetui.app.text.names import tell_apart
from tracetui.app.views.common.page import Page

if TYPE_CHECKING:
    from tracetui.analysis.roofline.roofline import Roofline

LEAST_ROWS, MOST_ROWS = 20, 30
"""Lines of a tab below which the table needs all of them; the most that a chart takes."""
TABLE_ROWS = 16
"""What is left to the table where there is room."""


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
    return Page.of(
        ROOFLINE,
        tell_apart(frame) if frame.height else frame,
        note=" · ".join(notes),
        empty="No kernel's work is known: the counters hold no FLOPs, or operators were recorded without shapes.",
    )


def roofline_svg(found: Roofline, *, ascii: bool) -> str | None:
    """The chart of the kernels that `roofline_notes` names, as SVG; null where no roof is known."""
    rows, peaks = _named(found).to_dicts(), to_builtins(roofs(found))
    if not chart_lines(rows, peaks, 80, 10, ascii=ascii):
        return None
    return chart_svg(rows, peaks, ascii=ascii)


def roofline_notes(found: Roofline, *, ascii: bool) -> tuple[str, ...]:
    """What the letters of the chart stand for."""
    rows = tell_apart(_named(found)).select("letter", "short_name", "name")
    return letters({letter: str(short or name) for letter, short, name in rows.iter_rows()}, ascii=ascii)


def _named(found: Roofline) -> pl.DataFrame:
    return found.points.filter(pl.col("letter").fill_null("") != "").head(BARS)


def roofline_lines(found: Roofline, width: int, height: int, *, ascii: bool) -> list[str]:
    """The chart and its roofs in words, for a tab of this size; none where the table needs the room."""
    if height < LEAST_ROWS:
        return []
    rows, peaks = found.points.to_dicts(), to_builtins(roofs(found))
    room = min(max(height - TABLE_ROWS, height // 2), MOST_ROWS)
    said = [f" {printable(text, ascii=ascii)}" for text in roofs_text(rows, peaks)]
    return [*chart_lines(rows, peaks, width - 2, room, ascii=ascii), *said]
