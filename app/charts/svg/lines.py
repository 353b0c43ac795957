"""Lines through points, such as step time against batch, on linear or logarithmic axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tracetui.app.charts.svg.drawing import LETTER, LINE, WIDTH, Drawing, number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.app.charts.lines import Line

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
    legend = _legend(lines) if len(lines) > 1 else []
    top = 26 + LINE * (max((row for _, row, _ in legend), default=-1) + 1)
    foot = top + TALL
    drawing = Drawing(foot + 40, about)
    drawing.text(LEFT, 12, f"{y_title}{', log-log' if log else ''}")
    for number_of, row, x in legend:
        _mark(drawing, x + 5, 26 + LINE * row - 4, number_of)
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
            _mark(drawing, *place(x, y), number_of, f"{line.name}: {y_label(y)} at {x_title} {x_label(x)}")
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


def _legend(lines: Sequence[Line]) -> list[tuple[int, int, float]]:
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


def _mark(drawing: Drawing, x: float, y: float, which: int, title: str = "") -> None:
    """A mark of its own form for each line: circle, square, diamond, triangle, and these two upside down or hollow."""
    style, a, b = f"s{which % STYLES} dot", number(x), number(y)
    way = {
        1: f"M{number(x - 4)} {number(y - 4)}h8v8h-8z",
        2: f"M{a} {number(y - 5.5)}l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        3: f"M{a} {number(y - 5)}l5 9h-10z",
        4: f"M{a} {number(y + 5)}l5 -9h-10z",
        5: f"M{number(x - 5)} {b}h10M{a} {number(y - 5)}v10",
    }.get(which % STYLES)
    if way is None:
        drawing.circle(x, y, 4.5, style, title)
    else:
        drawing.shape(way, style, title)
