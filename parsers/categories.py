"""Turns strings into 32-bit codes for NumPy, and the codes back into a Polars Categorical.

Polars keeps one dictionary for all Categoricals of the process but drops it with the last of them, and codes held in
NumPy don't count. The Categorical kept here keeps all codes valid as long as the program runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Codes = NDArray[np.uint32]

_KEEPER = pl.Series([""]).cast(pl.Categorical)
NULL_CODE = 0xFFFFFFFF


def encode(values: Iterable[str | None] | pl.Series) -> Codes:
    """Returns the code of each string; `NULL_CODE` for null."""
    series = values if isinstance(values, pl.Series) else _strings(list(values))
    codes = series.cast(pl.Categorical).to_physical()
    array: Codes = (codes.fill_null(NULL_CODE) if codes.null_count() else codes).to_numpy()
    return array


def _strings(values: list[str | None]) -> pl.Series:
    try:
        return pl.Series(values, dtype=pl.String)
    except UnicodeEncodeError:
        return pl.Series([None if value is None else encodable(value) for value in values], dtype=pl.String)


def encodable(text: str) -> str:
    r"""Text that UTF-8 can encode: half a surrogate pair, which JSON can spell, becomes its escape (``\ud800``)."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def decode(codes: Codes) -> pl.Series:
    """Returns the codes as a Categorical series."""
    series = pl.Series(codes, dtype=pl.UInt32)
    missing = codes == NULL_CODE
    if missing.any():
        # a code without a string must not reach the cast
        series = series.set(pl.Series(missing), None)
    return series.cat.to(pl.Categorical)


def texts(codes: Codes) -> dict[int, str]:
    """Returns the string of each distinct code, ascending, without null."""
    known = _distinct(codes)
    return dict(zip(known.tolist(), decode(known).cast(pl.String).to_list(), strict=True))


def numbers(codes: Codes, number: Callable[[str], int]) -> NDArray[np.int64]:
    """A number for each string, null being empty; the function is called once per distinct string."""
    known = texts(codes)
    table = np.full(max(known, default=-1) + 2, number("") if (codes == NULL_CODE).any() else 0, np.int64)
    table[list(known)] = [*map(number, known.values())]
    found: NDArray[np.int64] = table[np.minimum(codes, np.uint32(table.size - 1))]
    return found


def matching(codes: Codes, pattern: str) -> NDArray[np.bool_]:
    """Which of the strings a regular expression finds something in; each distinct string is looked at once."""
    known = _distinct(codes)
    wanted = known[decode(known).cast(pl.String).str.contains(pattern).to_numpy()]
    table = np.zeros(int(wanted.max(initial=0)) + 2, np.bool_)
    table[wanted] = True
    matched: NDArray[np.bool_] = table[np.minimum(codes, np.uint32(table.size - 1))]
    return matched


def _distinct(codes: Codes) -> Codes:
    """The codes that occur, ascending, without null."""
    named = codes[codes != NULL_CODE]
    seen = np.zeros(int(named.max(initial=0)) + 1, np.bool_)
    seen[named] = True
    return np.flatnonzero(seen).astype(np.uint32)
