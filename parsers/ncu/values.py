"""Reads ncu's numbers and units: thousands separators of several languages, decimal prefixes, all spellings."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIXES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""Decimal: 32.77 Kbyte are 32,768 bytes."""
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SECONDS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9,
    "nsecond": 1e-9, "ps": 1e-12, "psecond": 1e-12,
}  # fmt: skip
_SCALABLE = re.compile(r"(Ki|Mi|Gi|Ti|[KkMGTP])?(byte|bytes|hz|Hz|bit|flop|inst|sector|cycle|request|B)")

ENGLISH = r"^[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?$|^[-+]?\.\d+(?:[eE][-+]?\d+)?$"
GERMAN = r"^[-+]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d*)?(?:[eE][-+]?\d+)?$"
_ONLY_ENGLISH = (
    r"^[-+]?(?:\d{1,3}(?:,\d{3}){2,}|[\d,]*\d\.(?:\d{1,2}|\d{4,})|\d{1,3}(?:,\d{3})+\.\d+|0\.\d+|\d{4,}\.\d+)$"
)
_ONLY_GERMAN = r"^[-+]?(?:\d{1,3}(?:\.\d{3}){2,}|[\d.]*\d,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+|0,\d+|\d{4,},\d+)$"
_SPACED = "[\u00a0\u202f\u2009'\u2019 ]"
_INSTANCES = r"^([-+0-9.,eE]+)\s*[(\[{;].*$"
_MARK = r"^\(!\)\s*"
_PERCENT = r"\s*%$"
_DIMENSION = re.compile(r"\d+")
_LONGEST_DIMENSION = 10


@lru_cache(maxsize=1024)
def base_unit(unit: str) -> tuple[str, float]:
    """The unit without its prefix, and the factor: ``("byte/s", 1e9)`` for ``Gbyte/second``.

    Times become ns, but rates become per second; cycles per second become hz.
    """
    unit = unit.strip()
    top, slash, bottom = unit.partition("/")
    if not slash:
        if unit in _SECONDS:
            return "ns", _nanoseconds(unit)
        base, factor = _scaled(unit)
        return base, factor
    base, factor = ("ns", _nanoseconds(top)) if top in _SECONDS else _scaled(top)
    if bottom in _SECONDS:
        factor /= _SECONDS[bottom]
        if _SECONDS[bottom] < 1:
            factor = round(factor)
        return ("hz", factor) if base == "cycle" else (f"{base}/s", factor)
    below, divisor = _scaled(bottom)
    return f"{base}/{below}", factor / divisor


def _nanoseconds(unit: str) -> float:
    return float(round(_SECONDS[unit] * 1e9)) if _SECONDS[unit] >= 1e-9 else 1e-3


def _scaled(unit: str) -> tuple[str, float]:
    found = _SCALABLE.fullmatch(unit)
    if found is None:
        return unit, 1.0
    prefix = found[1] or ""
    base = {"B": "byte", "bytes": "byte", "Hz": "hz"}.get(found[2], found[2])
    return base, _BINARY[prefix] if prefix in _BINARY else _PREFIXES[prefix]


def decimal_comma(cells: pl.Series) -> bool:
    """Whether the numbers among these texts are written 1.234,5 rather than 1,234.5.

    A single separator before three digits can mean either and does not count. Without evidence it is 1,234.5.
    """
    # ncu writes numbers in the language of the machine on which it ran
    german = int(cells.str.contains(_ONLY_GERMAN).sum())
    return german > int(cells.str.contains(_ONLY_ENGLISH).sum())


def parse(cells: pl.Series, *, comma: bool = False) -> tuple[pl.Series, pl.Series]:
    """Returns (numbers, texts) of cells: each cell is a number, or a text instead of one, or neither if it is empty.

    A cell with the instances of a metric (``158 (0: 79; 1: 79)``) counts as its total; ``nan``, ``inf``, ``n/a`` and
    lists such as ``0,1,2`` are not numbers.
    """
    trimmed = cells.str.strip_chars()
    if comma:
        return _spelled(trimmed, comma=True)
    # most cells are plain numbers, which need no pattern
    direct = trimmed.cast(pl.Float64, strict=False)
    frame = pl.DataFrame({"direct": direct, "raw": trimmed})
    rest = frame.filter(~pl.col("direct").is_finite().fill_null(value=False) & (pl.col("raw") != ""))
    if rest.height == frame.height:
        return _spelled(trimmed, comma=False)
    # a metric has the same few texts in many launches
    texts = rest["raw"].unique()
    number, text = _spelled(texts, comma=False)
    spelled = pl.DataFrame({"raw": texts, "number": number, "text": text})
    found = frame.join(spelled, on="raw", how="left", maintain_order="left")
    known = pl.col("direct").is_finite()
    found = found.select("text", number=pl.when(known).then("direct").otherwise("number"))
    return found["number"], found["text"]


def _spelled(trimmed: pl.Series, *, comma: bool) -> tuple[pl.Series, pl.Series]:
    """`parse` for cells of any spelling, already stripped."""
    plain = trimmed.str.replace(_MARK, "").str.replace(_INSTANCES, "$1").str.replace(_PERCENT, "")
    spaced = rf"^[-+]?\d{{1,3}}(?:{_SPACED}\d{{3}})+(?:[.,]\d+)?$"
    thousands, point = (".", ",") if comma else (",", ".")
    frame = pl.DataFrame({"plain": plain, "raw": trimmed})
    joined = (
        pl.when(pl.col("plain").str.contains(spaced))
        .then(pl.col("plain").str.replace_all(_SPACED, ""))
        .otherwise(pl.col("plain"))
    )
    digits = joined.str.replace_all(thousands, "", literal=True).str.replace(point, ".", literal=True)
    number = pl.when(joined.str.contains(GERMAN if comma else ENGLISH)).then(digits).cast(pl.Float64, strict=False)
    found = frame.select(number=pl.when(number.is_finite()).then(number), raw="raw")
    text = found.select(pl.when(pl.col("number").is_null() & (pl.col("raw") != "")).then("raw")).to_series()
    return found["number"], text


def dimensions(texts: Iterable[str]) -> list[list[int] | None]:
    """Reads ``(256, 1, 1)`` as three numbers; None for any other text."""
    found: list[list[int] | None] = []
    for text in texts:
        written = _DIMENSION.findall(text)
        # Python refuses to make a number of thousands of digits
        parts = [int(part) for part in written if len(part) <= _LONGEST_DIMENSION]
        usable = 0 < len(parts) == len(written) <= 3 and max(parts) < 1 << 31
        found.append([*parts, *[1] * (3 - len(parts))] if usable else None)
    return found
