"""What is known of an event, as lines of text: names in full, then numbers side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tracetui.app import formats
from tracetui.app.charts.lanes import time_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.timeline_facts import Fact

TITLE = 15
CELL = 34
"""Columns for a number and its title."""


def facts_text(facts: Sequence[Fact], zero: int, width: int, *, ascii: bool) -> list[str]:
    """Lines of at most `width` columns, as far as names can be broken.

    Args:
        facts: what to write.
        zero: the time that counts as 0, ns.
        width: columns there are.
        ascii: no characters outside ASCII.
    """
    lines: list[str] = []
    for fact in facts:
        if fact.kind == "text":
            text = formats.printable(str(fact.value), ascii=ascii)
            room = max(width - TITLE, 20)
            parts = [text[at : at + room] for at in range(0, len(text), room)]
            lines += [f"{fact.title if not number else '':<{TITLE}}{part}" for number, part in enumerate(parts)]
    numbers = [fact for fact in facts if fact.kind != "text"]
    per_line = max(width // CELL, 1)
    for begin in range(0, len(numbers), per_line):
        row = numbers[begin : begin + per_line]
        cells = [f"{fact.title:<{TITLE}}{value_text(fact, zero, ascii=ascii)}" for fact in row]
        lines.append("".join(formats.pad(cell, CELL) for cell in cells).rstrip())
    return lines


def value_text(fact: Fact, zero: int, *, ascii: bool) -> str:
    """A value with its unit."""
    value = fact.value
    if fact.kind == "time":
        return formats.format_ns(cast("float", value), ascii=ascii)
    if fact.kind == "at":
        return time_label(cast("int", value) - zero, 1, ascii=ascii)
    if fact.kind == "bytes":
        return formats.format_bytes(cast("float", value))
    if fact.kind == "count":
        return formats.format_count(cast("int", value))
    if fact.kind == "percent":
        return formats.format_percent(cast("float", value))
    if fact.kind == "number":
        return formats.format_number(cast("float", value))
    return formats.printable(str(value), ascii=ascii)
