"""How a text from a recording is written into CSV, tab-separated text and Markdown: one way for each, for all writers.

A name may hold anything: control sequences, HTML, links, formulas of spreadsheets. None of it may come to life in what
reads the file.
"""

from __future__ import annotations

import re

from tracetui.app.text.fitting import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*(?:%|[a-zµA-Z/]{1,6})?")
_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~"})
_LINK = re.compile(r"(?i)\b(https?|ftp|mailto|javascript|data|vbscript)(:)|\b(www)(\.)")


def cell(text: str, *, ascii: bool = False) -> str:
    """A text as a cell of CSV or of tab-separated text, before quoting.

    What a spreadsheet would take for a formula starts with an apostrophe; a number, negative or with its unit, stays.
    """
    starts = text.startswith(_FORMULA)
    text = printable(text, ascii=ascii)
    return f"'{text}" if starts and not _NUMBER.fullmatch(text) and text != "-" else text


def any_cell(value: object) -> object:
    """A value as a cell: numbers stay numbers, unknown is empty."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):  # a launch's size as 4x384x1, what is missing as a list of words
        sizes = all(isinstance(item, int) for item in value)
        return cell(("x" if sizes else "; ").join(map(str, value)))
    return cell(value) if isinstance(value, str) else value


def plain(text: str) -> str:
    """Text that Markdown takes literally, on one line; an address in it is no link."""
    text = printable(text).translate(_SPECIAL)
    return _LINK.sub(lambda match: f"{match[1] or match[3]}&#{ord(match[2] or match[4])};", text)


def code(text: str) -> str:
    """A name as a code span inside a table cell: backticks and bars can't end it."""
    text = printable(text).replace("|", "\\|")
    longest = _longest_run(text)
    if not longest:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"


def fenced(lines: list[str]) -> list[str]:
    """Lines as a block of code, which none of them can end."""
    fence = "`" * max(3, *(_longest_run(line) + 1 for line in lines), 3)
    return [f"{fence}text", *lines, fence]


def _longest_run(text: str) -> int:
    """How many backticks follow one another at most."""
    return max((len(run) for run in re.findall("`+", text)), default=0)
