"""Numbers as findings print them: as the rest of the program does, whatever the sizes."""

from __future__ import annotations


def ns(value: float) -> str:
    """A duration given in ns: ``812 ns``, ``16.1 µs``, ``1.23 s``."""
    size = abs(value)
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if size >= 0.99995 * scale:
            return f"{number(value / scale)} {unit}"
    return f"{value:.0f} ns" if size else "0 ns"


def signed_ns(value: float) -> str:
    """A difference of durations in ns with its sign: ``+1.23 ms``, ``-812 ns``."""
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{ns(abs(value))}"


def percent(value: float) -> str:
    """A share: ``41.2 %``, two decimals below 10."""
    return f"{value:.1f} %" if abs(value) >= 9.995 else f"{value:.2f} %"


def size(value: float) -> str:
    """A size in bytes: ``72.3 MB``."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= 0.99995 * scale:
            return f"{number(value / scale)} {unit}"
    return f"{value:.0f} B"


def count(value: float) -> str:
    """A number of things: ``131,998``."""
    return f"{value:,.0f}"


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
