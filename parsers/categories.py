"""Turns strings into 32-bit codes for NumPy, and the codes back into a Polars Categorical.

Polars keeps one dictionary for all Categoricals of the process but drops it with the last of them, and codes held in
NumPy don't count. The Categorical kept here keeps all codes valid as long as the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetui.parsers.arrays import Bools, Codes, Ints

Answer = TypeVar("Answer", bool, str)

_KEEPER = pl.Series([""]).cast(pl.Categorical)
NULL_CODE = 0xFFFFFFFF
KEPT = 4096
"""Of a column with at most so many distinct strings, what is asked about each is kept: the files of a job's ranks, and
the frames of one file, have the same names."""
_MOST_KEPT = 1 << 14
_TEXTS: dict[int, str] = {}
"""By code."""
_MATCHES: dict[str, dict[int, bool]] = {}
"""By pattern and code."""


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
    return dict(zip(known.tolist(), texts_of(known), strict=True))


def texts_of(distinct: NDArray[np.integer]) -> list[str]:
    """Returns the string of each of these codes, none of which is null or there twice."""
    return _answers(_TEXTS, distinct, lambda unknown: unknown)


def _answers(
    kept: dict[int, Answer], distinct: NDArray[np.integer], asked: Callable[[pl.Series], pl.Series]
) -> list[Answer]:
    """What is asked of the string of each of these codes: of those that no one has asked about before, all at once."""
    if distinct.size > KEPT:
        everything: list[Answer] = asked(decode(distinct.astype(np.uint32)).cast(pl.String)).to_list()
        return everything
    numbers: list[int] = distinct.tolist()
    unknown = [number for number in numbers if number not in kept]
    if not unknown:
        return [kept[number] for number in numbers]
    found = asked(decode(np.array(unknown, np.uint32)).cast(pl.String))
    new: dict[int, Answer] = dict(zip(unknown, found.to_list(), strict=True))
    if len(kept) < _MOST_KEPT:
        kept.update(new)
    return [new[number] if number in new else kept[number] for number in numbers]


def numbers(codes: Codes, number: Callable[[str], int]) -> Ints:
    """A number for each string, null being empty; the function is called once per distinct string."""
    known = texts(codes)
    table = np.full(max(known, default=-1) + 2, number("") if (codes == NULL_CODE).any() else 0, np.int64)
    table[list(known)] = [*map(number, known.values())]
    found: Ints = table[np.minimum(codes, np.uint32(table.size - 1))]
    return found


def matching(codes: Codes, pattern: str) -> Bools:
    """Which of the strings a regular expression finds something in; each distinct string is looked at once."""
    known = _distinct(codes)
    found = _answers(_MATCHES.setdefault(pattern, {}), known, lambda unknown: unknown.str.contains(pattern))
    wanted = known[np.array(found, np.bool_)]
    table = np.zeros(int(wanted.max(initial=0)) + 2, np.bool_)
    table[wanted] = True
    matched: Bools = table[np.minimum(codes, np.uint32(table.size - 1))]
    return matched


def _distinct(codes: Codes) -> Codes:
    """The codes that occur, ascending, without null."""
    named = codes[codes != NULL_CODE]
    seen = np.zeros(int(named.max(initial=0)) + 1, np.bool_)
    seen[named] = True
    return np.flatnonzero(seen).astype(np.uint32)
