"""Amounts as horizontal bars, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tracetui.app.charts.drawing import LETTER, WIDTH, Drawing

TOP, ROW, BAR = 22, 24, 16
NAMES = 0.42
"""The most of the width that names take."""


class Bar(NamedTuple):
    """One row."""

    name: str
    amount: float
    texts: tuple[str, ...]
    """What stands behind the bar, a column each."""


def bars_svg(bars: Sequence[Bar], columns: Sequence[str], about: str, *, changes: bool = False) -> str:
    """A bar for each row on one scale that begins at 0, with its name before and its numbers behind it.

    Args:
        bars: the rows; an amount below 0 has a bar of its size in another colour.
        columns: headings of the numbers.
        about: what the picture shows.
        changes: whether amounts are differences, of which those above 0 take the colour of what is late.
    """
    drawing = Drawing(TOP + ROW * len(bars) + 4, about)
    widths = [
        LETTER * (max(len(title), *(len(bar.texts[at]) for bar in bars)) + 2) if bars else 0.0
        for at, title in enumerate(columns)
    ]
    names = min(LETTER * (max((len(bar.name) for bar in bars), default=0) + 2), WIDTH * NAMES)
    room = WIDTH - names - sum(widths) - 8
    most = max((abs(bar.amount) for bar in bars), default=0) or 1.0
    right = [WIDTH - sum(widths[at + 1 :]) for at in range(len(columns))]
    for at, title in zip(right, columns, strict=True):
        drawing.text(at, 12, title, anchor="end", style="soft")
    for row, bar in enumerate(bars):
        y = TOP + ROW * row
        drawing.text(names - 8, y + 12.5, bar.name, anchor="end", room=names - 8)
        drawing.rect(names, y, room, BAR, "floor")
        wide = max(abs(bar.amount) / most * room, 1.0 if bar.amount else 0.0)
        drawing.rect(
            names, y, wide, BAR, "gpu" if (bar.amount < 0) == changes else "late", f"{bar.name}: {' '.join(bar.texts)}"
        )
        for at, text in zip(right, bar.texts, strict=True):
            drawing.text(at, y + 12.5, text, anchor="end")
    return drawing.svg()
