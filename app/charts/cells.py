"""What charts of text are made of: cells with a style, bars of eighths, labels below an axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tracetui.app.charts.scale import round_step, time_label

EIGHTHS = " ▁▂▃▄▅▆▇█"
ASCII_EIGHTHS = " ..--==##"


class Run(NamedTuple):
    """Cells side by side with one style."""

    text: str
    style: str


def texts(lines: Iterable[Iterable[Run]]) -> list[str]:
    """The lines without their styles."""
    return ["".join(run.text for run in line) for line in lines]


def write_if_clear(cells: list[str], at: int, text: str, *, before: int = 1, end: int | None = None) -> None:
    """Writes a label into a line of cells if it fits there and touches no other.

    Args:
        cells: of the line.
        at: where the label begins.
        text: the label.
        before: cells in front of it that must be blank; behind it, one must.
        end: where it must have ended; None for the end of the line.
    """
    fits = at + len(text) <= (len(cells) if end is None else end)
    if fits and all(cell == " " for cell in cells[max(at - before, 0) : at + len(text) + 1]):
        cells[at : at + len(text)] = text


def ruler(start: int, end: int, columns: int, *, signs: Mapping[int, str] | None = None, ascii: bool) -> str:
    """Returns the axis with `columns` characters: marks and times at round distances.

    Args:
        start: of the first cell, ns since the time that counts as 0.
        end: of the last cell.
        columns: number of cells.
        signs: signs that replace the axis in some columns; a time that one would cut is left out.
        ascii: no characters outside ASCII.
    """
    signs = signs or {}
    span = max(end - start, 1)
    step = round_step(span, columns)
    cells = [" "] * columns
    free = 0
    tick = "|" if ascii else "│"
    for time in range(-(-start // step) * step, end, step):
        at = (time - start) * columns // span
        label = tick + time_label(time, step, ascii=ascii)
        hidden = any(at < column < at + len(label) for column in signs)
        if at >= free and at + len(label) <= columns and not hidden:
            cells[at : at + len(label)] = label
            free = at + len(label) + 1
        elif at >= free and at < columns:
            cells[at] = tick
    for column, sign in signs.items():
        cells[column] = sign
    return "".join(cells)
