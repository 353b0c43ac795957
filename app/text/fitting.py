"""Writes numbers and names for people: with units and digits, and without control sequences."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

_ASCII_TWINS = str.maketrans(
    {
        "µ": "u",
        "μ": "u",
        "×": "x",
        "–": "-",
        "—": "-",
        "…": "...",
        "→": "->",
        "Δ": "d",
        "±": "+-",
        "≤": "<=",
        "≥": ">=",
        "·": "-",
        "›": ">",
    }
)
_PYTHON_FRAME = re.compile(r".*/([^/]+\.pyx?\(\d+\): .+)")
_BUILT_IN_METHOD = re.compile(r"<built-in method (\S+) of (.+?)(?: object)?(?: at 0x[0-9a-f]+)?>")
_BUILT_IN = re.compile(r"<built-in (?:function|method) (\S+)>")
_QUANTITY = re.compile(r"(?<=\d) (?=(?:%|ns|µs|us|ms|s|B|[kMGT]i?B|W|FLOP)(?:[/.,;:)]|\s|$))")
_BAR_EIGHTHS = " ▏▎▍▌▋▊▉█"

FIRST_COMBINING = "\u0300"
"""Every character before it, and so every unit and number, takes one column."""
LEAST_PAIR = 16
"""Columns from which both sides of a pair can be read."""


def printable(text: str, *, ascii: bool = False) -> str:
    r"""Returns the text with everything that could control a terminal or mislead a reader as a visible escape.

    Control characters (ANSI escapes begin with one), bidi overrides, zero-width characters, line separators and lone
    surrogates become ``\x1b``, ``\u202e``, …; a name with a literal backslash stays as it is.

    Args:
        text: a name from a trace, which may hold any characters.
        ascii: also write characters outside ASCII as their look-alike (µ as u) or as an escape.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return to_ascii(text) if ascii else text


def to_ascii(text: str) -> str:
    """Converts our own text for a terminal without UTF-8: µ to u, × to x, an unknown character to its escape."""
    if text.isascii():
        return text
    return text.translate(_ASCII_TWINS).encode("ascii", "backslashreplace").decode("ascii")


def short_function(name: str) -> str:
    """Shortens a Python function by its folders and a built-in by its address; other names stay.

    ``mamba_ssm/modules/mamba_simple.py(119): forward`` is ``mamba_simple.py(119): forward``;
    ``<built-in method reshape of Tensor object at 0x1e59b80>`` is ``reshape of Tensor``.
    """
    if match := _PYTHON_FRAME.fullmatch(name):
        return match[1]
    if match := _BUILT_IN_METHOD.fullmatch(name):
        return f"{match[1]} of {match[2]}"
    if match := _BUILT_IN.fullmatch(name):
        return f"{match[1]} (built-in)"
    return name


def wrapped(text: str, width: int) -> list[str]:
    """Wraps to lines of at most `width` columns; a number stays with its unit, a longer word is broken.

    Args:
        text: text that `printable` returned.
        width: columns.
    """
    lines = textwrap.wrap(_QUANTITY.sub("\u00a0", text), width, break_on_hyphens=False)
    if any(cell_width(line) > width for line in lines):  # textwrap takes every letter as one column
        lines = [part for line in lines for part in _by_columns(line, width)]
    return [line.replace("\u00a0", " ") for line in lines]


def _by_columns(line: str, width: int) -> list[str]:
    """A line with letters of two columns in lines that fit, broken at a space where there is one."""
    found = []
    while cell_width(line) > width:
        kept = line
        while cell_width(kept) > width:
            kept = kept[:-1]
        kept = kept.rpartition(" ")[0] or kept or line[:1]
        found.append(kept.rstrip(" "))
        line = line[len(kept) :].lstrip(" ")
    return [*found, line] if line else found


def bar(fraction: float, width: int, *, ascii: bool = False) -> str:
    """Returns a bar of `width` columns filled to `fraction` (0 to 1), in eighths of a column or in ``#``.

    A fraction above zero shows at least the smallest piece.
    """
    fraction = min(max(fraction, 0.0), 1.0)
    if ascii:
        filled = max(round(fraction * width), 1 if fraction > 0 else 0)
        return "#" * filled + " " * (width - filled)
    eighths = max(round(fraction * width * 8), 1 if fraction > 0 else 0)
    whole, rest = divmod(eighths, 8)
    text = "█" * whole + (_BAR_EIGHTHS[rest] if rest else "")
    return text.ljust(width)


def cell_width(text: str) -> int:
    """Returns how many terminal columns a text takes: East Asian wide characters take two, combining ones none."""
    if text.isascii() or max(text) < FIRST_COMBINING:
        return len(text)
    return sum(_char_width(c) for c in text)


def fit(text: str, width: int, *, ascii: bool = False, keep_end: bool = False) -> str:
    """Cuts the text to `width` columns; an ellipsis replaces what is cut at the end or (`keep_end`) at the start."""
    if cell_width(text) <= width:
        return text
    mark = "..." if ascii else "…"
    room = width - len(mark)
    if room <= 0:
        return mark[:width]
    if keep_end and not text.startswith("("):  # words in place of a path, "(no stack recorded)", read from their start
        return mark + _head(text[::-1], room)[::-1]
    return _head(text, room) + mark


def fit_middle(text: str, width: int, *, ascii: bool = False, end: float = 0.5) -> str:
    """Cuts the text to `width` columns but keeps both ends; an ellipsis replaces what is cut between them.

    Args:
        text: what to cut.
        width: columns available.
        ascii: write the ellipsis as three dots.
        end: share of the columns that the end of the text gets.
    """
    mark = "..." if ascii else "…"
    room = width - len(mark)
    if cell_width(text) <= width or room < 2:
        return fit(text, width, ascii=ascii)
    tail = max(int(room * end), 1)
    return _head(text, room - tail) + mark + _head(text[::-1], tail)[::-1]


