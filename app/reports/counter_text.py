"""Writes counters for people: values with units, what was not collected, and the base of means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracetui.analysis.base.number_format import (
    UNKNOWN,
    format_bytes,
    format_count,
    format_ns,
    format_number,
    format_percent,
)

_RATES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SCALED = {"byte/s": "B/s", "hz": "Hz", "sector/s": "sector/s", "FLOP/s": "FLOP/s", "FLOP": "FLOP"}
MOST_WHOLE = 1e12
"""Numbers from here on are written with four digits and an exponent: no more of them can be read in a column."""
HOW_TO = (
    "A report of Nsight Compute fills this tab, opened alone or in one folder with a trace of the same program:\n\n"
    "ncu --set full --import-source yes --export counters.ncu-rep PROGRAM\n\n"
    "That replays every kernel many times: --launch-count 50 or --kernel-name regex:NAME keeps it short, "
    "--nvtx adds the ranges. Its CSV (--csv --page raw) does as well."
)
"""How to get counters."""


def value_text(value: float | None, unit: str | None, text: str | None = None, *, ascii: bool = False) -> str:
    """A counter's value in the unit that suits it: ``41.28 µs``, ``73.56 GB/s``, ``78``; its text if it is no number.

    Percentages have two decimals, as ncu prints them; rates and frequencies decimal prefixes, sizes binary ones.
    """
    if value is None:
        return text or UNKNOWN
    if unit == "ns":
        return format_ns(value, ascii=ascii)
    if unit == "byte":
        return format_bytes(value)
    if unit == "%":
        return f"{value:.2f} %" if not 0 < abs(value) < 0.005 else format_percent(value)
    if unit in _SCALED:
        for size, prefix in _RATES:
            if abs(value) >= size:
                return f"{format_number(value / size)} {prefix}{_SCALED[unit]}"
        return f"{format_number(value)} {_SCALED[unit]}"
    if abs(value) >= MOST_WHOLE:
        shown = f"{value:.4g}"
    else:
        shown = format_count(int(value)) if float(value).is_integer() else format_number(value)
    return f"{shown} {unit}" if unit else shown


def unit_beside(unit: str | None) -> str | None:
    """The unit where `value_text` writes it as it is; None where it is part of the number, scaled."""
    return None if unit in _SCALED or unit in ("ns", "byte", "%") else unit


def change_text(change: float | None, unit: str | None, *, ascii: bool = False) -> str:
    """How a value differs from the first file's: ``+0.04 pt`` for percentages, else as `value_text` with a sign."""
    if change is None:
        return UNKNOWN
    if unit == "%":
        return f"{change:+.2f} pt" if abs(change) >= 0.005 else "0.00 pt"
    if unit == "ns" and abs(change) < 0.5:
        return "0"
    return ("+" if change > 0 else "") + value_text(change, unit, ascii=ascii)


def gaps_text(what: Iterable[str], command: str) -> str:
    """Says what was not collected, and which command collects it."""
    return f"Not collected: {', '.join(what)}.\nTo collect it: {command}"


def profiled_text(launches: int, kernels: int) -> str:
    """``44 launches of 17 kernels``."""
    some = f"{format_count(launches)} {'launch' if launches == 1 else 'launches'}"
    return f"{some} of {format_count(kernels)} {'kernel' if kernels == 1 else 'kernels'}"


def caution_text(profiled: Sequence[tuple[int, int]], *, same: bool) -> str:
    """Says what a mean over profiled launches does not cover.

    Args:
        profiled: per file the launches and kernels that were profiled.
        same: whether all files profiled the same kernels equally often.
    """
    few = max((kernels for _, kernels in profiled), default=0)
    text = "Means over the profiled launches only; kernels not profiled are not in them."
    if not same:
        text += " The files did not profile the same launches: compare kernel by kernel."
    elif len(profiled) > 1 and few < 5:
        text += f" Every file profiled {profiled_text(*profiled[0])}: that says little about a whole program."
    return text
