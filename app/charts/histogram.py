"""How launches are distributed over durations: the count upwards, the time to the right."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_ns
from tracetui.app.charts.cells import EIGHTHS, write_if_clear
from tracetui.app.charts.drawing import LETTER, WIDTH, Drawing
from tracetui.app.charts.scale import round_step, time_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.base.distribution import Distribution

MARKS = (("m", "median"), ("p", "p95"), ("x", "max"))
"""The marks on the axis, and what they mean."""
SEVERAL = "*"
"""The sign for two marks in one column."""
LEAST_WIDTH, LEAST_HEIGHT = 30, 6
FEWEST_BINS, MOST_BINS = 12, 120
WIDEST_BAR = 6
"""Columns per bin if there are few bins."""


def histogram(
    spread: Distribution, width: int, height: int, *, here: int | None = None, ascii: bool = False
) -> list[str]:
    """Returns `height` rows of text of at most `width`; none if there is no room.

    Args:
        spread: at most as many bins as `bins_for` says.
        width: columns of the whole chart.
        height: rows of the whole chart: a title, the plot, its axis with marks, its times, and a legend of the marks.
        here: a duration to mark on the axis, ns.
        ascii: no characters outside ASCII.
    """
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return []
    rows, most = height - 4, max(spread.counts)
    margin = _margin(most)
    across = min(max((width - margin - 1) // len(spread.counts), 1), WIDEST_BAR)
    room = across * len(spread.counts)
    corner, floor = ("+", "-") if ascii else ("└", "─")
    drawn = [_title(spread), *_plot(spread.counts, rows, across, ascii=ascii)]
    axis = [floor] * room
    marks = _marks(spread)
    taken: set[int] = set()
    for sign, _, value in marks:
        at = _place(spread, value, across)
        axis[at] = SEVERAL if at in taken else sign
        taken.add(at)
    if here is not None:
        axis[_place(spread, here, across)] = "^" if ascii else "▲"
    drawn.append(" " * margin + corner + "".join(axis))
    drawn.append(" " * (margin + 1) + _times(spread, across, room, ascii=ascii))
    meanings = [(f"{sign} = {name}", value) for sign, name, value in marks]
    meanings += [("^" if ascii else "▲", here)] if here is not None else []
    legend = " " * (margin + 1)
    for meaning, value in meanings:
        part = f"{meaning} {format_ns(value, ascii=ascii)}"
        if len(legend) + len(part) <= width:
            legend += f"{part}   "
    drawn.append(legend)
    return [row[:width].rstrip() for row in drawn]


def _title(spread: Distribution) -> str:
    return f"launches, by duration{' (logarithmic)' if spread.log else ''}"


def _marks(spread: Distribution) -> list[tuple[str, str, float]]:
    """Sign, name and duration of the marks on the axis."""
    durations = (spread.median_ns, spread.p95_ns, spread.max_ns)
    return [(*mark, duration) for mark, duration in zip(MARKS, durations, strict=True)]


def _bin(spread: Distribution, value: float) -> int:
    """The bin that holds a duration; for a longer or shorter one, the bin at that end."""
    return min(max(bisect_right(spread.edges, value) - 1, 0), len(spread.counts) - 1)


@lru_cache(maxsize=4)
def _plot(counts: tuple[int, ...], rows: int, across: int, *, ascii: bool) -> tuple[str, ...]:
    """The bars, which stay the same while the mark of a launch moves below them."""
    most = max(counts)
    margin, side = _margin(most), "|" if ascii else "│"
    titles = {0: f"{most:,}", rows - 1: "0"}
    drawn = []
    for row in range(rows):
        cells = "".join(_cell(count, most, rows - 1 - row, rows, ascii=ascii) * across for count in counts)
        drawn.append(f"{titles.get(row, ''):>{margin - 1}} {side}{cells}".rstrip())
    return tuple(drawn)


def bins_for(width: int, launches: int) -> int:
    """Returns how many bins a chart of this width shows for so many launches; few launches get few bins."""
    worth = max(round(3 * math.sqrt(launches)), FEWEST_BINS)
    return max(min(width - _margin(launches) - 1, worth, MOST_BINS), 1)


def _margin(most: int) -> int:
    return len(f"{most:,}") + 1


def _cell(count: int, most: int, floor: int, rows: int, *, ascii: bool) -> str:
    eighths = max(round(count * rows * 8 / most), 1 if count else 0)
    part = min(max(eighths - floor * 8, 0), 8)
    if ascii:
        return " " if not part else "#" if part > 4 else "."
    return EIGHTHS[part]


def _place(spread: Distribution, value: float, across: int) -> int:
    """Returns the middle column of the bin that holds a duration."""
    return _bin(spread, value) * across + across // 2


def _times(spread: Distribution, across: int, room: int, *, ascii: bool) -> str:
    """Writes round times below the start of the bins that hold them, as far as there is room."""
    line = [" "] * room
    for time, text in _round_times(spread, room, ascii=ascii):
        write_if_clear(line, (bisect_right(spread.edges, time) - 1) * across, text, before=2)
    return "".join(line).rstrip()


def _round_times(spread: Distribution, room: int, *, ascii: bool) -> Iterator[tuple[int, str]]:
    """Returns round times and their labels; on a logarithmic scale, powers of ten first."""
    low, high = spread.edges[0], spread.edges[-1]
    if not spread.log:
        step = round_step(high - low, room)
        for time in range(-(-low // step) * step, high, step):
            yield time, time_label(time, step, reach=high, ascii=ascii)
        return
    for leading in (1, 3, 2, 5):
        power = 1
        while leading * power < high:
            if leading * power >= low:
                yield leading * power, time_label(leading * power, leading * power, ascii=ascii)
            power *= 10


LEFT, TOP, TALL, FOOT = 60, 34, 120, 36


def histogram_svg(spread: Distribution, about: str, *, ascii: bool = False) -> str:
    """Bars of the bins, and where the median, the 95th percentile and the longest launch lie."""
    drawing = Drawing(TOP + TALL + FOOT, about)
    room = WIDTH - LEFT - 8
    wide, most, foot = room / len(spread.counts), max(spread.counts), TOP + TALL
    drawing.text(LEFT, 12, _title(spread))
    for count in (most, most // 2) if most > 1 else (most,):
        drawing.level(foot - TALL * count / most, f"{count:,}", LEFT, WIDTH - 8)
    for at, count in enumerate(spread.counts):
        if count:
            tall = max(TALL * count / most, 1.5)
            ends = f"{format_ns(spread.edges[at], ascii=ascii)} - {format_ns(spread.edges[at + 1], ascii=ascii)}"
            drawing.rect(LEFT + wide * at, foot - tall, max(wide - 1, 0.8), tall, "gpu", f"{count:,}: {ends}")
    drawing.line(LEFT, foot, WIDTH - 8, foot, "axis")
    marks = _marks(spread)
    places = [LEFT + wide * _in_bins(spread, value) for _, _, value in marks]
    labels = [f"{name} {format_ns(value, ascii=ascii)}" for _, name, value in marks]
    for x, begin, label in zip(places, _begins(places, labels), labels, strict=True):
        drawing.line(x, TOP - 8, x, foot, "mark")
        drawing.text(begin, TOP - 10, label)
    free = 0.0
    for at in range(0, len(spread.edges), max(len(spread.edges) // 6, 1)):
        time, x = format_ns(spread.edges[at], ascii=ascii), LEFT + wide * at
        begin = min(x - LETTER * len(time) / 2, WIDTH - LETTER * len(time))
        if begin > free:
            drawing.line(x, foot, x, foot + 4, "axis")
            drawing.text(begin, foot + 17, time)
            free = begin + LETTER * (len(time) + 1)
    return drawing.svg()


def _begins(places: Sequence[float], labels: Sequence[str]) -> list[float]:
    """Where labels begin: around their places as far as they overlap neither each other nor the edge."""
    sizes = [LETTER * len(label) for label in labels]
    begins, free = [], 0.0
    for x, size in zip(places, sizes, strict=True):
        begins.append(max(x - size / 2, free))
        free = begins[-1] + size + 2 * LETTER
    end = float(WIDTH)
    for at in reversed(range(len(begins))):
        begins[at] = min(begins[at], end - sizes[at])
        end = begins[at] - 2 * LETTER
    return begins


def _in_bins(spread: Distribution, value: float) -> float:
    """Where a duration lies, in bins from the left."""
    at = _bin(spread, value)
    low, high = spread.edges[at], spread.edges[at + 1]
    return at + (min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5)
