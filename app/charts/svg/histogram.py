"""How launches are distributed over durations."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_ns
from tracetui.app.charts.svg.drawing import LETTER, WIDTH, Drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.distribution import Distribution

LEFT, TOP, TALL, FOOT = 60, 34, 120, 36
MARKS = ("median", "p95", "max")


def histogram_svg(found: Distribution, about: str, *, ascii: bool = False) -> str:
    """Bars of the bins, and where the median, the 95th percentile and the longest launch lie."""
    drawing = Drawing(TOP + TALL + FOOT, about)
    room = WIDTH - LEFT - 8
    wide, most, foot = room / len(found.counts), max(found.counts), TOP + TALL
    drawing.text(LEFT, 12, f"launches, by duration{' (logarithmic)' if found.log else ''}")
    for count in (most, most // 2) if most > 1 else (most,):
        y = foot - TALL * count / most
        drawing.line(LEFT, y, WIDTH - 8, y, "grid")
        drawing.text(LEFT - 6, y + 4, f"{count:,}", anchor="end")
    for at, count in enumerate(found.counts):
        if count:
            tall = max(TALL * count / most, 1.5)
            ends = f"{format_ns(found.edges[at], ascii=ascii)} - {format_ns(found.edges[at + 1], ascii=ascii)}"
            drawing.rect(LEFT + wide * at, foot - tall, max(wide - 1, 0.8), tall, "gpu", f"{count:,}: {ends}")
    drawing.line(LEFT, foot, WIDTH - 8, foot, "axis")
    values = (found.median_ns, found.p95_ns, found.max_ns)
    places = [LEFT + wide * _place(found, value) for value in values]
    labels = [f"{words} {format_ns(value, ascii=ascii)}" for words, value in zip(MARKS, values, strict=True)]
    for x, begin, said in zip(places, _begins(places, labels), labels, strict=True):
        drawing.line(x, TOP - 8, x, foot, "mark")
        drawing.text(begin, TOP - 10, said)
    free = 0.0
    for at in range(0, len(found.edges), max(len(found.edges) // 6, 1)):
        said, x = format_ns(found.edges[at], ascii=ascii), LEFT + wide * at
        begin = min(x - LETTER * len(said) / 2, WIDTH - LETTER * len(said))
        if begin > free:
            drawing.line(x, foot, x, foot + 4, "axis")
            drawing.text(begin, foot + 17, said)
            free = begin + LETTER * (len(said) + 1)
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


def _place(found: Distribution, value: float) -> float:
    """Where a duration lies, in bins from the left."""
    at = min(max(bisect_right(found.edges, value) - 1, 0), len(found.counts) - 1)
    low, high = found.edges[at], found.edges[at + 1]
    return at + (min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5)
