"""An area with a line above it, such as used memory below reserved memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracetui.app.charts.cells import EIGHTHS
from tracetui.app.charts.drawing import WIDTH, Drawing, swatches

GAP = 1


def area_chart(
    filled: Sequence[float | None],
    line: Sequence[float | None],
    width: int,
    height: int,
    *,
    label: Callable[[float], str],
    times: tuple[str, str] = ("", ""),
    ascii: bool = False,
) -> list[str]:
    """Returns `height` rows of text of at most `width`: the plot with its axis on the left, then times below.

    Args:
        filled: a value per column, drawn from the bottom up; None if unknown.
        line: a value per column, drawn as a line; may be empty.
        width: columns of the whole chart. The plot takes the columns beside the axis; `plot_width` tells how many.
        height: rows of the whole chart, including the one for the times.
        label: formats a value for the axis.
        times: the labels below the left and the right end.
        ascii: no characters outside ASCII.
    """
    top = _top(filled, line)
    rows = height - 1
    if rows < 1 or width < 1:
        return []
    titles = _titles(top, rows, label)
    margin = max(map(len, titles)) + GAP
    room = max(width - margin - 1, 1)
    values, lines = _spread(filled, room), _spread(line, room)
    axis = "|" if ascii else "│"
    drawn = []
    for row in range(rows):
        floor = rows - 1 - row
        cells = "".join(_cell(values[at], lines[at], floor, rows, top, ascii=ascii) for at in range(room))
        drawn.append(f"{titles[row]:>{margin - GAP}}{' ' * GAP}{axis}{cells.rstrip()}"[:width])
    left, right = times
    space = room - len(left) - len(right)
    below = f"{left}{' ' * space}{right}" if space > 0 else left[:room]
    return [*drawn, (" " * (margin + 1) + below)[:width]]


def plot_width(filled: Sequence[float | None], line: Sequence[float | None], width: int, height: int, *,
               label: Callable[[float], str]) -> int:  # fmt: skip
    """Returns how many columns `area_chart` has for values of this size."""
    top = _top(filled, line)
    return max(width - max(map(len, _titles(top, max(height - 1, 1), label))) - GAP - 1, 1)


def _top(filled: Sequence[float | None], line: Sequence[float | None]) -> float:
    return max((value for value in (*filled, *line) if value is not None), default=0)


def _titles(top: float, rows: int, label: Callable[[float], str]) -> list[str]:
    """Labels the first row with the top value, the middle with half of it if there is room, and the last with 0."""
    titles = [""] * rows
    titles[0] = label(top)
    if rows >= 5:
        titles[rows // 2] = label(top * (rows - rows // 2) / rows)
    if rows >= 2:
        titles[-1] = label(0)
    return titles


def _spread(values: Sequence[float | None], room: int) -> list[float | None]:
    """Resamples to exactly `room` values: the maximum of several values, or each value repeated."""
    count = len(values)
    if not count:
        return [None] * room
    spread: list[float | None] = []
    for column in range(room):
        first = column * count // room
        last = max((column + 1) * count // room, first + 1)
        spread.append(max((value for value in values[first:last] if value is not None), default=None))
    return spread


def _cell(value: float | None, line: float | None, floor: int, rows: int, top: float, *, ascii: bool) -> str:
    """Returns one character: the area's if it reaches into this row, else the line's if it passes here."""
    eighths = round(value / top * rows * 8) if value is not None and top else 0
    if value and not eighths:
        eighths = 1
    part = min(max(eighths - floor * 8, 0), 8)
    if part:
        if ascii:
            return "#" if part > 4 or floor == 0 else "."
        return EIGHTHS[part]
    if line is not None and top and floor == min(int(line / top * rows * (1 - 1e-9)), rows - 1):
        return "-" if ascii else "─"
    return " "


LEFT, TOP, TALL = 84, 26, 180
ROOM = WIDTH - LEFT - 8


def curve_svg(
    filled: Sequence[float | None],
    line: Sequence[float | None],
    about: str,
    *,
    label: Callable[[float], str],
    times: tuple[str, str],
    names: tuple[str, str],
) -> str:
    """Draws the same as SVG, of equal spans of time.

    Args:
        filled: drawn as an area; None where unknown.
        line: drawn as a line; may be empty.
        about: what the picture shows.
        label: writes a value for the axis.
        times: below the left and the right end.
        names: of the area and of the line.
    """
    drawing = Drawing(TOP + TALL + 24, about)
    top = _top(filled, line) or 1.0
    foot = TOP + TALL
    swatches(drawing, LEFT, 12, [("gpu", names[0]), *([("reserved", names[1])] if line else [])])
    for part in (0, 0.25, 0.5, 0.75, 1):
        drawing.level(foot - TALL * part, label(top * part), LEFT, WIDTH - 8)
    for stretch in _stretches(filled):
        points = _staircase(stretch, filled, top)
        drawing.path([(points[0][0], foot), *points, (points[-1][0], foot)], "gpu", closed=True)
    for stretch in _stretches(line):
        drawing.path(_staircase(stretch, line, top), "reserved-line")
    drawing.line(LEFT, foot, WIDTH - 8, foot, "axis")
    drawing.text(LEFT, foot + 17, times[0])
    drawing.text(WIDTH - 8, foot + 17, times[1], anchor="end")
    return drawing.svg()


def _stretches(values: Sequence[float | None]) -> list[list[int]]:
    """Positions of values that are known, a list for each stretch without a gap."""
    stretches: list[list[int]] = []
    for at, value in enumerate(values):
        if value is None:
            continue
        if stretches and stretches[-1][-1] == at - 1:
            stretches[-1].append(at)
        else:
            stretches.append([at])
    return stretches


def _staircase(stretch: Sequence[int], values: Sequence[float | None], top: float) -> list[tuple[float, float]]:
    """The corners of a line that holds each level to the end of its span."""
    wide = ROOM / len(values)
    points: list[tuple[float, float]] = []
    for at in stretch:
        y = TOP + TALL - TALL * (values[at] or 0.0) / top
        if points and abs(points[-1][1] - y) < 0.05:
            points[-1] = (LEFT + wide * (at + 1), y)
            continue
        points += [(LEFT + wide * at, y), (LEFT + wide * (at + 1), y)]
    return points
