"""Draws a time range as lanes: how busy each cell is, above an axis of times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tracetui.analysis.base.number_format import format_percent
from tracetui.app.charts.cells import ASCII_EIGHTHS, EIGHTHS, Run, ruler, texts
from tracetui.app.charts.drawing import WIDTH, Drawing, decimal
from tracetui.app.charts.scale import round_step, time_label
from tracetui.app.text import fitting

LEAST_WIDTH = 44
LEAST_LETTERS = 8
"""Of a longer name at least so many characters must fit."""
LABEL, SHARE = 18, 8
"""Columns before and after the lanes."""


class GanttLane(NamedTuple):
    """One lane."""

    label: str
    """Has passed `fitting.printable`."""
    busy: Sequence[float]
    """For each of some equal parts, the share of time in which something runs, 0 to 1."""
    style: str = ""
    """The style of its cells, if there are colours."""
    named: Sequence[tuple[str, float, float]] = ()
    """Names of long events, which have passed `fitting.printable`, with their begin and end as shares of the range."""

    @property
    def share(self) -> str:
        """How much of the range something runs."""
        return format_percent(100 * sum(self.busy) / len(self.busy))


def gantt_runs(lanes: Sequence[GanttLane], width: int, lasting: int, *, ascii: bool = False) -> list[list[Run]]:
    """Returns lines of at most `width` columns: one per lane with its share, then the axis; none if there is no room.

    Args:
        lanes: from top to bottom.
        width: columns of the whole chart.
        lasting: ns of the whole range; its start counts as 0.
        ascii: no characters outside ASCII.
    """
    room = width - LABEL - SHARE - 2
    if width < LEAST_WIDTH or not lanes or lasting <= 0:
        return []
    side, nothing = ("|", "_") if ascii else ("│", "·")
    lines = []
    for lane in lanes:
        busy = resampled(lane.busy, room)
        cells = "".join(_cell(share, nothing, ascii=ascii) for share in busy)
        for name, begin, end in lane.named:
            cells = _with_name(cells, name, math.ceil(begin * room - 1e-9), math.floor(end * room + 1e-9), ascii=ascii)
        label = fitting.pad(fitting.fit(lane.label, LABEL - 1, ascii=ascii), LABEL)
        lines.append([Run(label + side, ""), Run(cells, lane.style), Run(f"{side}{lane.share:>{SHARE}}", "")])
    lines.append([Run(" " * LABEL + " " + ruler(0, lasting, room, ascii=ascii).rstrip(), "")])
    return lines


def _with_name(cells: str, name: str, begin: int, end: int, *, ascii: bool) -> str:
    """Writes an event's name into the cells that it fills, if at least some letters of it fit."""
    room = end - begin - 2
    # a name of wide characters would move the cells behind it
    if room < min(len(name), LEAST_LETTERS) or fitting.cell_width(name) != len(name):
        return cells
    text = ("|" if ascii else "▏") + fitting.fit(name, room, ascii=ascii) + " "
    return cells[:begin] + text + cells[begin + len(text) :]


def gantt(lanes: Sequence[GanttLane], width: int, lasting: int, *, ascii: bool = False) -> list[str]:
    """Returns the same as rows of text."""
    return texts(gantt_runs(lanes, width, lasting, ascii=ascii))


def resampled(busy: Sequence[float], cells: int) -> list[float]:
    """Returns the shares for another number of equal parts, with the same total time."""
    size = len(busy) / cells
    shares = []
    for cell in range(cells):
        begin, end = cell * size, (cell + 1) * size
        total, at = 0.0, begin
        while at < end - 1e-9:
            part = min(int(at + 1e-9), len(busy) - 1)
            until = min(part + 1.0, end)
            total += busy[part] * (until - at)
            at = until
        shares.append(total / size)
    return shares


def _cell(share: float, nothing: str, *, ascii: bool) -> str:
    if share <= 0:
        return nothing
    return (ASCII_EIGHTHS if ascii else EIGHTHS)[min(math.ceil(share * 8 - 1e-9), 8) or 1]


TITLES, SHARES, ROW, BAR = 140, 64, 26, 20
LEAST_NAME = 60
"""A narrower bar has no name."""
LETTERS = 96
"""Columns for the axis' times, as `round_step` counts them."""


def lanes_svg(lanes: Sequence[GanttLane], lasting: int, about: str, *, ascii: bool = False) -> str:
    """One row for each lane; a bar's height is the share of its time in which something runs."""
    drawing = Drawing(ROW * len(lanes) + 22, about)
    room = WIDTH - TITLES - SHARES
    foot = ROW * len(lanes)
    step = round_step(lasting, LETTERS)
    for time in range(0, lasting, step):
        x = TITLES + room * time / lasting
        drawing.line(x, 0, x, foot + 4, "grid")
        if x < WIDTH - SHARES - 40:
            drawing.text(x + 2, foot + 16, time_label(time, step, ascii=ascii))
    for row, lane in enumerate(lanes):
        y = ROW * row + 3
        drawing.text(TITLES - 8, y + 14, lane.label, anchor="end", room=TITLES - 8)
        drawing.rect(TITLES, y, room, BAR, "floor")
        drawing.shape(_bars(lane.busy, room / len(lane.busy), y), lane.style or "gpu", f"{lane.label}: {lane.share}")
        for name, begin, end in lane.named:
            wide = room * (end - begin)
            if wide >= LEAST_NAME:
                x = TITLES + room * begin
                drawing.rect(x, y, 1, BAR, "grid")
                drawing.text(x + 4, y + 14, name, room=wide - 8)
        drawing.text(WIDTH, y + 14, lane.share, anchor="end")
    return drawing.svg()


def _bars(busy: Sequence[float], wide: float, y: float) -> str:
    """Bars of a lane as one path."""
    way = []
    for at, share in enumerate(busy):
        if share > 0:
            tall = max(min(share, 1.0) * BAR, 1.5)
            x = decimal(TITLES + wide * at)
            way.append(f"M{x} {decimal(y + BAR)}v-{decimal(tall)}h{decimal(wide)}v{decimal(tall)}z")
    return "".join(way) or "M0 0"
