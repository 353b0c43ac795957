"""A picture of the terminal as rows of cells: how Textual's frames are read into it, and what leads to another picture.

A frame is cursor moves, styles and text, of which spans of cells are made.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len, get_character_cell_size


class Style(NamedTuple):
    """Attributes and colours of a cell."""

    attributes: int = 0
    """Bits, one per entry of `ATTRIBUTES`."""
    foreground: str = ""
    """SGR parameters, as ``38;5;12``; empty for the terminal's own colour."""
    background: str = ""


NORMAL = Style()
ATTRIBUTES = {1: 22, 2: 22, 3: 23, 4: 24, 5: 25, 6: 25, 7: 27, 8: 28, 9: 29, 21: 24, 53: 55}
"""SGR code of an attribute, and the code that ends it (ECMA-48 8.3.117; 53 and 55 are overline)."""
BIT = {code: 1 << place for place, code in enumerate(ATTRIBUTES)}
ENDED_BY = {end: sum(BIT[code] for code in ATTRIBUTES if ATTRIBUTES[code] == end) for end in ATTRIBUTES.values()}
UNSEEN_ON_BLANKS = sum(BIT[code] for code in (1, 2, 3, 5, 6))
"""Attributes that change nothing where there is no glyph: bold, dim, italic, blinking."""
LEVELS = (0, 95, 135, 175, 215, 255)
NUMBERED = {
    f"{red};{green};{blue}": 16 + 36 * r + 6 * g + b
    for r, red in enumerate(LEVELS)
    for g, green in enumerate(LEVELS)
    for b, blue in enumerate(LEVELS)
    if r or g  # colours 16 to 21 are given another meaning by some shells' themes
} | {";".join([str(8 + 10 * grey)] * 3): 232 + grey for grey in range(24)}
"""Colours that xterm's palette of 256 has, by red, green and blue: a terminal that takes the three takes its number."""


@lru_cache(4096)
def read_sgr(style: Style, parameters: str) -> Style | None:
    """The look after ``ESC [ parameters m``; None where a parameter is not known."""
    attributes, foreground, background = style
    codes = iter(parameters.split(";"))
    for text in codes:
        code = int(text or 0)
        if code == 0:
            attributes, foreground, background = NORMAL
        elif code in BIT:
            attributes |= BIT[code]
        elif code in ENDED_BY:
            attributes &= ~ENDED_BY[code]
        elif 30 <= code <= 37 or 90 <= code <= 97:
            foreground = text
        elif 40 <= code <= 47 or 100 <= code <= 107:
            background = text
        elif code == 39:
            foreground = ""
        elif code == 49:
            background = ""
        elif code in (38, 48):
            kind = next(codes, "")
            numbers = [next(codes, "") for _ in range({"5": 1, "2": 3}.get(kind, 0))]
            if not numbers or not all(numbers):
                return None
            number = NUMBERED.get(";".join(numbers)) if kind == "2" else None
            color = f"{text};5;{number}" if number else ";".join((text, kind, *numbers))
            if code == 38:
                foreground = color
            else:
                background = color
        else:
            return None
    return Style(attributes, foreground, background)


def on_blank(style: Style) -> Style:
    """The same look on a blank, where letters' colour and weight can't be seen."""
    return style if style.attributes & ~UNSEEN_ON_BLANKS else Style(background=style.background)


@lru_cache(4096)
def blank_pen(pen: Style, blank: Style) -> Style:
    """Returns the style closest to the current one that draws a blank as wanted."""
    return blank if blank.attributes else Style(pen.attributes & UNSEEN_ON_BLANKS, pen.foreground, blank.background)


@lru_cache(16384)
def sgr(pen: Style, style: Style) -> str:
    """The shortest sequence from one look to another; empty where they are one."""
    if pen == style:
        return ""
    codes: list[str] = []
    gone, come = pen.attributes & ~style.attributes, style.attributes & ~pen.attributes
    for end, bits in ENDED_BY.items():
        if gone & bits:
            codes.append(str(end))
            come |= style.attributes & bits  # one code ends bold and dim alike
    codes += [str(code) for code, bit in BIT.items() if come & bit]
    if pen.foreground != style.foreground:
        codes.append(style.foreground or "39")
    if pen.background != style.background:
        codes.append(style.background or "49")
    afresh = ["0", *(str(code) for code, bit in BIT.items() if style.attributes & bit)]
    afresh += [color for color in style[1:] if color]
    return f"\x1b[{min(';'.join(codes), ';'.join(afresh) if afresh[1:] else '', key=len)}m"


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


# --- what Textual writes

_TOKEN = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|\x1b\[(?P<look>[\d;]*)m"
    r"|(?P<line>\n)"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
)
_BEGIN = re.compile(r"\x1b\[\d+;\d+H")
_QUIET = re.compile(
    r"(?:\x1b\[[?>=<][\d;]*\$?[hlpu]"  # modes, keyboard protocol, questions
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # clipboard, title, shape of the pointer
    r"|\x07)+"
)
_OTHER_SCREEN = re.compile(r"\x1b\[\?(?:47|1047|1049)[hl]")


class Span(NamedTuple):
    """Cells that stand side by side; counted from 0."""

    x: int
    y: int
    cells: list[Cell]


class Frame(NamedTuple):
    """What one write of Textual's changes."""

    spans: list[Span]
    cursor: tuple[int, int] | None
    """Where it leaves the cursor (x, y), counted from 0; None where the last text left it."""


def is_frame(data: str) -> bool:
    """Whether this paints cells, as far as its beginning tells."""
    return _BEGIN.match(data) is not None


def is_quiet(data: str) -> bool:
    """Whether this leaves all cells as they are."""
    return _QUIET.fullmatch(data) is not None and not turns_page(data)


def turns_page(data: str) -> bool:
    """Returns whether this switches to the alternate screen or back."""
    return _OTHER_SCREEN.search(data) is not None


def read_frame(data: str, width: int, height: int, palette: Palette) -> Frame | None:
    """Returns the cells that a frame writes on a screen of this size; None if it holds anything unknown."""
    spans: list[Span] = []
    at: tuple[int, int] | None = None
    cursor: tuple[int, int] | None = None
    style = NORMAL
    place, end = 0, len(data)
    while place < end:
        token = _TOKEN.match(data, place)
        if token is None:
            return None
        place = token.end()
        kind = token.lastgroup
        if kind == "text":
            text = token["text"]
            if at is None:
                return None
            cells = palette.lay(text, style)
            x, y = at
            if y >= height or x + len(cells) > width or not (text.isascii() or len(cells) == cell_len(text)):
                return None
            spans.append(Span(x, y, cells))
            at, cursor = (x + len(cells), y), None
        elif kind == "look":
            now = read_sgr(style, token["look"])
            if now is None:
                return None
            style = now
        elif kind == "column":
            at = cursor = (int(token["column"]) - 1, int(token["row"]) - 1)
        else:
            at = cursor = None  # a new line is followed by a move
    return Frame(spans, cursor)


# --- what is sent to the terminal

REWRITE = 4
"""A gap of so many unchanged cells is sent again: a move over it would be no shorter."""
ERASE = 10
"""A run of so many blanks is erased and moved over, which takes up to ten bytes."""


class Painter:
    """Writes what differs, and tracks the cursor position and the current style."""

    def __init__(self, *, erases_in_color: bool) -> None:
        self._erases_in_color = erases_in_color
        """Whether erased cells take on the background in force (terminfo's ``bce``)."""
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