def fit_parts(text: str, width: int, *, ascii: bool = False) -> str:
    """Cuts a text of parts (`` · ``, inside them commas) to `width` columns by whole parts; an ellipsis tells of more.

    A text whose first part is too wide is returned as it is.
    """
    if cell_width(text) <= width:
        return text
    mark = " ..." if ascii else " …"
    ends = [found.start() for found in re.finditer(r" · |, ", text)]
    return next((text[:end] + mark for end in reversed(ends) if cell_width(text[:end] + mark) <= width), text)


def fit_all(texts: Sequence[str], width: int) -> list[str]:
    """Cuts several texts to `width` columns together: the longest are cut in the middle, short ones stay whole."""
    widths = [cell_width(text) for text in texts]
    limit = max(widths, default=0)
    while limit > 12 and sum(min(size, limit) for size in widths) > width:
        limit -= 1
    return [fit_middle(text, limit) for text in texts]


def fit_apart(texts: Iterable[str], width: int, *, ascii: bool = False) -> dict[str, str]:
    """Cuts each text at its end, or in the middle if two would look alike, or so that it shows where they differ.

    Of ``first → second`` both sides are cut, so that neither is lost and no end of one is read as that of the other.
    """
    texts = tuple(texts)
    arrow = " -> " if ascii else " → "
    pairs = [text for text in texts if arrow in text and cell_width(text) > width >= LEAST_PAIR]
    joined = _pairs_apart(pairs, arrow, width - len(arrow), ascii) if pairs else {}
    cut = {text: fit(text, width, ascii=ascii) for text in texts if text not in joined}
    for end in (0.35, 0.5):
        seen = Counter(cut.values())
        tried = {t: fit_middle(t, width, ascii=ascii, end=end) for t, short in cut.items() if seen[short] > 1}
        seen = Counter(tried.values())
        cut |= {text: short for text, short in tried.items() if seen[short] == 1}
    alike: dict[str, list[str]] = {}
    for text, short in cut.items():
        alike.setdefault(short, []).append(text)
    for texts_alike in alike.values():
        if len(texts_alike) > 1:
            cut |= _where_they_differ(texts_alike, width, ascii)
    # what tells the texts of one group apart may be the same in another group
    seen = Counter(cut.values())
    if again := [text for text, short in cut.items() if seen[short] > 1]:
        cut |= _where_they_differ(again, width, ascii)
    return cut | joined


def _pairs_apart(texts: Sequence[str], arrow: str, room: int, ascii: bool) -> dict[str, str]:
    """Cuts both sides of each pair; they share the room equally unless one needs less than its half."""
    split = {text: tuple(text.split(arrow, 1)) for text in texts}
    rooms: dict[str, tuple[int, int]] = {}
    sides: dict[int, set[str]] = {}
    for text, (first, second) in split.items():
        left = min(cell_width(first), max(room // 2, room - cell_width(second)))
        rooms[text] = left, room - left
        for side, columns in zip((first, second), rooms[text], strict=True):
            sides.setdefault(columns, set()).add(side)
    cut = {columns: fit_apart(sorted(of), columns, ascii=ascii) for columns, of in sides.items()}
    return {text: arrow.join(cut[n][side] for n, side in zip(rooms[text], split[text], strict=True)) for text in texts}


def _where_they_differ(texts: Sequence[str], width: int, ascii: bool) -> dict[str, str]:
    """Cuts texts that begin alike to their beginning and to the places where they differ."""
    mark = "..." if ascii else "…"
    cut: dict[str, str] = {}
    waiting = [(list(texts), "", 0)]
    while waiting:
        group, shown, end = waiting.pop()
        letters = enumerate(zip(*(text[end:] for text in group), strict=False))
        differ = next((at for at, each in letters if len(set(each)) > 1), min(map(len, group)) - end) + end
        begin = max(differ - 1, end)
        if begin > end:
            shown += (_head(group[0], max(min(width // 4, begin), 1)) if not end else "") + mark
        found: dict[str, list[str]] = {}
        for text in group:
            cut[text] = shown + fit(text[begin:], width - cell_width(shown), ascii=ascii)
            found.setdefault(text[differ : differ + 1], []).append(text)
        for alike in found.values():
            following = shown + alike[0][begin : differ + 1]
            if len({cut[text] for text in alike}) < len(alike) and cell_width(following) + 2 * len(mark) < width:
                waiting.append((alike, following, differ + 1))
    return cut


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pads the text with spaces to `width` columns; `right` aligns it to the right."""
    if text.isascii():
        return text.rjust(width) if right else text.ljust(width)
    space = " " * max(width - cell_width(text), 0)
    return space + text if right else text + space


def _head(text: str, room: int) -> str:
    """Returns as many of the first characters as fit."""
    ahead = text[: max(room, 0) + 1]
    if ahead.isascii() or max(ahead) < FIRST_COMBINING:  # each of them takes one column, the one that is too many too
        return ahead if len(ahead) <= room else ahead[:-1]
    used = 0
    for end, char in enumerate(text):
        used += _char_width(char)
        if used > room:
            return text[:end]
    return text


@lru_cache(maxsize=4096)
def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def letter_of(position: int) -> str:
    """Returns the letters of a position counted from 0: a to z, then aa, ab and so on."""
    found = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        found = chr(ord("a") + rest) + found
    return found
