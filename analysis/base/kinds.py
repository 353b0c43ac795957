"""Which rows of a frame are of some kinds, without a copy of the frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


def of_kinds(kind: pl.Series, *wanted: str) -> NDArray[np.bool_]:
    """Marks the rows of these kinds; null is none.

    Args:
        kind: a column of an enumeration (`schema.HostKind`, `schema.DeviceKind`).
        wanted: some of its values.
    """
    values = kind.dtype.categories.to_list()  # type: ignore[attr-defined]
    # a place more, for null
    table = np.array([*(value in wanted for value in values), False])
    codes = kind.to_physical()
    found: NDArray[np.bool_] = table[(codes.fill_null(len(values)) if codes.null_count() else codes).to_numpy()]
    return found
