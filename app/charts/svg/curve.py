"""Levels over time: an area, and a line above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.charts.svg.drawing import WIDTH, Drawing, swatches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """The levels of equal spans of time.

    Args:
        filled: drawn as an area; null where unknown.
        line: drawn as a line; may be empty.
        about: what the picture shows.
        label: writes a value for the axis.
        times: below the left and the right end.
        names: of the area and of the line.
    """
    drawing = Drawing(TOP + TALL + 24, about)
    top = max((value for value in (*filled, *line) if value is not None), default=0) or 1.0
    foot = TOP + TALL
    swatches(drawing, LEFT, 12, [("gpu", names[0]), *([("reserved", names[1])] if line else [])])
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = foot - TALL * part
        drawing.line(LEFT, y, WIDTH - 8, y, "grid")
        drawing.text(LEFT - 6, y + 4, label(top * part), anchor="end")
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
    found: list[list[int]] = []
    for at, value in enumerate(values):
        if value is None:
            continue
        if found and found[-1][-1] == at - 1:
            found[-1].append(at)
        else:
            found.append([at])
    return found


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
