"""Which rows have a name or a kind: each distinct name is asked about once, and no more is copied than needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import polars as pl

from tracetui.parsers import categories
from tracetui.parsers.arrays import Bools, Codes, Ints

_MANY = 1 << 18
_SEEN: deque[tuple[Codes, Ints]] = deque(maxlen=4)
"""The long columns that were asked about last, and the categories that occur in each. Holding a column keeps its memory
from being used for another one, so that its address tells it."""


def mapped(
    names: pl.Series, word: Callable[[str], str | None], default: str | None, dtype: pl.DataType | None = None
) -> pl.Series:
    """A text for each row's name; `default` for null."""
    codes, limit, distinct = _codes(names)
    words = pl.Series([*map(word, categories.texts_of(distinct)), default], dtype=pl.String)
    words = words if dtype is None else words.cast(dtype)
    place = np.full(limit + 1, distinct.size, np.int64)
    place[distinct] = np.arange(distinct.size)
    return words.gather(place[codes])


def matching(names: pl.Series, predicate: Callable[[str], bool]) -> Bools:
    """Which rows have a name for which `predicate` holds; null never does."""
    codes, limit, distinct = _codes(names)
    answers = [bool(predicate(name)) for name in categories.texts_of(distinct)]
    if not any(answers):  # as with most questions: no row needs to be looked at
        return np.zeros(codes.size, np.bool_)
    table = np.zeros(limit + 1, np.bool_)
    table[distinct] = answers
    chosen: Bools = table[codes]
    return chosen


def numbered(names: pl.Series, chosen: Bools, word: Callable[[str], str], default: str) -> tuple[Ints, list[str]]:
    """A text for each chosen row's name, as its place in a list of the texts; `default` for null."""
    physical = names.cast(pl.Categorical).to_physical().filter(pl.Series(chosen))
    limit = _above(physical)
    codes: Codes = (physical.fill_null(limit) if physical.null_count() else physical).to_numpy()
    distinct = _distinct(codes, limit)
    words = [*map(word, categories.texts_of(distinct)), default]
    place = {text: number for number, text in enumerate(dict.fromkeys(words))}
    table = np.empty(limit + 1, np.int64)
    table[distinct] = [place[text] for text in words[:-1]]
    table[limit] = place[default]
    numbers: Ints = table[codes]
    return numbers, list(place)


def distinct(names: pl.Series) -> list[str]:
    """The names that occur, each once, without null."""
    return categories.texts_of(_codes(names)[2])


def _codes(names: pl.Series) -> tuple[Codes, int, Ints]:
    """Each row's category, a number above all of them, which stands for null, and the categories that occur."""
    physical = names.cast(pl.Categorical).to_physical()
    if physical.null_count():
        limit = _above(physical)
        codes: Codes = physical.fill_null(limit).to_numpy()
        return codes, limit, _distinct(codes, limit)
    codes = physical.to_numpy()
    if codes.size >= _MANY:
        for known, distinct in tuple(_SEEN):
            if known.ctypes.data == codes.ctypes.data and known.size == codes.size:
                return codes, int(distinct[-1]) + 1, distinct
    limit = _above(physical)
    distinct = _distinct(codes, limit)
    if codes.size >= _MANY:
        _SEEN.append((codes, distinct))
    return codes, limit, distinct


def _above(codes: pl.Series) -> int:
    highest = codes.max()
    return 0 if highest is None else int(highest) + 1  # type: ignore[arg-type]


def _distinct(codes: Codes, limit: int) -> Ints:
    """The categories that occur, ascending, without null."""
    present = np.zeros(limit + 1, np.bool_)
    present[codes] = True
    return np.flatnonzero(present[:limit])


def of_kinds(kind: pl.Series, *wanted: str) -> Bools:
    """Marks the rows of these kinds; null is none.

    Args:
        kind: a column of an enumeration (`schema.HostKind`, `schema.DeviceKind`).
        wanted: some of its values.
    """
    values = kind.dtype.categories.to_list()  # type: ignore[attr-defined]
    if len(wanted) == 1 and wanted[0] in values and not kind.null_count():  # a comparison is faster than a look-up
        single: Bools = kind.to_physical().to_numpy() == values.index(wanted[0])
        return single
    # a place more, for null
    table = np.array([*(value in wanted for value in values), False])
    codes = kind.to_physical()
    chosen: Bools = table[(codes.fill_null(len(values)) if codes.null_count() else codes).to_numpy()]
    return chosen


def rows_of(frame: pl.DataFrame, *wanted: str) -> pl.DataFrame:
    """The rows of a frame whose column ``kind`` is one of these; the frame itself where all are."""
    return rows_where(frame, of_kinds(frame["kind"], *wanted))


def rows_where(frame: pl.DataFrame, chosen: Bools) -> pl.DataFrame:
    """The chosen rows; the frame itself where all are, since a filter would copy each column."""
    return frame if bool(chosen.all()) else frame.filter(pl.Series(chosen))
