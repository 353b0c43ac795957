"""Numbers as `nsys stats` prints them: statistics of groups of durations, rounded on the exact binary value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

import polars as pl


@dataclass(frozen=True, slots=True)
class StatsTable:
    """One of NVIDIA's reports."""

    name: str
    """``cuda_gpu_kern_sum``."""
    title: str
    """``CUDA GPU Kernel Summary``."""
    rows: pl.DataFrame
    """Columns by NVIDIA's titles, in its order; Float64 columns are rounded to `digits`, null prints as nothing."""
    lacks: str
    """The data that the trace lacks if there are no rows: ``CUDA trace data``."""

    def digits(self, column: str) -> int:
        """Decimals of a Float64 column: three for megabytes, one for the others."""
        return 3 if "(MB" in column else 1


def rounded(value: float | None, digits: int = 1) -> float | None:
    """Rounds as SQLite's `round` does: the exact binary value, halves away from zero. 841.15 is less than it looks."""
    if value is None:
        return None
    return float(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def rounded_series(values: pl.Series, digits: int) -> pl.Series:
    """`rounded` for every value, computed once per distinct value."""
    distinct = values.unique().drop_nulls()
    table = pl.Series([rounded(value, digits) for value in distinct.to_list()], dtype=pl.Float64)
    result: pl.Series = values.replace_strict(distinct, table, default=None, return_dtype=pl.Float64)
    return result


def statistics(value: str, prefix: str = "") -> list[pl.Expr]:
    """Aggregations for a group: total, mean, median, min, max and the sample's standard deviation, 0 for one value.

    The columns are named `prefix` + ``total``, ``num``, ``avg``, ``med``, ``min``, ``max``, ``std``. Null values are
    ignored; for a group without values every column is null except ``std``, which is 0.
    """
    column = pl.col(value)
    sums = {
        "total": column.sum(),
        "num": column.count(),
        "avg": column.mean(),
        "med": column.median(),
        "min": column.min(),
        "max": column.max(),
        "std": column.std().fill_null(0.0),
    }
    return [expression.alias(prefix + name) for name, expression in sums.items()]


def percent_of_all(total: pl.Series) -> pl.Series:
    """Share of each total in the sum of all, null where that is 0."""
    all_of = int(total.sum())
    shares = [rounded(value * 100.0 / all_of) if all_of else None for value in total.to_list()]
    return pl.Series(shares, dtype=pl.Float64)


def timing_columns(groups: pl.DataFrame, count: str) -> list[pl.Series]:
    """``Total Time (ns)``, `count`, ``Avg (ns)`` … ``StdDev (ns)`` of aggregated groups."""
    return [
        groups["total"].alias("Total Time (ns)"),
        groups["num"].cast(pl.Int64).alias(count),
        *spread_columns(groups, "(ns)"),
    ]


def spread_columns(groups: pl.DataFrame, unit: str, *, prefix: str = "", label: str = "") -> list[pl.Series]:
    """``Avg``, ``Med``, ``Min``, ``Max`` and ``StdDev`` with a unit; extremes of nanoseconds are whole numbers."""
    columns = []
    for name, title in (("avg", "Avg"), ("med", "Med"), ("min", "Min"), ("max", "Max"), ("std", "StdDev")):
        values = groups[prefix + name]
        if values.dtype.is_float():
            values = pl.Series(
                [rounded(value, 3 if "MB" in unit else 1) for value in values.to_list()], dtype=pl.Float64
            )
        columns.append(values.alias(f"{label}{title} {unit}"))
    return columns


def with_percent(groups: pl.DataFrame, columns: Sequence[pl.Series]) -> pl.DataFrame:
    """The share of each total in the sum of all, as the column ``Time (%)``."""
    return pl.DataFrame([percent_of_all(groups["total"]).alias("Time (%)"), *columns])
