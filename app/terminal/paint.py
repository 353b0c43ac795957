"""Writes the bytes that turn one picture on the terminal into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.terminal.styles import NORMAL, blank_pen, sgr

if TYPE_CHECKING:
    from tracetui.app.terminal.grid import Cell, Grid, Row
    from tracetui.app.terminal.styles import Style

REWRITE = 4
"""A gap of so many unchanged cells is sent again: a move over it would be no shorter."""
ERASE = 10
"""A run of so many blanks is erased and moved over, which takes up to ten bytes."""


class Painter:
    """Writes what differs, and tracks the cursor position and the current style."""

    def __init__(self, *, erases_in_color: bool) -> None:
        """Sets up.

        Args:
            erases_in_color: whether erased cells take on the background in force (terminfo's ``bce``).
        """
        self._erases_in_color = erases_in_color
        self._out: list[str] = []
        self._pen = NORMAL
        self._at = (-1, -1)

    def paint(self, wanted: Grid, shown: Grid) -> str:
        """What to send so that a terminal that shows one picture shows the other; the two are alike afterwards.

        Cells of which the wanted picture knows nothing stay as they are. The pen is normal before and after.
        """
        self._out, self._pen, self._at = [], NORMAL, (-1, -1)
        for y, (new, old) in enumerate(zip(wanted.rows, shown.rows, strict=True)):
            if new != old:
                self._row(y, new, old)
                shown.rows[y] = [before if cell is None else cell for cell, before in zip(new, old, strict=True)]
        if self._pen != NORMAL:
            self._out.append("\x1b[m")
        return "".join(self._out)

    def _row(self, y: int, new: Row, old: Row) -> None:
        changed = [cell is not None and cell is not before for cell, before in zip(new, old, strict=True)]
        if not any(changed):
            return
        if any(cell is not None and cell.width != 1 for row in (new, old) for cell in row):
            # terminals don't agree on the width of all glyphs, so each row that has any is written as a whole
            changed = [cell is not None for cell in new]
        last = len(changed) - 1 - changed[::-1].index(True)
        x = changed.index(True)
        while x <= last:
            cell = new[x]
            if not changed[x] or cell is None or not cell.width:
                x += 1
                continue
            self._move(x, y, new)
            if cell.text == " " and (done := self._erase(x, new, changed)) > x:
                x = done
                continue
            self._write(cell)
            x += cell.width
            self._at = (x, y)

    def _move(self, x: int, y: int, row: Row) -> None:
        here, line = self._at
        if (here, line) == (x, y):
            return
        if line == y and here < x:
            gap = row[here:x]
            if len(gap) <= REWRITE and all(
                cell is not None and cell.width == 1 and cell.text.isascii() and self._fits(cell) for cell in gap
            ):
                self._out += [cell.text for cell in gap if cell is not None]
            else:
                self._out.append(f"\x1b[{x - here}C" if x - here > 1 else "\x1b[C")
        else:
            self._out.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        self._at = (x, y)

    def _fits(self, cell: Cell) -> bool:
        """Returns whether the current style draws a cell correctly."""
        return self._pen == (blank_pen(self._pen, cell.style) if cell.text == " " else cell.style)

    def _look(self, style: Style) -> None:
        if style != self._pen:
            self._out.append(sgr(self._pen, style))
            self._pen = style

    def _write(self, cell: Cell) -> None:
        self._look(blank_pen(self._pen, cell.style) if cell.text == " " else cell.style)
        self._out.append(cell.text)

    def _erase(self, x: int, row: Row, changed: list[bool]) -> int:
        """Erases a run of blanks if that is shorter; returns the column after it, or the same column."""
        blank = row[x]
        assert blank is not None
        if blank.style.attributes or (blank.style.background and not self._erases_in_color):
            return x
        end = x
        while end < len(row) and row[end] is blank:
            end += 1
        if end == len(row):
            if sum(changed[x:]) <= 3:
                return x
            self._look(blank_pen(self._pen, blank.style))
            self._out.append("\x1b[K")
            return end
        while not changed[end - 1]:
            end -= 1
        if end - x < ERASE:
            return x
        self._look(blank_pen(self._pen, blank.style))
        self._out.append(f"\x1b[{end - x}X")
        return end
