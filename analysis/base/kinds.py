"""Which rows of a frame are of some kinds, without a copy of more of the frame than needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray


def of_kinds(kind: pl.Series, *wanted: str) -> NDArray[np.bool_]:
    """Marks the rows of these kinds; null is none.

    Args:
        kind: a column of an enumeration (`schema.HostKind`, `schema.DeviceKind`).
        wanted: some of its values.
    """
    values = kind.dtype.categories.to_list()  # type: ignore[attr-defined]
    if len(wanted) == 1 and wanted[0] in values and not kind.null_count():  # a comparison is faster than a look-up
        single: NDArray[np.bool_] = kind.to_physical().to_numpy() == values.index(wanted[0])
        return single
    # a place more, for null
    table = np.array([*(value in wanted for value in values), False])
    codes = kind.to_physical()
    found: NDArray[np.bool_] = table[(codes.fill_null(len(values)) if codes.null_count() else codes).to_numpy()]
    return found


def rows_of(frame: pl.DataFrame, *wanted: str) -> pl.DataFrame:
    """The rows of a frame whose column ``kind`` is one of these; the frame itself where all are."""
    return rows_where(frame, of_kinds(frame["kind"], *wanted))


def rows_where(frame: pl.DataFrame, chosen: NDArray[np.bool_]) -> pl.DataFrame:
    """The chosen rows; the frame itself where all are, since a filter would copy each column."""
    return frame if bool(chosen.all()) else frame.filter(pl.Series(chosen))
