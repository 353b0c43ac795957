"""Draws a line chart, such as step time against batch, on linear or logarithmic axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tracetui.app.charts.drawing import LETTER, LINE, WIDTH, Drawing, decimal

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


LEFT, TALL = 84, 240
ROOM = WIDTH - LEFT - 24
STYLES = 6
"""Lines that differ in colour, dashes and mark; more of them begin again."""


def lines_svg(
    lines: Sequence[Line],
    about: str,
    *,
    x_title: str,
    y_title: str,
    x_label: Callable[[float], str],
    y_label: Callable[[float], str],
    log: bool = True,
) -> str:
    """The lines with their points, standard deviations where there are any, and a legend."""
    every = [point for line in lines for point in line.points]
    log = log and all(x > 0 and y > 0 for x, y in every)
    xs, ys = _Axis([x for x, _ in every], log=log), _Axis([y for _, y in every], log=log)
    legend = _legend_places(lines) if len(lines) > 1 else []
    top = 26 + LINE * (max((row for _, row, _ in legend), default=-1) + 1)
    foot = top + TALL
    drawing = Drawing(foot + 40, about)
    drawing.text(LEFT, 12, f"{y_title}{', log-log' if log else ''}")
    for number_of, row, x in legend:
        _mark_shape(drawing, x + 5, 26 + LINE * row - 4, number_of)
        drawing.text(x + 16, 26 + LINE * row, lines[number_of].name, room=WIDTH - x - 16)

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + 12 + (ROOM - 24) * xs.part(x), foot - 8 - (TALL - 16) * ys.part(y)

    for part in (0, 0.25, 0.5, 0.75, 1):
        y = foot - 8 - (TALL - 16) * part
        drawing.line(LEFT, y, LEFT + ROOM, y, "grid")
        drawing.text(LEFT - 6, y + 4, y_label(ys.value(part)), anchor="end")
    drawing.line(LEFT, foot, LEFT + ROOM, foot, "axis")
    free = 0.0
    for x in sorted({x for x, _ in every}):
        said, at = x_label(x), place(x, every[0][1])[0]
        drawing.line(at, foot, at, foot + 4, "axis")
        if at - LETTER * len(said) / 2 > free:
            drawing.text(at, foot + 17, said, anchor="middle")
            free = at + LETTER * (len(said) / 2 + 1)
    drawing.text(LEFT + ROOM, foot + 33, x_title, anchor="end")
    for number_of, line in enumerate(lines):
        for x, low, high in line.spread:
            ends = [place(x, min(max(end, ys.low), ys.high)) for end in (low, high)]
            drawing.line(*ends[0], *ends[1], f"s{number_of % STYLES} spread")
        drawing.path([place(*point) for point in line.points], f"s{number_of % STYLES} line")
        for x, y in line.points:
            _mark_shape(drawing, *place(x, y), number_of, f"{line.name}: {y_label(y)} at {x_title} {x_label(x)}")
    return drawing.svg()


class _Axis:
    """The range of an axis, in its scale."""

    def __init__(self, values: Sequence[float], *, log: bool) -> None:
        self.low, self.high, self.log = min(values), max(values), log

    def part(self, value: float) -> float:
        """How far along the axis a value lies, 0 to 1."""
        if self.high <= self.low:
            return 0.5
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value(self, part: float) -> float:
        """The value at a part of the axis."""
        if self.log:
            return float(self.low * (self.high / self.low) ** part)
        return self.low + part * (self.high - self.low)


def _legend_places(lines: Sequence[Line]) -> list[tuple[int, int, float]]:
    """(line, row, x) of each entry."""
    found: list[tuple[int, int, float]] = []
    row, x = 0, float(LEFT)
    for number_of, line in enumerate(lines):
        wide = 16 + LETTER * (len(line.name) + 3)
        if x > LEFT and x + wide > WIDTH:
            row, x = row + 1, float(LEFT)
        found.append((number_of, row, x))
        x += wide
    return found


def _mark_shape(drawing: Drawing, x: float, y: float, which: int, title: str = "") -> None:
    """A mark of its own form for each line: circle, square, diamond, triangle, and these two upside down or hollow."""
    style, a, b = f"s{which % STYLES} dot", decimal(x), decimal(y)
    way = {
        1: f"M{decimal(x - 4)} {decimal(y - 4)}h8v8h-8z",
        2: f"M{a} {decimal(y - 5.5)}l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        3: f"M{a} {decimal(y - 5)}l5 9h-10z",
        4: f"M{a} {decimal(y + 5)}l5 -9h-10z",
        5: f"M{decimal(x - 5)} {b}h10M{a} {decimal(y - 5)}v10",
    }.get(which % STYLES)
    if way is None:
        drawing.circle(x, y, 4.5, style, title)
    else:
        drawing.shape(way, style, title)
