"""Turns NumPy columns into Polars frames: placeholders become null, and missing columns cost no memory.

The placeholder is the type's smallest value in signed columns, `categories.NULL_CODE` in codes of strings, -1 in
triples of sizes and in row numbers, nan in floats, and any number without a meaning in enumerations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.parsers import categories, schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def integers(values: NDArray[Any]) -> pl.Series:
    """Int64 with the smallest value of the array's type as null."""
    missing = values == np.iinfo(values.dtype).min
    series: pl.Series = pl.Series(values).cast(pl.Int64)
    if missing.any():
        return _without(series, missing)
    return series


def row_ids(values: NDArray[Any]) -> pl.Series:
    """Row ids with -1 as null."""
    series = pl.Series(values.astype(np.uint32))
    missing = values < 0
    if missing.any():
        return _without(series, missing)
    return series


def sizes(values: NDArray[np.int32]) -> pl.Series:
    """Grid or block sizes; rows of -1 are null."""
    missing = values[:, 0] < 0
    series = pl.Series(values, dtype=schema.Dim3)
    if missing.any():
        return _without(series, missing)
    return series


def _without(series: pl.Series, missing: NDArray[np.bool_]) -> pl.Series:
    return pl.select(pl.when(pl.Series(~missing)).then(series)).to_series()


def column(dtype: Any, values: NDArray[Any]) -> pl.Series:
    """One column of a frame."""
    if dtype == schema.Name:
        return categories.decode(values)
    if dtype == schema.Dim3:
        return sizes(values)
    if isinstance(dtype, pl.Enum):
        known = values < len(dtype.categories)
        if not known.all():
            return _without(pl.Series(np.where(known, values, 0).astype(values.dtype)).cat.to(dtype), ~known)
        return pl.Series(values).cat.to(dtype)
    if dtype == pl.Float64:
        return pl.Series(values, nan_to_null=True)
    return integers(values)


def frame(
    layout: dict[str, pl.DataType],
    columns: dict[str, NDArray[Any]],
    rows: Mapping[str, NDArray[Any]],
    **ready: pl.Series,
) -> pl.DataFrame:
    """Turns columns into a frame of this layout, releasing each as it is taken; missing columns are null."""
    size = next(iter(columns.values())).shape[0]
    taken: list[pl.Series] = []
    constant: list[pl.Expr] = []
    for name, dtype in layout.items():
        if name in rows:
            taken.append(row_ids(rows[name]).alias(name))
        elif name in ready:
            taken.append(ready[name].alias(name))
        elif name not in columns:
            constant.append(pl.lit(None, dtype).alias(name))
        elif dtype == pl.Int64 and _is_constant(columns[name]):
            constant.append(pl.lit(column(dtype, columns.pop(name)[:1])[0], dtype).alias(name))
        else:
            taken.append(column(dtype, columns.pop(name)).alias(name))
    if not size:
        return pl.DataFrame(schema=layout)
    # a literal is one value however long the frame
    return pl.DataFrame(taken).with_columns(constant).select(list(layout))


def _is_constant(values: NDArray[Any]) -> bool:
    return values.size > 0 and bool((values[:1000] == values[0]).all() and (values == values[0]).all())
