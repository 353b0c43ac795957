"""A heat map: rows of cells, darker where the value is larger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.charts.svg.drawing import LETTER, WIDTH, Drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

TOP, FOOT, TALL, MOST_ROW = 8, 24, 320, 30
LEVELS = 8


def heat_svg(
    rows: Sequence[Sequence[float | None]],
    names: Sequence[str],
    about: str,
    *,
    ends: tuple[str, str],
    labels: tuple[str, str],
    marked: frozenset[int] = frozenset(),
) -> str:
    """Cells on one scale from the least value to the largest.

    Args:
        rows: values by row and column; null where unknown, which is drawn as an empty cell.
        names: of the rows; where they are too many, every so many is written.
        about: what the picture shows.
        ends: what the least and the largest value are.
        labels: what stands below the first and the last column.
        marked: rows whose names stand out.
    """
    tall = min(TALL / max(len(rows), 1), MOST_ROW)
    columns = max(map(len, rows), default=0)
    left = LETTER * (max(map(len, names), default=0) + 2)
    drawing = Drawing(TOP + tall * len(rows) + FOOT + 18, about)
    wide = (WIDTH - left) / max(columns, 1)
    known = [value for row in rows for value in row if value is not None]
    least, most = min(known, default=0.0), max(known, default=0.0)
    every = max(int(14 // tall) + 1, 1) if tall < 14 else 1
    gap = 1 if min(tall, wide) > 4 else 0
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = TOP + tall * number
        near = every > 1 and any(other in marked for other in range(number - every, number + every) if other != number)
        if number in marked or (number % every == 0 and not near):
            drawing.text(left - 8, y + tall / 2 + 4, name, anchor="end", style="late" if number in marked else "")
        for column, value in enumerate(row):
            level = 0
            if value is not None and most > least:
                level = min(int((value - least) / (most - least) * LEVELS), LEVELS - 1)
            style = "none" if value is None else f"cell h{level}"
            drawing.rect(left + wide * column, y, max(wide - gap, 0.5), max(tall - gap, 0.5), style)
    foot = TOP + tall * len(rows)
    drawing.text(left, foot + 16, labels[0], style="soft")
    drawing.text(WIDTH, foot + 16, labels[1], anchor="end", style="soft")
    x = left
    drawing.text(x, foot + 36, ends[0])
    x += LETTER * (len(ends[0]) + 1)
    for level in range(LEVELS):
        drawing.rect(x, foot + 26, 12, 12, f"cell h{level}")
        x += 13
    drawing.text(x + LETTER, foot + 36, ends[1])
    return drawing.svg()
