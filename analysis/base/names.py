"""Questions about names, asked once per distinct name and answered for every row."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.parsers import categories

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Codes = NDArray[np.uint32]

_KEPT = 4096
"""The texts of a column with at most this many distinct names are cached: a few hundred kernels are used often."""
_MANY = 1 << 18
_SEEN: deque[tuple[Codes, NDArray[np.int64]]] = deque(maxlen=2)
"""The long columns that were asked about last, and the categories that occur in each. Holding a column keeps its memory
from being used for another one, so that its address tells it."""
_TEXTS: dict[int, str] = {}
"""The text of a category; `categories` keeps the numbers valid for as long as the program runs."""


def mapped(
    names: pl.Series, word: Callable[[str], str | None], default: str | None, dtype: pl.DataType | None = None
) -> pl.Series:
    """A text for each row's name; `default` for null."""
    codes, limit, distinct = _codes(names)
    found = pl.Series([*map(word, _texts(distinct)), default], dtype=pl.String)
    found = found if dtype is None else found.cast(dtype)
    place = np.full(limit + 1, distinct.size, np.int64)
    place[distinct] = np.arange(distinct.size)
    return found.gather(place[codes])


def matching(names: pl.Series, predicate: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which rows have a name for which `predicate` holds; null never does."""
    codes, limit, distinct = _codes(names)
    table = np.zeros(limit + 1, np.bool_)
    table[distinct] = [bool(predicate(name)) for name in _texts(distinct)]
    found: NDArray[np.bool_] = table[codes]
    return found


def distinct(names: pl.Series) -> list[str]:
    """The names that occur, each once, without null."""
    return _texts(_codes(names)[2])


def _codes(names: pl.Series) -> tuple[Codes, int, NDArray[np.int64]]:
    """Each row's category, a number above all of them, which stands for null, and the categories that occur."""
    physical = names.cast(pl.Categorical).to_physical()
    highest = physical.max()
    limit = 0 if highest is None else int(highest) + 1
    codes: Codes = (physical.fill_null(limit) if physical.null_count() else physical).to_numpy()
    if codes.size < _MANY:
        return codes, limit, _distinct(codes, limit)
    for known, distinct in tuple(_SEEN):
        if known.ctypes.data == codes.ctypes.data and known.size == codes.size and limit == int(distinct[-1]) + 1:
            return codes, limit, distinct
    distinct = _distinct(codes, limit)
    if distinct.size and limit == int(distinct[-1]) + 1:
        _SEEN.append((codes, distinct))
    return codes, limit, distinct


def _distinct(codes: Codes, limit: int) -> NDArray[np.int64]:
    """The categories that occur, ascending, without null."""
    present = np.zeros(limit + 1, np.bool_)
    present[codes] = True
    return np.flatnonzero(present[:limit])


def _texts(distinct: NDArray[np.int64]) -> list[str]:
    """The text of each category."""
    numbers: list[int] = distinct.tolist()
    if len(numbers) > _KEPT:
        return _decoded(distinct)
    try:
        return [_TEXTS[number] for number in numbers]
    except KeyError:
        _TEXTS.update(zip(numbers, _decoded(distinct), strict=True))
        return [_TEXTS[number] for number in numbers]


def _decoded(distinct: NDArray[np.int64]) -> list[str]:
    texts: list[str] = categories.decode(distinct.astype(np.uint32)).cast(pl.String).to_list()
    return texts
