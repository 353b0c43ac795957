"""A picture of the terminal: rows of cells."""

from __future__ import annotations

from typing import TypeAlias

from rich.cells import cell_len, get_character_cell_size

from tracetui.app.terminal.styles import Style, on_blank

MOST_CELLS = 50_000
"""How many distinct cells are kept: far more than a session shows, unless names use many scripts."""


class Cell:
    """A glyph and its look; equal ones are one object, so that comparing rows compares addresses."""

    __slots__ = ("style", "text", "width")

    def __init__(self, text: str, style: Style, width: int) -> None:
        self.text = text
        """The glyph with its combining characters; empty in the second cell of a wide glyph."""
        self.style = style
        self.width = width
        """Columns; 0 in the covered cells."""


Row: TypeAlias = "list[Cell | None]"
"""The cells of a row; None if a cell's content is unknown."""


class Cells(dict[str, Cell]):
    """The cells of one look, by their glyph."""

    def __init__(self, style: Style) -> None:
        self.style = style
        super().__init__()

    def __missing__(self, text: str) -> Cell:
        width = get_character_cell_size(text) if len(text) == 1 else cell_len(text)
        cell = self[text] = Cell(text, on_blank(self.style) if text == " " else self.style, width)
        return cell


class Palette:
    """All cells there are."""

    def __init__(self) -> None:
        self._cells: dict[Style, Cells] = {}
        self._blanks: dict[Style, Cell] = {}

    def of(self, style: Style) -> Cells:
        """The cells of a look."""
        if style not in self._cells:
            if sum(map(len, self._cells.values())) > MOST_CELLS:
                self._cells.clear()  # what is on the screen compares unequal once, and is sent again
            cells = self._cells[style] = Cells(style)
            blank = Cell(" ", on_blank(style), 1)
            cells[" "] = self._blanks.setdefault(blank.style, blank)
        return self._cells[style]

    def lay(self, text: str, style: Style) -> list[Cell]:
        """The cells of a text without control characters, one per column."""
        of = self.of(style)
        cells = [of[character] for character in text]
        if text.isascii() or all(cell.width == 1 for cell in cells):
            return cells
        covered = of[""]
        laid: list[Cell] = []
        for cluster in clusters(text):
            cell = of[cluster]
            laid += [cell, *[covered] * (cell.width - 1)] if cell.width else []
        return laid


def clusters(text: str) -> list[str]:
    """A text in pieces that a terminal shows as one glyph: a character, and what combines with it."""
    pieces: list[str] = []
    for character in text:
        if pieces and (pieces[-1][-1] == "\u200d" or not get_character_cell_size(character)):
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


class Grid:
    """Rows of cells of which nothing is known at first."""

    def __init__(self, width: int = 0, height: int = 0) -> None:
        self.width, self.height = width, height
        self.rows: list[Row] = [[None] * width for _ in range(height)]

    def put(self, x: int, y: int, cells: list[Cell], palette: Palette) -> None:
        """Writes cells over a row, from a column on; of a wide glyph that is cut, blanks remain."""
        row, end = self.rows[y], x + len(cells)
        self._cut(row, x, palette)
        self._cut(row, end, palette)
        row[x:end] = cells

    def _cut(self, row: Row, x: int, palette: Palette) -> None:
        """Blanks the wide glyph that begins before a column and covers it."""
        if not 0 < x < self.width or (cell := row[x]) is None or cell.width:
            return
        begin, end = x - 1, x + 1
        while begin > 0 and (head := row[begin]) is not None and not head.width:
            begin -= 1
        while end < self.width and (rest := row[end]) is not None and not rest.width:
            end += 1
        row[begin:end] = [palette.of(cell.style)[" "]] * (end - begin)
