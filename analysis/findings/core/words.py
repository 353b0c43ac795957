"""Formats numbers and lists in the texts of findings; `base.number_format` formats the numbers."""

from __future__ import annotations

from tracetui.analysis.base.number_format import format_bytes as size
from tracetui.analysis.base.number_format import format_count as count
from tracetui.analysis.base.number_format import format_ns as ns
from tracetui.analysis.base.number_format import format_percent as percent
from tracetui.analysis.base.number_format import format_signed_ns as signed_ns

__all__ = ["count", "listed", "ns", "number", "percent", "signed_ns", "size", "things"]


def number(value: float) -> str:
    """Three significant digits, never fewer than the integer part has."""
    magnitude = abs(value)
    if magnitude >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.0f}" if magnitude >= 99.95 else f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"


def things(amount: float, one: str, many: str | None = None) -> str:
    """``1 step``, ``3 steps``, ``no step``."""
    if not amount:
        return f"no {one}"
    return f"{count(amount)} {one if amount == 1 else many or one + 's'}"


def listed(words: list[str], most: int = 3) -> str:
    """``a, b, c and 4 more``."""
    if len(words) <= most + 1:
        return ", ".join(words)
    return f"{', '.join(words[:most])} and {len(words) - most} more"
