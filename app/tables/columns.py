"""Lays out the columns of a table, and formats their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from tracetui.analysis.base import number_format
from tracetui.analysis.tables.table import Field, Kind
from tracetui.app.text import fitting

MIN_BAR, MAX_BAR = 6, 16
MIN_COLUMNS = 3


class Placed(Struct, frozen=True):
    """A column with the width that it got."""

    column: Field
    width: int
    bar: int = 0
    """Cells of its bar, without the space before it."""

    @property
    def total(self) -> int:
        """Returns the cells that it takes with its bar."""
        return self.width + (self.bar + 1 if self.bar else 0)


def place(
    columns: Sequence[Field], available: int, *, content: Mapping[str, int], narrow: bool = False
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

    def least(column: Field, share: float = 0.0) -> int:
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
    for column in shown:  # what would be cut is worth more than a longer bar
        if column.kind == "text" and not column.flex:
            grown = min(left, max(content.get(column.name, 0) - widths[column.name], 0))
            widths[column.name] += grown
            left -= grown
    for name, length in bars.items():
        if length:
            grown = min(left, MAX_BAR - length)
            bars[name] += grown
            left -= grown
    return [Placed(column, widths[column.name], bars.get(column.name, 0)) for column in shown], gap


def _wanted(shown: Sequence[Field], least: Callable[..., int], available: int) -> int:
    """Returns the cells that these columns need to be easy to read."""
    total = 0
    shares = iter((0.32, 0.16, 0.1))
    for column in shown:
        total += least(column, next(shares, 0.0)) if column.flex else least(column)
        if column.bar and available >= 96:
            total += MIN_BAR + 3
    return total


def cell_text(value: object, kind: Kind, *, ascii: bool = False) -> str:
    """Formats a value without padding, in the same way for the screen, text and Markdown.

    Args:
        value: a number in the frame's unit (times in ns), a text, or None.
        kind: `Field.kind`.
        ascii: no characters outside ASCII.
    """
    if value is None or value != value:
        return number_format.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return fitting.printable(value, ascii=ascii)
    if not isinstance(value, (int, float)):
        return fitting.printable(str(value), ascii=ascii)
    if kind == "time":
        return number_format.format_ns(value, ascii=ascii)
    if kind == "delta":
        return number_format.format_signed_ns(value, ascii=ascii)
    if kind in ("percent", "change"):
        return number_format.format_share(value, signed=kind == "change")
    if kind == "bytes":
        return number_format.format_bytes(value)
    if kind == "count" and float(value).is_integer():
        return number_format.format_count(value)
    return number_format.format_number(value)


def own_time(fields: Iterable[Field], *, per_step: bool) -> tuple[Field, ...]:
    """These columns of the table of host functions, of a recording with steps or without, where nothing is per step."""
    if per_step:
        return tuple(fields)
    about = "own time, without what it called"
    return tuple(
        replace(one, title="Self", about=about) if one.name == "self_per_step_ns" else one
        for one in fields
        if one.name != "self_ns"
    )
