"""Draws an arrow over rows of cells: straight up or down from its start, along the last row before its head."""

from __future__ import annotations

from typing import NamedTuple


class End(NamedTuple):
    """One end of an arrow."""

    line: int
    """Of the screen; the rows are lines 1 and up, and it may lie above or below them."""
    column: int
    """Of the axis; may lie outside of it."""


class _Signs(NamedTuple):
    up: str
    down: str
    left: str
    right: str
    start: str
    vertical: str
    horizontal: str
    corners: str
    """Of a line that turns: left-up, right-up, left-down, right-down, by the sides that it joins."""


_UNICODE = _Signs("▲", "▼", "◀", "▶", "●", "│", "─", "╯╰╮╭")
_ASCII = _Signs("^", "v", "<", ">", "o", "|", "-", "++++")


def arrow_cells(tail: End, head: End, rows: int, columns: int, *, ascii: bool = False) -> dict[tuple[int, int], str]:
    """Returns the characters of an arrow by line and column.

    The head stands on the first cell of what the arrow leads to. Where an end is out of sight, the line ends with a
    head at the edge that it crosses. An arrow within one row, or with both ends beyond the same edge, is not drawn.

    Args:
        tail: where it starts.
        head: where it leads.
        rows: rows in sight, which are lines 1 to `rows`.
        columns: of the axis.
        ascii: no characters outside ASCII.
    """
    signs = _ASCII if ascii else _UNICODE
    beyond = [(-1 if end.column < 0 else 1 if end.column >= columns else 0) for end in (tail, head)]
    above = [(-1 if end.line < 1 else 1 if end.line > rows else 0) for end in (tail, head)]
    if tail.line == head.line or (beyond[0] and beyond[0] == beyond[1]) or (above[0] and above[0] == above[1]):
        return {}
    down = head.line > tail.line
    step = 1 if down else -1
    begin, end = min(max(tail.column, 0), columns - 1), min(max(head.column, 0), columns - 1)
    bend = head.line - step
    cells: dict[tuple[int, int], str] = {}
    for line in range(tail.line + step, bend, step):
        cells[line, begin] = signs.vertical
    if bend != tail.line:
        if begin == end:
            cells[bend, begin] = signs.vertical
        else:
            for column in range(min(begin, end) + 1, max(begin, end)):
                cells[bend, column] = signs.horizontal
            right = end > begin
            cells[bend, begin] = signs.corners[(2 if not down else 0) + right]
            cells[bend, end] = signs.corners[(0 if not down else 2) + (not right)]
            if beyond[1]:
                cells[bend, end] = signs.right if right else signs.left
    if not beyond[0]:
        cells[tail.line, begin] = signs.start
    elif bend != tail.line:
        cells[tail.line + step, begin] = signs.left if beyond[0] < 0 else signs.right
    if not beyond[1]:
        cells[head.line, end] = signs.down if down else signs.up
    shown = {at: sign for at, sign in cells.items() if 1 <= at[0] <= rows}
    if above[1] and shown:
        # the head is above or below the rows in sight: the line ends with one at their edge
        edge = rows if down else 1
        for line, column in [at for at in shown if at[0] == edge and at in cells]:
            shown[line, column] = signs.down if down else signs.up
    return shown
