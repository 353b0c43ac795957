"""A roofline: FLOP/s over FLOP per byte, both logarithmic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tracetui.app.charts.roofline import decades, plain, rate, si, spans
from tracetui.app.charts.svg.drawing import LETTER, WIDTH, Drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.app.charts.roofline import Ceiling, Point

LEFT, TOP, TALL, RADIUS = 52, 24, 300, 8
ROOM = WIDTH - LEFT - 8
_BESIDE = (
    (0, 0),
    (1, 0),
    (-1, 0),
    (0, -1),
    (0, 1),
    (1, -1),
    (-1, -1),
    (1, 1),
    (-1, 1),
    (2, 0),
    (-2, 0),
    (0, -2),
    (0, 2),
)


def roofline_svg(points: Sequence[Point], ceilings: Sequence[Ceiling], bandwidth: float, about: str, *,
                 ascii: bool = False) -> str:  # fmt: skip
    """The roofs as lines, kernels as their letters."""
    shown = [point for point in points if point.intensity > 0 and point.flops > 0]
    xs, ys = spans(shown, ceilings, bandwidth)
    drawing = Drawing(TOP + TALL + 24, about)
    foot = TOP + TALL

    def across(intensity: float) -> float:
        return LEFT + ROOM * _part(intensity, xs)

    def down(flops: float) -> float:
        return foot - TALL * _part(flops, ys)

    drawing.text(LEFT, 12, "FLOP/s up, FLOP/byte right" if ascii else "FLOP/s ↑  FLOP/byte →")
    for power in decades(ys):
        y = down(10.0**power)
        drawing.line(LEFT, y, WIDTH - 8, y, "grid")
        drawing.text(LEFT - 6, y + 4, si(10.0**power), anchor="end")
    for power in decades(xs):
        x = across(10.0**power)
        drawing.line(x, TOP, x, foot, "grid")
        drawing.text(x, foot + 17, plain(10.0**power), anchor="middle")
    drawing.line(LEFT, foot, WIDTH - 8, foot, "axis")
    top = max(ceiling.flops for ceiling in ceilings)
    begin = max(xs[0], ys[0] / bandwidth)
    drawing.path([(across(begin), down(begin * bandwidth)), (across(top / bandwidth), down(top))], "roof")
    # above the slope is no kernel
    at = math.sqrt(begin * min(ceiling.flops for ceiling in ceilings) / bandwidth)
    drawing.text(across(at) - 8, down(at * bandwidth) - 8, f"memory {rate(bandwidth, 'B/s')}", anchor="end")
    for ceiling in ceilings:
        y = down(ceiling.flops)
        drawing.path([(across(ceiling.flops / bandwidth), y), (WIDTH - 8, y)], "roof")
        said = f"{ceiling.label} {rate(ceiling.flops, 'FLOP/s')}"
        drawing.text(WIDTH - 10, y - 5, said, anchor="end", room=WIDTH - 10 - LEFT)
    _points(drawing, [(point, max(across(point.intensity), LEFT), min(down(point.flops), foot)) for point in shown])
    return drawing.svg()


def _part(value: float, span: tuple[float, float]) -> float:
    """How far a value lies along a logarithmic axis, 0 to 1."""
    return min(max(math.log(value / span[0]) / math.log(span[1] / span[0]), 0.0), 1.0)


def _points(drawing: Drawing, points: Sequence[tuple[Point, float, float]]) -> None:
    """Draws letters; one whose place is taken stands beside it, with a line to its place."""
    taken: list[tuple[float, float]] = []
    for point, x, y in points:
        step = 2 * RADIUS + 1
        for right, below in _BESIDE:
            place = (x + right * step, y + below * step)
            inside = LEFT <= place[0] <= WIDTH - RADIUS and TOP <= place[1] <= TOP + TALL
            if inside and all(math.dist(place, other) >= step - 1 for other in taken):
                break
        else:
            place = (x, y)
        taken.append(place)
        if place != (x, y):
            drawing.line(x, y, *place, "axis")
        said = f"{point.letter}: {rate(point.flops, 'FLOP/s')} at {point.intensity:.3g} FLOP/byte"
        drawing.circle(*place, max(RADIUS, LETTER * len(point.letter) / 2 + 3), "point", said)
        drawing.text(place[0], place[1] + 4, point.letter, anchor="middle", style="inside")
