"""What a written number is worth, so that a column of them sorts by value."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRITTEN = re.compile(r"[<>]?([+-]?\d[\d,]*(?:\.\d+)?)(?: ?([A-Za-zµ%/]+))?(?: ±.*)?")
_TIMES = {"ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9}
_SIZES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_RATES = ("FLOP/s", "FLOP", "B/s", "Hz", "sector/s")
_ANY = ""
"""The unit of a bare 0, which is the same in all."""


def column_values(texts: Sequence[str], raw: Sequence[object]) -> list[float | None] | None:
    """The numbers behind a column's cells, null where unknown; None for a column of texts, or of several units.

    Args:
        texts: the cells as they are written.
        raw: what they were written from, where that is known; as long as `texts`, or empty.
    """
    known = [n for n, text in enumerate(texts) if not _is_unknown(text)]
    if raw and all(_is_number(raw[n]) for n in known):
        exact: list[float | None] = [None] * len(texts)
        for n in known:
            exact[n] = float(raw[n])  # type: ignore[arg-type]  # what `_is_number` said
        return exact if known else None
    found: list[float | None] = [None] * len(texts)
    units = set()
    for n in known:
        amount = amount_of(texts[n])
        if amount is None:
            return None
        units.add(amount[0])
        found[n] = amount[1]
    return found if units and len(units - {_ANY}) <= 1 else None


def amount_of(text: str) -> tuple[str, float] | None:
    """The unit and the value of a number as reports write it: ``1.234 ms``, ``<0.01``, ``1.42 ±0.03``; else None."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    value, unit = float(match[1].replace(",", "")), match[2] or ""
    if text[0] in "<>":
        value /= 2
    if not unit:
        return ("number" if value else _ANY), value
    if unit in _TIMES:
        return "time", value * _TIMES[unit]
    if unit in _SIZES:
        return "size", value * _SIZES[unit]
    rate = next((rate for rate in _RATES if unit.endswith(rate)), None)
    if rate is not None and unit.removesuffix(rate) in _PREFIXES:
        return rate, value * _PREFIXES[unit.removesuffix(rate)]
    return unit, value


def _is_unknown(text: str) -> bool:
    return text.strip() in ("", UNKNOWN)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
