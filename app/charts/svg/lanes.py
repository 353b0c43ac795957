"""A stretch of time as lanes: how busy each is, above an axis of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_percent
from tracetui.app.charts.lanes import round_step, time_label
from tracetui.app.charts.svg.drawing import WIDTH, Drawing, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.app.charts.gantt import GanttLane

LABEL, SHARE, ROW, BAR = 140, 64, 26, 20
LEAST_NAME = 60
"""A narrower bar has no name."""
LETTERS = 96
"""Columns for the axis' times, as `round_step` counts them."""


def lanes_svg(lanes: Sequence[GanttLane], lasting: int, about: str, *, ascii: bool = False) -> str:
    """One row for each lane; a bar's height is the share of its time in which something runs."""
    drawing = Drawing(ROW * len(lanes) + 22, about)
    room = WIDTH - LABEL - SHARE
    foot = ROW * len(lanes)
    step = round_step(lasting, LETTERS)
    for time in range(0, lasting, step):
        x = LABEL + room * time / lasting
        drawing.line(x, 0, x, foot + 4, "grid")
        if x < WIDTH - SHARE - 40:
            drawing.text(x + 2, foot + 16, time_label(time, step, ascii=ascii))
    for row, lane in enumerate(lanes):
        y = ROW * row + 3
        share = format_percent(100 * sum(lane.busy) / len(lane.busy))
        drawing.text(LABEL - 8, y + 14, lane.label, anchor="end", room=LABEL - 8)
        drawing.rect(LABEL, y, room, BAR, "floor")
        drawing.shape(_bars(lane.busy, room / len(lane.busy), y), lane.style or "gpu", f"{lane.label}: {share}")
        for name, begin, end in lane.named:
            wide = room * (end - begin)
            if wide >= LEAST_NAME:
                x = LABEL + room * begin
                drawing.rect(x, y, 1, BAR, "grid")
                drawing.text(x + 4, y + 14, name, room=wide - 8)
        drawing.text(WIDTH, y + 14, share, anchor="end")
    return drawing.svg()


def _bars(busy: Sequence[float], wide: float, y: float) -> str:
    """Bars of a lane as one path."""
    way = []
    for at, share in enumerate(busy):
        if share > 0:
            tall = max(min(share, 1.0) * BAR, 1.5)
            x = number(LABEL + wide * at)
            way.append(f"M{x} {number(y + BAR)}v-{number(tall)}h{number(wide)}v{number(tall)}z")
    return "".join(way) or "M0 0"
