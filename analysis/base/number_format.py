"""How numbers are written for people, everywhere: durations, sizes, shares and counts."""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN = "-"
"""What stands where a value can't be known."""


def format_ns(value: float | None, *, ascii: bool = False) -> str:
    """A duration given in ns, in the unit that suits it: ``812 ns``, ``16.10 µs``, ``1.234 s``; ``-`` if unknown."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if not size:
        return "0"
    if size < 999.5:
        return f"{value:.0f} ns"
    if size < 999_950:
        return f"{_digits(value / 1e3)} {'us' if ascii else 'µs'}"
    if size < 999_950_000:
        return f"{_digits(value / 1e6)} ms"
    return f"{_digits(value / 1e9)} s"


def format_us(value: float | None, *, ascii: bool = False) -> str:
    """A duration given in µs, as `format_ns` writes it."""
    # a report's µs come from whole ns, which a product with 1000 may miss by the last bit
    return format_ns(None if value is None else round(value * 1e3, 6), ascii=ascii)


def format_signed_ns(value: float | None, *, ascii: bool = False) -> str:
    """A difference of durations with its sign: ``+1.234 ms``, ``-812 ns``, ``0``."""
    return ("+" if value is not None and value > 0 else "") + format_ns(value, ascii=ascii)


def format_signed_us(value: float | None, *, ascii: bool = False) -> str:
    """A difference of durations given in µs, as `format_signed_ns` writes it."""
    return ("+" if value is not None and value > 0 else "") + format_us(value, ascii=ascii)


def format_bytes(value: float | None) -> str:
    """A size in binary units: ``512 B``, ``1.500 MiB``; ``-`` if unknown."""
    if value is None:
        return UNKNOWN
    size = float(value)
    if abs(size) < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if abs(size) < 1023.95:
            return f"{_digits(size)} {unit}"
    return f"{_digits(size / 1024)} TiB"


def format_share(value: float | None, *, signed: bool = False) -> str:
    """A share in percent without its unit, for columns whose title has it: ``41.2``, ``9.78``, ``<0.01``, ``0``."""
    if value is None:
        return UNKNOWN
    if not value:
        return "0"
    if abs(value) < 0.005:
        return "<0.01" if value > 0 else ">-0.01"
    decimals = 1 if abs(value) >= 9.995 else 2
    return f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}"


def format_percent(value: float | None, *, signed: bool = False) -> str:
    """A share in percent: ``41.2 %``, two decimals below 10, ``<0.01 %`` rather than a rounded zero."""
    if value is None:
        return UNKNOWN
    return f"{format_share(value, signed=signed)} %"


def format_count(value: float | None) -> str:
    """A number of things, with thousands separated: ``131,998``."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def format_number(value: float | None) -> str:
    """A plain number with four significant digits at most: ``11.64``, ``0.020``, ``4,192``; a whole one as it is."""
    if value is None:
        return UNKNOWN
    return format_count(value) if float(value).is_integer() else _digits(float(value))


def _digits(value: float) -> str:
    """Four significant digits at most, never fewer than the integer part has."""
    size = abs(value)
    if size >= 999.95:
        return f"{value:,.0f}"
    if size >= 99.995:
        return f"{value:.1f}"
    if size >= 9.9995:
        return f"{value:.2f}"
    return f"{value:.3f}"


def spans(numbers: Iterable[int]) -> str:
    """Numbers in short form: ``2-127``, ``0, 3-5``; two neighbours are no span."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join((", " if run[-1] - run[0] == 1 else "-").join(map(str, run)) for run in runs)


def three_digits(value: float) -> str:
    """Three significant digits, never fewer than the integer part has."""
    magnitude = abs(value)
    if magnitude >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.0f}" if magnitude >= 99.95 else f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"
