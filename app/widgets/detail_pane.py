"""Everything about one row: all its columns, names in full, lists in whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from tracetui.analysis.base import number_format
from tracetui.analysis.tables.table import Field
from tracetui.app.tables.columns import cell_text
from tracetui.app.text import fitting

CELL = 25
"""Columns for a number and its title."""
SHORT_LINES = 2
"""Texts of more lines come after the others: a kernel's whole name would push what launched it out of sight."""
LIST_LIMIT = 100
LIST_TITLES = {"operators": "Operators", "modules": "Modules"}
MOST_LINES = 5
"""So many of a kernel's lines stand beside its texts."""


class DetailPane(VerticalScroll, can_focus=False):
    """The row under the cursor, as `title value` lines."""

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(markup=False)

    def show_text(self, text: Text) -> None:
        """Shows a text in place of a row."""
        self.scroll_to(y=0, animate=False)
        self.query_one(Static).update(text)

    def show(
        self, row: Mapping[str, object] | None, columns: Sequence[Field], *, comment: str = "", ascii: bool
    ) -> None:
        """Shows a row, and what was written about it."""
        self.scroll_to(y=0, animate=False)
        self.query_one(Static).update(detail_text(row, columns, self.size.width or 80, comment=comment, ascii=ascii))


def commented(comment: str, width: int) -> str:
    """A comment in lines of at most `width` columns, as the first of the details."""
    room = max(width - 13, 20)
    return f"{'Comment':<12} " + ("\n" + " " * 13).join(fitting.wrapped(comment, room)) + "\n"


def detail_text(
    row: Mapping[str, object] | None, columns: Sequence[Field], width: int, *, comment: str = "", ascii: bool
) -> Text:
    """A row as text: what was written about it, its texts, short ones first, numbers in pairs, then what it lists."""
    text = Text()
    room = max(width - 13, 20)
    if comment:
        text.append(commented(comment, width))
    if row is None:
        return Text("Nothing is selected.")
    texts = [c for c in columns if c.kind in ("text", "status")]
    numbers = [c for c in columns if c not in texts]
    told: list[tuple[Field, list[str]]] = []
    for column in texts:
        value, lines = row.get(column.name), row.get("lines")
        if column.name == "line" and isinstance(lines, list) and len(lines) > 1:
            first = [part for line in lines[:MOST_LINES] for part in _wrapped(_member(line, ascii=ascii).strip(), room)]
            told.append((column, first + [f"and {len(lines) - MOST_LINES} more"] * (len(lines) > MOST_LINES)))
        elif value not in (None, ""):
            # a call stack is read frame by frame
            parts = str(value).split(";") if column.name == "stack" else [value]
            told.append(
                (column, [line for part in parts for line in _wrapped(cell_text(part, column.kind, ascii=ascii), room)])
            )
    for column, lines in sorted(told, key=lambda each: len(each[1]) > SHORT_LINES and each[0].name != "line"):
        text.append(f"{fitting.printable(column.label, ascii=ascii):<12} ", "bold")
        text.append(("\n" + " " * 13).join(lines) + "\n")
    per_line = max((width - 2) // CELL, 1)
    for begin in range(0, len(numbers), per_line):
        for column in numbers[begin : begin + per_line]:
            value = row.get(column.name)
            unit = " %" if column.kind in ("percent", "change") and value is not None else ""
            shown = (cell_text(value, column.kind, ascii=ascii) or "no") + unit
            text.append(f"{fitting.printable(_title(column), ascii=ascii):<12} ", "bold")
            text.append(fitting.pad(shown, CELL - 13))
        text.append("\n")
    for name, title in LIST_TITLES.items():
        members = row.get(name)
        if isinstance(members, list) and members:
            text.append(f"{title}\n", "bold")
            for member in members[:LIST_LIMIT]:
                text.append(_member(cast("Mapping[str, object]", member), ascii=ascii) + "\n")
            if len(members) > LIST_LIMIT:
                text.append(f"  and {len(members) - LIST_LIMIT} more\n")
    text.rstrip()
    return text


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` characters, broken after a sign that ends a part of a C++ name."""
    lines = []
    while len(text) > width:
        at = max(text.rfind(sign, width - 20, width) for sign in " ,<>:(/") + 1
        at = at or width
        lines.append(text[:at])
        text = text[at:]
    return [*lines, text]


def _title(column: Field) -> str:
    if column.title != "%":
        return column.title
    return "Change" if column.kind == "change" else "Share"


def _member(member: Mapping[str, object], *, ascii: bool) -> str:
    time = number_format.format_ns(cast("float | None", member.get("ns")), ascii=ascii)
    name = fitting.printable(str(member.get("path") or member.get("name")), ascii=ascii)
    return f"  {fitting.pad(time, 9, right=True)}  {member.get('calls'):>6} calls  {name}"
