"""Draws a line chart, such as step time against batch, on linear or logarithmic axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MARKS = "ox+*#%@&"
"""The marks of the lines' points; the legend gives each mark's line."""
LEAST_WIDTH, LEAST_HEIGHT = 24, 6


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart."""

    name: str
    points: tuple[tuple[float, float], ...]
    """By x."""
    spread: tuple[tuple[float, float, float], ...] = ()
    """x, low and high of points that were measured several times; drawn if taller than a row."""


def line_chart(
    lines: Sequence[Line],
    width: int,
    height: int,
    *,
    x_title: str,
    y_title: str,
    x_label: Callable[[float], str],
    y_label: Callable[[float], str],
    log: bool = True,
    ascii: bool = False,
) -> list[str]:
    """Returns at most `height` rows of text of at most `width`: a title, the plot with both axes, and a legend.

    Args:
        lines: the lines to draw; if there are more lines than `MARKS`, they share marks.
        width: columns of the whole chart.
        height: rows of the whole chart.
        x_title: the text at the right end of the x axis.
        y_title: the text above the y axis.
        x_label: formats a number for the x axis.
        y_label: formats a number for the y axis.
        log: make both axes logarithmic, if all values are above 0.
        ascii: no characters outside ASCII.
    """
    log = log and all(x > 0 and y > 0 for line in lines for x, y in line.points)
    shown = [line.points for line in lines]
    every = [point for points in shown for point in points]
    if not every or width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return []
    scale = math.log if log else float
    xs, ys = _Span.of([x for x, _ in every], scale), _Span.of([y for _, y in every], scale)
    least, most = min(y for _, y in every), max(y for _, y in every)
    legend = _legend(lines, width) if len(lines) > 1 else []
    rows = height - 3 - len(legend)
    if rows < 2:
        legend, rows = [], height - 3
    ticks = {row: y_label(ys.value(1 - row / (rows - 1), log)) for row in {0, rows // 2, rows - 1}}
    margin = max(map(len, ticks.values())) + 1
    room = width - margin - 2
    cells = [[" "] * room for _ in range(rows)]
    for points in shown:
        places = [(xs.place(x, room), rows - 1 - ys.place(y, rows)) for x, y in points]
        for begin, end in pairwise(places):
            _connect(cells, begin, end, "." if ascii else "·")
    bar = ":" if ascii else "┊"
    tall = False
    for line in lines:
        for x, *ends in line.spread:
            low, high = (ys.place(min(max(end, least), most), rows) for end in ends)
            column = xs.place(x, room)
            for row in range(low, high + 1) if high > low else ():
                cells[rows - 1 - row][column] = bar
                tall = True
    for number, points in reversed(list(enumerate(shown))):
        for x, y in points:
            cells[rows - 1 - ys.place(y, rows)][xs.place(x, room)] = MARKS[number % len(MARKS)]
    side, corner, floor = ("|", "+", "-") if ascii else ("│", "└", "─")
    deviation = f", {bar} {'+-' if ascii else '±'} standard deviation" if tall else ""
    drawn = [f"{y_title}{', log-log' if log else ''}{deviation}"[:width]]
    drawn += [f"{ticks.get(row, ''):>{margin}} {side}{''.join(cells[row]).rstrip()}" for row in range(rows)]
    drawn.append(f"{'':>{margin}} {corner}{floor * room}")
    below = _x_labels(sorted({x for x, _ in every}), xs, room, x_title, x_label)
    return [row[:width] for row in (*drawn, " " * (margin + 2) + below, *legend)]


@dataclass(frozen=True, slots=True)
class _Span:
    """The range of an axis, in its scale."""

    low: float
    high: float
    scale: Callable[[float], float]

    @classmethod
    def of(cls, values: Sequence[float], scale: Callable[[float], float]) -> _Span:
        return cls(scale(min(values)), scale(max(values)), scale)

    def place(self, value: float, room: int) -> int:
        """Returns the cell of a value, from 0."""
        if self.high <= self.low:
            return room // 2
        return round((self.scale(value) - self.low) / (self.high - self.low) * (room - 1))

    def value(self, share: float, log: bool) -> float:
        """Returns the value at a fraction of the axis."""
        at = self.low + share * (self.high - self.low)
        return math.exp(at) if log else at


def _connect(cells: list[list[str]], begin: tuple[int, int], end: tuple[int, int], dot: str) -> None:
    """Draws a line between two points in cells that are still empty."""
    (x0, y0), (x1, y1) = begin, end
    count = max(abs(x1 - x0), abs(y1 - y0))
    for step in range(1, count):
        x, y = x0 + round((x1 - x0) * step / count), y0 + round((y1 - y0) * step / count)
        if cells[y][x] == " ":
            cells[y][x] = dot


def _x_labels(values: Sequence[float], span: _Span, room: int, title: str, label: Callable[[float], str]) -> str:
    """Writes values below their positions as far as there is room, and the axis title."""
    line = [" "] * room
    free = 0
    end = room - len(title) - 1
    line[max(end + 1, 0) :] = title[-room:]
    last = max(values)
    for value in (last, *values):
        text = label(value)
        at = min(max(span.place(value, room) - len(text) // 2, 0), max(end - len(text), 0))
        taken = at < free or any(cell != " " for cell in line[max(at - 1, 0) : at + len(text) + 1])
        if at + len(text) <= end and not taken:
            line[at : at + len(text)] = text
    return "".join(line[:room]).rstrip()


def _legend(lines: Sequence[Line], width: int) -> list[str]:
    """Returns marks and names, as many per row as fit; at most one row for every three lines."""
    rows = [""]
    for number, line in enumerate(lines):
        text = f"{MARKS[number % len(MARKS)]} {line.name}"
        if rows[-1] and len(rows[-1]) + 3 + len(text) > width:
            rows.append("")
        rows[-1] += ("   " if rows[-1] else " ") + text
    return [row[:width] for row in rows[:3]]
