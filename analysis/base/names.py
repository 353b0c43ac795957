"""Questions about names, asked once per distinct name and answered for every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def mapped(
    names: pl.Series, word: Callable[[str], str | None], default: str | None, dtype: pl.DataType | None = None
) -> pl.Series:
    """A text for each row's name; `default` for null."""
    codes = names.cast(pl.Categorical).to_physical()
    distinct = names.unique().drop_nulls().cast(pl.Categorical)
    found = pl.Series([*(word(name) for name in distinct.cast(pl.String)), default], dtype=pl.String)
    found = found if dtype is None else found.cast(dtype)
    known = distinct.to_physical().to_numpy()
    limit = int(known.max()) + 1 if known.size else 0
    place = np.full(limit + 1, known.size, np.int64)
    place[known] = np.arange(known.size)
    return found.gather(place[codes.fill_null(limit).to_numpy()])


def matching(names: pl.Series, predicate: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which rows have a name for which `predicate` holds; null never does."""
    codes = names.cast(pl.Categorical).to_physical()
    distinct = names.unique().drop_nulls().cast(pl.Categorical)
    chosen = distinct.filter(pl.Series([predicate(name) for name in distinct.cast(pl.String)], dtype=pl.Boolean))
    if not len(chosen):
        return np.zeros(len(names), np.bool_)
    wanted = chosen.to_physical().to_numpy()
    limit = int(wanted.max()) + 1
    table = np.zeros(limit + 1, np.bool_)
    table[wanted] = True
    found: NDArray[np.bool_] = table[np.minimum(codes.fill_null(limit).to_numpy(), limit)]
    return found
