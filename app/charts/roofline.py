"""A roofline: FLOP/s over FLOP per byte, both logarithmic, roofs as lines, kernels as letters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from tracetui.app.charts.cells import write_if_clear
from tracetui.app.charts.drawing import LETTER, WIDTH, Drawing
from tracetui.app.charts.scale import Axis

UNITS, UNITS_ASCII = "FLOP/s ↑  FLOP/byte →", "FLOP/s up, FLOP/byte right"
"""What the axes are in."""
SEVERAL = "*"
"""The sign for kernels that overlap and do not fit beside each other."""
DECADES = 7
"""The most decades an axis shows; lower values are drawn at the edge."""
LEAST_WIDTH, LEAST_HEIGHT = 30, 7
_NEIGHBOURS = ((0, 0), (0, 1), (0, -1), (0, 2), (0, -2), (-1, 0), (1, 0), (-1, 1), (1, -1), (-1, -1), (1, 1))


class Point(Struct, frozen=True):
    """One kernel."""

    letter: str
    intensity: float
    """FLOP per byte."""
    flops: float
    """FLOP/s."""


class Ceiling(Struct, frozen=True):
    """One compute roof."""

    label: str
    flops: float
    """FLOP/s."""


def roofline_chart(
    points: Sequence[Point],
    ceilings: Sequence[Ceiling],
    bandwidth: float,
    width: int,
    height: int,
    *,
    ascii: bool = False,
) -> list[str]:
    """Returns `height` rows of text of at most `width`; none if there is no room or nothing to draw.

    Args:
        points: kernels; those without FLOPs or bytes are left out.
        ceilings: the compute roofs; the memory roof rises to the highest.
        bandwidth: of memory, byte/s: the slope.
        width: columns of the whole chart.
        height: rows of the whole chart, including the axis and its numbers.
        ascii: no characters outside ASCII.
    """
    shown = _with_both(points)
    if width < LEAST_WIDTH or height < LEAST_HEIGHT or not ceilings or bandwidth <= 0:
        return []
    canvas = _Canvas(shown, ceilings, bandwidth, width, height, ascii=ascii)
    canvas.slope()
    for ceiling in sorted(ceilings, key=lambda roof: roof.flops):
        canvas.ceiling(ceiling)
    canvas.name_slope()
    for point in shown:
        canvas.point(point)
    return canvas.rows()


def _with_both(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.intensity > 0 and point.flops > 0]


class _Canvas:
    """The cells of the plot, with the ranges of the axes."""

    def __init__(
        self, points: Sequence[Point], ceilings: Sequence[Ceiling], bandwidth: float, width: int, height: int, *,
        ascii: bool,
    ) -> None:  # fmt: skip
        self.bandwidth, self.ascii = bandwidth, ascii
        self.top = max(ceiling.flops for ceiling in ceilings)
        self.ridges = sorted({ceiling.flops / bandwidth for ceiling in ceilings})
        self.x, self.y = axes(points, ceilings, bandwidth)
        self.titles = [si(10.0**power) for power in self.y.decades]
        self.margin = max((len(title) for title in self.titles), default=1) + 1
        self.columns, self.lines = width - self.margin - 1, height - 3
        self.cells = [[" "] * self.columns for _ in range(self.lines)]
        self.taken: set[tuple[int, int]] = set()
        self.dots = [[0] * self.columns for _ in range(self.lines)]

    def _column(self, intensity: float) -> float:
        return self.x.share(intensity) * (self.columns - 1)

    def _line(self, flops: float) -> float:
        return (1 - self.y.share(flops)) * (self.lines - 1)

    def slope(self) -> None:
        """Draws the memory roof, up to the highest ceiling."""
        step = 0.25
        at = 0.0
        while at < self.columns:
            intensity = self.x.value(at / max(self.columns - 1, 1))
            flops = intensity * self.bandwidth
            if self.y.low <= flops <= self.top:
                line = self._line(flops)
                if self.ascii:
                    self._put(round(line), round(at), "/", over=False)
                else:
                    self._dot(line, at)
            at += step

    def _dot(self, line: float, column: float) -> None:
        x, y = int((column + 0.5) * 2), int((line + 0.5) * 4)
        row, cell = y // 4, x // 2
        if 0 <= row < self.lines and 0 <= cell < self.columns:
            bit = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))[y % 4][x % 2]
            self.dots[row][cell] |= bit

    def ceiling(self, ceiling: Ceiling) -> None:
        """Draws a flat roof from its ridge to the right, with its name at the end."""
        line, start = round(self._line(ceiling.flops)), round(self._column(ceiling.flops / self.bandwidth))
        for column in range(max(start, 0), self.columns):
            self._put(line, column, "-" if self.ascii else "─", over=True)
        self._put(line, start, "+" if self.ascii else "╭", over=True)
        label = f" {ceiling.label} {rate(ceiling.flops, 'FLOP/s')} "
        begin = self.columns - len(label)
        if begin <= start:  # the roof is short: its name goes left of it and of the slope that leads to it
            begin = self._clear(line, start - len(label) - 1, len(label))
        if begin >= 0 and all(cell in " -─" for cell in self.cells[line][begin : begin + len(label)]):
            self._write(line, begin, label)

    def _clear(self, line: int, begin: int, size: int) -> int:
        """Returns the nearest column to the left from which so many cells are free; below 0 if there is none."""
        while begin >= 0 and not self._is_free(line, begin, size):
            begin -= 1
        return begin

    def _is_free(self, line: int, begin: int, size: int) -> bool:
        cells, dots = self.cells[line][begin : begin + size], self.dots[line][begin : begin + size]
        return begin >= 0 and len(cells) == size and not any(dots) and all(cell == " " for cell in cells)

    def name_slope(self) -> None:
        """Writes the bandwidth left of the slope if there is room, else right of it."""
        text = rate(self.bandwidth, "B/s")
        for line in range(self.lines // 4, self.lines):
            flops = self.y.value(1 - line / max(self.lines - 1, 1))
            column = round(self._column(flops / self.bandwidth))
            begin = self._clear(line, column - len(text) - 1, len(text) + 1)
            if begin < 0:
                begin = column + 4
                if not self._is_free(line, begin, len(text)):
                    continue
            if flops < self.top:
                self._write(line, begin, text)
                return

    def point(self, point: Point) -> None:
        """Draws a letter at its position, or beside it if that is taken."""
        line = min(max(round(self._line(max(point.flops, self.y.low))), 0), self.lines - 1)
        column = min(max(round(self._column(max(point.intensity, self.x.low))), 0), self.columns - 1)
        for down, right in _NEIGHBOURS:
            place = (line + down, column + right)
            if place not in self.taken and 0 <= place[0] < self.lines and 0 <= place[1] < self.columns:
                self.taken.add(place)
                self._put(*place, point.letter, over=True)
                return
        self._put(line, column, SEVERAL, over=True)

    def _write(self, line: int, column: int, text: str) -> None:
        """Writes a label that points will not overwrite."""
        for offset, character in enumerate(text):
            self._put(line, column + offset, character, over=True)
            self.taken.add((line, column + offset))

    def _put(self, line: int, column: int, character: str, *, over: bool) -> None:
        if 0 <= line < self.lines and 0 <= column < self.columns and (over or self.cells[line][column] == " "):
            self.cells[line][column] = character

    def rows(self) -> list[str]:
        """Returns the plot with its axes: units above and at the right, ridges as marks on the axis."""
        bar, corner, tick = ("|", "+", "+") if self.ascii else ("│", "└", "┤")
        ticks = {round(self._line(10.0**power)): si(10.0**power) for power in self.y.decades}
        drawn = [UNITS_ASCII if self.ascii else UNITS]
        for number, cells in enumerate(self.cells):
            line = "".join(
                chr(0x2800 + dots) if character == " " and dots else character
                for character, dots in zip(cells, self.dots[number], strict=True)
            )
            title = ticks.get(number, "")
            drawn.append(f"{title:>{self.margin}}{tick if title else bar}{line}".rstrip())
        axis = ["-" if self.ascii else "─"] * self.columns
        below = [" "] * self.columns
        for power in self.x.decades:
            text, at = plain(10.0**power), round(self._column(10.0**power))
            if 0 <= at < self.columns:
                axis[at] = "+" if self.ascii else "┬"
            write_if_clear(below, max(at - len(text) // 2, 0), text)
        for ridge in self.ridges:
            at = round(self._column(ridge))
            if 0 <= at < self.columns:
                axis[at] = "^" if self.ascii else "▲"
        return [
            *drawn,
            " " * self.margin + corner + "".join(axis),
            (" " * (self.margin + 1) + "".join(below)).rstrip(),
        ]


def si(value: float) -> str:
    """Writes at most three digits and a prefix: ``67T``, ``1.1P``, ``100G``."""
    for unit, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)):
        if value >= 0.9995 * scale:
            number = value / scale
            digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2
            text = f"{number:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if digits else text) + unit
    return f"{value:.2g}"


def rate(value: float, unit: str) -> str:
    """Writes a number, a space, and the unit with its prefix: ``67 TFLOP/s``, ``4.8 TB/s``, ``1 FLOP/s``."""
    text = si(value)
    prefix = text[-1] if text[-1].isalpha() else ""
    return f"{text.removesuffix(prefix)} {prefix}{unit}"


def plain(value: float) -> str:
    """Writes a number of an axis: ``0.01``, ``10``, ``1k``."""
    return si(value) if value >= 1 else f"{value:g}"


def axes(points: Sequence[Point], ceilings: Sequence[Ceiling], bandwidth: float) -> tuple[Axis, Axis]:
    """Returns both axes, FLOP/byte first: they hold the points, and enough of every roof."""
    ridges = sorted(ceiling.flops / bandwidth for ceiling in ceilings)
    high = max(ceiling.flops for ceiling in ceilings) * 1.6
    far = max([point.intensity for point in points] + [ridges[-1] * 6])
    x = _axis([point.intensity for point in points] + [ridges[0] / 30], far * 1.2)
    return x, _axis([point.flops for point in points] + [min(roof.flops for roof in ceilings) / 30], high)


def _axis(values: Sequence[float], high: float) -> Axis:
    low = min(value for value in values if value > 0) / 1.6
    return Axis(max(low, high / 10**DECADES), high, log=True)


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
    shown = _with_both(points)
    xs, ys = axes(shown, ceilings, bandwidth)
    drawing = Drawing(TOP + TALL + 24, about)
    foot = TOP + TALL

    def across(intensity: float) -> float:
        return LEFT + ROOM * _within(xs, intensity)

    def down(flops: float) -> float:
        return foot - TALL * _within(ys, flops)

    drawing.text(LEFT, 12, UNITS_ASCII if ascii else UNITS)
    for power in ys.decades:
        drawing.level(down(10.0**power), si(10.0**power), LEFT, WIDTH - 8)
    for power in xs.decades:
        x = across(10.0**power)
        drawing.line(x, TOP, x, foot, "grid")
        drawing.text(x, foot + 17, plain(10.0**power), anchor="middle")
    drawing.line(LEFT, foot, WIDTH - 8, foot, "axis")
    top = max(ceiling.flops for ceiling in ceilings)
    begin = max(xs.low, ys.low / bandwidth)
    drawing.path([(across(begin), down(begin * bandwidth)), (across(top / bandwidth), down(top))], "roof")
    # above the slope is no kernel
    at = math.sqrt(begin * min(ceiling.flops for ceiling in ceilings) / bandwidth)
    drawing.text(across(at) - 8, down(at * bandwidth) - 8, f"memory {rate(bandwidth, 'B/s')}", anchor="end")
    for ceiling in ceilings:
        y = down(ceiling.flops)
        drawing.path([(across(ceiling.flops / bandwidth), y), (WIDTH - 8, y)], "roof")
        words = f"{ceiling.label} {rate(ceiling.flops, 'FLOP/s')}"
        drawing.text(WIDTH - 10, y - 5, words, anchor="end", room=WIDTH - 10 - LEFT)
    _points(drawing, [(point, max(across(point.intensity), LEFT), min(down(point.flops), foot)) for point in shown])
    return drawing.svg()


def _within(axis: Axis, value: float) -> float:
    """How far along the axis a value lies; at its end if it lies beyond."""
    return min(max(axis.share(value), 0.0), 1.0)


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
        words = f"{point.letter}: {rate(point.flops, 'FLOP/s')} at {point.intensity:.3g} FLOP/byte"
        drawing.circle(*place, max(RADIUS, LETTER * len(point.letter) / 2 + 3), "point", words)
        drawing.text(place[0], place[1] + 4, point.letter, anchor="middle", style="inside")
