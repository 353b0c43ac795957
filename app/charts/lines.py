"""Lines through points, such as step time against batch, on linear or logarithmic axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tracetui.app.charts.cells import write_if_clear
from tracetui.app.charts.drawing import LETTER, LINE, WIDTH, Drawing, decimal
from tracetui.app.charts.scale import Axis

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
    log = _is_log(lines, log)
    shown = [line.points for line in lines]
    every = [point for points in shown for point in points]
    if not every or width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return []
    xs, ys = _axes(every, log=log)
    legend = _legend(lines, width) if len(lines) > 1 else []
    rows = height - 3 - len(legend)
    if rows < 2:
        legend, rows = [], height - 3
    ticks = {row: y_label(ys.value(1 - row / (rows - 1))) for row in {0, rows // 2, rows - 1}}
    margin = max(map(len, ticks.values())) + 1
    room = width - margin - 2
    cells = [[" "] * room for _ in range(rows)]
    for points in shown:
        places = [(xs.cell(x, room), rows - 1 - ys.cell(y, rows)) for x, y in points]
        for begin, end in pairwise(places):
            _connect(cells, begin, end, "." if ascii else "·")
    bar = ":" if ascii else "┊"
    tall = False
    for line in lines:
        for x, *ends in line.spread:
            low, high = (ys.cell(min(max(end, ys.low), ys.high), rows) for end in ends)
            column = xs.cell(x, room)
            for row in range(low, high + 1) if high > low else ():
                cells[rows - 1 - row][column] = bar
                tall = True
    for number, points in reversed(list(enumerate(shown))):
        for x, y in points:
            cells[rows - 1 - ys.cell(y, rows)][xs.cell(x, room)] = MARKS[number % len(MARKS)]
    side, corner, floor = ("|", "+", "-") if ascii else ("│", "└", "─")
    deviation = f", {bar} {'+-' if ascii else '±'} standard deviation" if tall else ""
    drawn = [f"{y_title}{', log-log' if log else ''}{deviation}"[:width]]
    drawn += [f"{ticks.get(row, ''):>{margin}} {side}{''.join(cells[row]).rstrip()}" for row in range(rows)]
    drawn.append(f"{'':>{margin}} {corner}{floor * room}")
    below = _x_labels(sorted({x for x, _ in every}), xs, room, x_title, x_label)
    return [row[:width] for row in (*drawn, " " * (margin + 2) + below, *legend)]


def _is_log(lines: Sequence[Line], log: bool) -> bool:
    """Whether both axes are logarithmic: if that is asked for, and all values are above 0."""
    return log and all(x > 0 and y > 0 for line in lines for x, y in line.points)


def _axes(points: Sequence[tuple[float, float]], *, log: bool) -> tuple[Axis, Axis]:
    return Axis.of([x for x, _ in points], log=log), Axis.of([y for _, y in points], log=log)


def _connect(cells: list[list[str]], begin: tuple[int, int], end: tuple[int, int], dot: str) -> None:
    """Draws a line between two points in cells that are still empty."""
    (x0, y0), (x1, y1) = begin, end
    count = max(abs(x1 - x0), abs(y1 - y0))
    for step in range(1, count):
        x, y = x0 + round((x1 - x0) * step / count), y0 + round((y1 - y0) * step / count)
        if cells[y][x] == " ":
            cells[y][x] = dot


def _x_labels(values: Sequence[float], axis: Axis, room: int, title: str, label: Callable[[float], str]) -> str:
    """Writes values below their positions as far as there is room, and the axis title."""
    line = [" "] * room
    end = room - len(title) - 1
    line[max(end + 1, 0) :] = title[-room:]
    last = max(values)
    for value in (last, *values):
        text = label(value)
        at = min(max(axis.cell(value, room) - len(text) // 2, 0), max(end - len(text), 0))
        write_if_clear(line, at, text, end=end)
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
    log = _is_log(lines, log)
    xs, ys = _axes(every, log=log)
    legend = _legend_places(lines) if len(lines) > 1 else []
    top = 26 + LINE * (max((row for _, row, _ in legend), default=-1) + 1)
    foot = top + TALL
    drawing = Drawing(foot + 40, about)
    drawing.text(LEFT, 12, f"{y_title}{', log-log' if log else ''}")
    for number, row, x in legend:
        _mark_shape(drawing, x + 5, 26 + LINE * row - 4, number)
        drawing.text(x + 16, 26 + LINE * row, lines[number].name, room=WIDTH - x - 16)

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + 12 + (ROOM - 24) * xs.share(x), foot - 8 - (TALL - 16) * ys.share(y)

    for part in (0, 0.25, 0.5, 0.75, 1):
        drawing.level(foot - 8 - (TALL - 16) * part, y_label(ys.value(part)), LEFT, LEFT + ROOM)
    drawing.line(LEFT, foot, LEFT + ROOM, foot, "axis")
    free = 0.0
    for x in sorted({x for x, _ in every}):
        label, at = x_label(x), place(x, every[0][1])[0]
        drawing.line(at, foot, at, foot + 4, "axis")
        if at - LETTER * len(label) / 2 > free:
            drawing.text(at, foot + 17, label, anchor="middle")
            free = at + LETTER * (len(label) / 2 + 1)
    drawing.text(LEFT + ROOM, foot + 33, x_title, anchor="end")
    for number, line in enumerate(lines):
        for x, low, high in line.spread:
            ends = [place(x, min(max(end, ys.low), ys.high)) for end in (low, high)]
            drawing.line(*ends[0], *ends[1], f"s{number % STYLES} spread")
        drawing.path([place(*point) for point in line.points], f"s{number % STYLES} line")
        for x, y in line.points:
            _mark_shape(drawing, *place(x, y), number, f"{line.name}: {y_label(y)} at {x_title} {x_label(x)}")
    return drawing.svg()


def _legend_places(lines: Sequence[Line]) -> list[tuple[int, int, float]]:
    """(line, row, x) of each entry."""
    entries: list[tuple[int, int, float]] = []
    row, x = 0, float(LEFT)
    for number, line in enumerate(lines):
        wide = 16 + LETTER * (len(line.name) + 3)
        if x > LEFT and x + wide > WIDTH:
            row, x = row + 1, float(LEFT)
        entries.append((number, row, x))
        x += wide
    return entries


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
