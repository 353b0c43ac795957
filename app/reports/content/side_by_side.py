"""Tables with runs side by side: as many columns as a line has room for, then the next table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.app.reports.layout import GAP, WIDTH, Shown
from tracetui.app.text.fitting import cell_width, letter_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.app.reports.parts import Block

PER_TABLE = 5
"""Columns of numbers that have room in 80 characters, where they are narrow."""


def letter(number: int) -> str:
    """What a run is called in tables that have no room for its name."""
    return letter_of(number).upper()


def across(block: Block, runs: range, most: int = PER_TABLE) -> Iterator[Block]:
    """A table that has measures down and runs across, as tables of so many runs.

    Args:
        block: all of it; its last sentences stand below the last table.
        runs: which of its columns are of runs; the others stand in every table.
        most: runs beside each other.
    """
    for begin in runs[::most]:
        kept = [n for n in range(len(block.columns)) if n not in runs or begin <= n < begin + most]
        yield replace(
            block,
            columns=tuple(block.columns[n] for n in kept),
            cells=[[row[n] for n in kept] for row in block.cells],
            after=block.after if begin + most >= runs.stop else (),
        )


def lettered(
    block: Block,
    letters: Sequence[str],
    rows: Sequence[Sequence[str]],
    named: tuple[str, Sequence[str]],
    *,
    most: int = PER_TABLE,
) -> Iterator[Block]:
    """Measures down, runs across by their letters, what each row is of at the end.

    Args:
        block: its heading, base and sentences.
        letters: what the runs are called.
        rows: a row per measure with a cell per run; of two runs the change may follow.
        named: the title of the last column, and its cells.
        most: runs beside each other.
    """
    title, names = named
    change = (Shown("change"),) if rows and len(rows[0]) > len(letters) else ()
    columns = (*map(Shown, letters), *change, Shown(title, right=False, share=1, is_name=True))
    cells = [[*row, name] for row, name in zip(rows, names, strict=True)]
    return across(replace(block, columns=columns, cells=cells), range(len(letters)), most)


def most_across(cells: Sequence[Sequence[str]], labels: Sequence[str]) -> int:
    """How many columns of these cells a line has room for beside the whole labels."""
    widest = max(cell_width(text) for row in cells for text in row)
    room = WIDTH - len(GAP) - max(map(cell_width, labels))
    return next((n for n in range(PER_TABLE, 1, -1) if n * (widest + len(GAP)) <= room), 1)


def fitting(columns: list[Shown], cells: list[list[str]], spare: Sequence[str]) -> tuple[list[Shown], list[list[str]]]:
    """Without the first spare columns, as far as the table would be too wide."""
    for name in spare:
        turned = zip(*cells, strict=True)
        widths = [max(map(cell_width, (column.title, *cell))) for column, cell in zip(columns, turned, strict=True)]
        if sum(widths) + len(GAP) * len(widths) <= WIDTH:
            break
        kept = [n for n, column in enumerate(columns) if column.title != name]
        columns, cells = [columns[n] for n in kept], [[row[n] for n in kept] for row in cells]
    return columns, cells
