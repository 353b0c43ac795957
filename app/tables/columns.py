"""What a table shows: column specs as data, how they share the width, and how a value becomes text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tracetui.app.text import formats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Kind = Literal["text", "time", "delta", "change", "percent", "count", "bytes", "number", "flag", "status"]

MIN_BAR, MAX_BAR = 6, 16
MIN_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Column:
    """How one column of a frame is shown."""

    name: str
    """Column of the frame."""
    title: str
    kind: Kind = "text"
    width: int = 8
    """Least width; numbers widen to what they hold."""
    priority: int = 1
    """0 is always shown; the highest goes first where the terminal is narrow."""
    flex: bool = False
    """Takes a share of the room that is left, as far as its texts need it."""
    bar: bool = False
    """A percent column that also draws a bar of the share of 100 %."""
    short: str = ""
    """Frame column with the short form of a name."""
    full: str = ""
    """Frame column with the name as the program's author wrote it, where the file has it mangled."""
    main: bool = False
    """The column that ``>100us`` or ``>5%`` or ``>10`` in a filter speaks of, for its kind."""
    tail: bool = False
    """Of a text too long, the end is kept: for paths."""
    hidden: bool = False
    """Only shown once chosen."""
    sums: bool = False
    """A total of the rows behind it, which can be divided by steps or calls."""
    saved_as: str = ""
    """Its name in files and in what is copied, where that is not the frame's."""
    about: str = ""
    """What the number is, with its base; shown in the details and the help page."""

    @property
    def right(self) -> bool:
        """Whether it is aligned to the right, as numbers are."""
        return self.kind not in ("text", "flag", "status")

    @property
    def label(self) -> str:
        """The title with its unit, in one word: so can a filter spell it."""
        return f"{self.title}%" if self.kind == "percent" and "%" not in self.title else self.title


@dataclass(frozen=True, slots=True)
class Placed:
    """A column with the room it got."""

    column: Column
    width: int
    bar: int = 0
    """Cells of its bar, a space before it not counted."""

    @property
    def total(self) -> int:
        """Cells it takes with its bar."""
        return self.width + (self.bar + 1 if self.bar else 0)


def place(
    columns: Sequence[Column], available: int, *, content: Mapping[str, int], narrow: bool = False
) -> tuple[list[Placed], int]:
    """Shares `available` cells among columns; drops the least important ones where they don't fit.

    Args:
        columns: the columns wanted, in order.
        available: cells for all of them.
        content: the widest text of each column, by name.
        narrow: one space between columns instead of two.

    Returns:
        The columns shown, with widths, and the gap between them.
    """
    gap = 1 if narrow else 2

    def least(column: Column, share: float = 0.0) -> int:
        title = len(column.label) + 1
        if column.flex:
            # a wide terminal is for readable names first, and then for more columns
            return max(column.width, min(int(available * share), content.get(column.name, 0)))
        return max(min(content.get(column.name, column.width), 24), title) if column.kind != "text" else column.width

    shown = list(columns)
    while len(shown) > 1 and _wanted(shown, least, available) + gap * (len(shown) - 1) > available:
        worst = max(shown, key=lambda column: (column.priority, shown.index(column)))
        if worst.priority == 0 and (len(shown) <= MIN_COLUMNS or worst is shown[0]):
            break
        shown.remove(worst)
    widths = {column.name: least(column) for column in shown}
    bars = {column.name: 0 for column in shown if column.bar}
    left = available - sum(widths.values()) - gap * (len(shown) - 1)
    if left < 0:
        flexible = [column for column in shown if column.flex]
        if flexible:
            widths[flexible[0].name] = max(widths[flexible[0].name] + left, 4)
        left = 0
    flexible = [column for column in shown if column.flex]
    # a readable name first, then the bar, then every text in full
    for limit in (32, None):
        for column in flexible:
            room = max(content.get(column.name, 0), len(column.label) + 1)
            grown = min(left, max(min(room, limit or room) - widths[column.name], 0))
            widths[column.name] += grown
            left -= grown
        if limit:
            for name in bars:
                if left > MIN_BAR:
                    bars[name] = min(MIN_BAR + 2, left - 1)
                    left -= bars[name] + 1
    for name, length in bars.items():
        if length:
            grown = min(left, MAX_BAR - length)
            bars[name] += grown
            left -= grown
    return [Placed(column, widths[column.name], bars.get(column.name, 0)) for column in shown], gap


def _wanted(shown: Sequence[Column], least: Callable[..., int], available: int) -> int:
    """Cells that these columns need to be read with ease."""
    total = 0
    shares = iter((0.32, 0.16, 0.1))
    for column in shown:
        total += least(column, next(shares, 0.0)) if column.flex else least(column)
        if column.bar and available >= 96:
            total += MIN_BAR + 3
    return total


def cell_text(value: object, kind: Kind, *, ascii: bool = False) -> str:
    """One value as text, without padding."""
    if value is None:
        return "" if kind in ("text", "flag", "status") else formats.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str):
        return formats.printable(value, ascii=ascii)
    if not isinstance(value, (int, float)):
        return formats.printable(str(value), ascii=ascii)
    if value != value:
        return formats.UNKNOWN
    if kind == "time":
        return formats.format_ns(value, ascii=ascii)
    if kind == "delta":
        return ("+" if value > 0 else "") + formats.format_ns(value, ascii=ascii)
    if kind == "change":
        return ("+" if value >= 0.05 else "") + _share(value)
    if kind == "percent":
        return _share(value)
    if kind == "bytes":
        return formats.format_bytes(value)
    if kind == "count" and float(value).is_integer():
        return formats.format_count(int(value))
    return formats.format_number(value) if isinstance(value, float) else str(value)


def _share(percent: float) -> str:
    """A share with one decimal, so that a column of them lines up; nothing but a true zero is 0."""
    if percent == 0:
        return "0"
    if abs(percent) < 0.05:
        return "<0.1" if percent > 0 else ">-0.1"
    return f"{percent:.1f}"
