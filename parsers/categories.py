"""Strings as 32-bit codes that NumPy can carry, and back to a Polars Categorical.

Polars keeps one dictionary for all Categoricals of the process, but drops it when the last of them goes, and codes
held in NumPy don't count. The one kept here makes codes stay valid for as long as the program runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Codes = NDArray[np.uint32]

_KEEPER = pl.Series([""]).cast(pl.Categorical)
NULL_CODE = 0xFFFFFFFF


def encode(values: Iterable[str | None] | pl.Series) -> Codes:
    """The code of each string; `NULL_CODE` for null."""
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
    r"""Text that UTF-8 can hold: half a surrogate pair, which JSON can spell, stays as it is spelled (``\ud800``)."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def decode(codes: Codes) -> pl.Series:
    """The Categorical series of these codes."""
    series = pl.Series(codes, dtype=pl.UInt32)
    missing = codes == NULL_CODE
    if missing.any():
        # a code of no string must not reach the cast
        series = pl.select(pl.when(pl.Series(missing)).then(None).otherwise(series)).to_series()
    return series.cat.to(pl.Categorical)


def texts(codes: Codes) -> dict[int, str]:
    """The string of each distinct code, null left out."""
    distinct = np.unique(codes)
    distinct = distinct[distinct != NULL_CODE]
    return dict(zip(distinct.tolist(), decode(distinct).cast(pl.String).to_list(), strict=True))
