"""Heat maps as text: a line for each row, a column for each value, higher where the value is larger.

Height says what colour says elsewhere, so that they read alike without colour.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracetui.app.charts.cells import EIGHTHS
from tracetui.app.charts.drawing import LETTER, WIDTH, Drawing
from tracetui.parsers.arrays import Floats

ASCII = ".:-=+*#%"
EVEN = 0.02
"""Values that differ by less than this share of the largest are drawn alike: a picture of noise says nothing."""


def heat_map(
    frame: pl.DataFrame, row: str, column: str, value: str, width: int, *, ascii: bool, from_zero: bool = False
) -> dict[int, str]:
    """The picture of each row; all share one scale.

    Args:
        frame: one cell a line.
        row: its column that names the row.
        column: its column that says where in the row it stands, in any numbers that have an order.
        value: its column with what is drawn; nulls are drawn as gaps.
        width: the most columns; of more, neighbours are drawn as the largest of them, so that a single one shows.
        ascii: whether the terminal has no block characters.
        from_zero: whether the lowest sign stands for 0, and not for the least value.

    Returns:
        A text of up to `width` signs by row.
    """
    rows, values = cells_of(frame, row, column, value, width)
    return dict(zip(rows, signs(values, ascii=ascii, from_zero=from_zero), strict=True))


def cells_of(frame: pl.DataFrame, row: str, column: str, value: str, width: int) -> tuple[list[int], Floats]:
    """The names of the rows in order, and the values by row and column; NaN where nothing is known.

    Args:
        frame: one cell a line.
        row: its column that names the row.
        column: its column that says where in the row it stands.
        value: its column with the values.
        width: the most columns; of more, neighbours become one with the largest of their values.
    """
    cells = frame.select(row=pl.col(row), column=pl.col(column).rank("dense") - 1, value=pl.col(value).cast(pl.Float64))
    if not cells.height:
        return [], np.empty((0, 0))
    many = int(cells["column"].max()) + 1  # type: ignore[arg-type]
    drawn = min(many, width)
    cells = cells.with_columns(column=pl.col("column").cast(pl.Int64) * drawn // many)
    largest = cells.group_by("row", "column").agg(pl.col("value").max())
    rows = largest["row"].unique().sort()
    values = np.full((rows.len(), drawn), np.nan)
    at = rows.search_sorted(largest["row"])
    values[at.to_numpy(), largest["column"].to_numpy()] = largest["value"].fill_null(float("nan")).to_numpy()
    return rows.to_list(), values


def signs(values: Floats, *, ascii: bool, from_zero: bool = False) -> list[str]:
    """The lines of a picture.

    Args:
        values: by row and column; NaN for what is not known, which is drawn as a gap.
        ascii: whether the terminal has no block characters.
        from_zero: whether the lowest sign stands for 0, and not for the least value.
    """
    is_value = ~np.isnan(values)
    letters = np.array(list(ASCII if ascii else EIGHTHS[1:]))
    level = np.zeros(values.shape, np.int64)
    if is_value.any():
        most = float(values[is_value].max())
        least = min(0.0, most) if from_zero else float(values[is_value].min())
        if most > 0 and most - least >= EVEN * most:
            share = np.where(is_value, (values - least) / (most - least), 0.0)
            level = np.clip(np.rint((letters.size - 1) * share), 0, letters.size - 1).astype(np.int64)
    return ["".join(line) for line in np.where(is_value, letters[level], " ").tolist()]


def span(begin: float, turn: float, end: float, total: float, width: int, *, ascii: bool) -> str:
    """One stretch of a picture of `total` as text: a gap, light until `turn`, then solid.

    Args:
        begin: where it begins.
        turn: where its second part begins.
        end: where it ends.
        total: what `width` stands for.
        width: columns.
        ascii: whether the terminal has no block characters.
    """
    if total <= 0:
        return ""
    light, solid = ("-", "#") if ascii else ("░", "█")
    at = [min(max(round(width * value / total), 0), width) for value in (begin, turn, end)]
    # what is there is seen, however short
    last = max(at[2], min(at[0], width - 1) + 1)
    middle = min(at[1], last - 1)
    return " " * min(at[0], middle) + light * max(middle - at[0], 0) + solid * (last - middle)


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
        rows: values by row and column; None where unknown, which is drawn as an empty cell.
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
    numbers = [value for row in rows for value in row if value is not None]
    least, most = min(numbers, default=0.0), max(numbers, default=0.0)
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
