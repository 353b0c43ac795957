"""Plain-text tables and paragraphs of at most 80 columns, the same for a terminal, a mail and an issue tracker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracetui.analysis.base.number_format import format_us
from tracetui.app.text.fitting import bar, cell_width, fit, fit_apart, pad, printable, wrapped

WIDTH = 80
GAP = "  "


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of a table in a report."""

    title: str
    right: bool = True
    """Numbers stand at the right edge."""
    share: int = 0
    """The column's share of the remaining width; 0 keeps it as wide as its longest cell."""
    keep_end: bool = False
    """Whether long texts are cut at the start, because the end (a function's name) matters more."""
    is_name: bool = False
    """Whether it holds names out of a recording, which Markdown sets as code."""
    is_bar: bool = False
    """Whether it only draws another column's values, so that Markdown leaves it out."""
    wide: bool = False
    """Whether text of `WIDTH` columns has no room for it."""
    about: str = ""
    """What the column means, where a page has room to say it."""
    has_bar: bool = False
    """Whether it is a share that a page also draws as a bar."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a report is laid out. Everything it returns is safe to print: names go through `printable`."""

    limit: int | None = None
    """Rows per list; None for all."""
    ascii: bool = False
    """Nothing outside ASCII."""
    charts: bool = True
    """Pictures of text beside the tables."""
    range_kernels: int | None = None
    """How many kernels stand under each range of the tree, where they are listed; 0 for all."""
    all_findings: bool = False
    """Whether every finding stands with what it rests on."""

    def text(self, text: str) -> str:
        """A name or sentence as it may be printed."""
        return printable(text, ascii=self.ascii)

    def time(self, us: float | None) -> str:
        """A duration given in µs."""
        return format_us(us, ascii=self.ascii)

    def bar(self, percent: float | None, width: int) -> str:
        """A bar for a share."""
        return bar((percent or 0) / 100, width, ascii=self.ascii)

    def table(self, columns: Sequence[Shown], cells: Sequence[Sequence[str]], marks: Sequence[str] = ()) -> list[str]:
        """A title line, then one line a row, two columns indented, never wider than `WIDTH`.

        Args:
            columns: how each column stands.
            cells: the rows.
            marks: for each row a sign of one column, or nothing; it takes a space right behind the first column.
        """
        rows = [[self.text(cell) for cell in row] for row in ([column.title for column in columns], *cells)]
        widths = _widths(columns, rows)
        for n, (column, width) in enumerate(zip(columns, widths, strict=True)):
            if column.share and not column.keep_end and any(cell_width(row[n]) > width for row in rows):
                cut = fit_apart(dict.fromkeys(row[n] for row in rows), width, ascii=self.ascii)
                for row in rows:
                    row[n] = cut[row[n]]
        lines = []
        for row, mark in zip(rows, ("", *(marks or [""] * len(cells))), strict=True):
            parts = [
                pad(fit(cell, width, ascii=self.ascii, keep_end=column.keep_end), width, right=column.right)
                for column, cell, width in zip(columns, row, widths, strict=True)
            ]
            lines.append((GAP + parts[0] + pad(mark, len(GAP)) + GAP.join(parts[1:])).rstrip())
        return lines

    def paragraph(self, text: str, *, indent: str = "") -> list[str]:
        """Lines of at most `WIDTH` columns; a word that is longer is broken."""
        return [indent + line for line in wrapped(self.text(text), WIDTH - len(indent))]

    def field(self, title: str, text: str, *, width: int = 8) -> list[str]:
        """A titled paragraph that wraps under its own text."""
        lines = self.paragraph(text, indent=" " * width)
        return [pad(title, width) + line[width:] if n == 0 else line for n, line in enumerate(lines)]

    def heading(self, what: str, base: str, shown: int, whole: int) -> str:
        """The title of a list: what it holds, the base of its numbers, and how much of it is shown."""
        part = f"{shown} of {whole:,}; --limit 0 for all" if shown < whole else f"{whole:,}" if whole else ""
        inside = "; ".join(text for text in (base, part) if text)
        return f"{what} ({inside})" if inside else what


def _widths(columns: Sequence[Shown], rows: Sequence[Sequence[str]]) -> list[int]:
    """Each column's width: its longest cell, but long columns share what the others leave of the line."""
    needs = [max(cell_width(row[n]) for row in rows) for n in range(len(columns))]
    room = WIDTH - len(GAP) * len(columns) - sum(n for n, c in zip(needs, columns, strict=True) if not c.share)
    widths = list(needs)
    cramped = [n for n, column in enumerate(columns) if column.share]
    while cramped:
        shares = sum(columns[n].share for n in cramped)
        fair = {n: max(room * columns[n].share // shares, 1) for n in cramped}
        satisfied = [n for n in cramped if needs[n] <= fair[n]]
        if not satisfied:
            for n in cramped:
                widths[n] = fair[n]
            break
        room -= sum(needs[n] for n in satisfied)
        cramped = [n for n in cramped if n not in satisfied]
    return widths
