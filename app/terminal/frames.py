"""Parses Textual's frames (cursor moves, styles and text) into the spans of cells that they write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from tracetui.app.terminal.styles import NORMAL, read_sgr

if TYPE_CHECKING:
    from tracetui.app.terminal.grid import Cell, Palette

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


def read(data: str, width: int, height: int, palette: Palette) -> Frame | None:
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
