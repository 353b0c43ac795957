"""Formats numbers and lists in the texts of findings; `base.number_format` formats the numbers."""

from __future__ import annotations

from tracetui.analysis.base.number_format import format_bytes as size
from tracetui.analysis.base.number_format import format_count as count
from tracetui.analysis.base.number_format import format_ns as ns
from tracetui.analysis.base.number_format import format_percent as percent
from tracetui.analysis.base.number_format import format_signed_ns as signed_ns
from tracetui.analysis.base.number_format import three_digits as number

__all__ = ["count", "listed", "ns", "number", "part_of", "percent", "signed_ns", "size", "things"]

_MANY = 9.995
"""From here on three digits leave no place behind the point that matters."""


def things(amount: float, one: str, many: str | None = None) -> str:
    """``1 step``, ``3 steps``, ``no step``; a mean of few is no whole number: ``0.33 steps``."""
    if not amount:
        return f"no {one}"
    many = one if amount == 1 else many or one + "s"
    return f"{count(amount) if amount >= _MANY or amount == round(amount) else number(amount)} {many}"


def part_of(part_ns: float, whole_ns: float, share: float | None) -> str:
    """How a share of time follows: ``2.45 ms of 23.1 ms = 10.6 %``."""
    return f"{ns(part_ns)} of {ns(whole_ns)} = {percent(share)}"


def listed(words: list[str], most: int = 3) -> str:
    """``a, b, c and 4 more``."""
    if len(words) <= most + 1:
        return ", ".join(words)
    return f"{', '.join(words[:most])} and {len(words) - most} more"
