"""The columns that every table of calls has: how many, how long in all, on average, at the extremes."""

from __future__ import annotations

import polars as pl


def timings() -> list[pl.Expr]:
    """Aggregations of durations in ns; the standard deviation is of the sample, 0 for a single call."""
    value = pl.col("duration")
    return [
        pl.len().alias("calls"),
        value.sum().alias("total_ns"),
        value.mean().alias("mean_ns"),
        value.median().alias("median_ns"),
        value.min().alias("min_ns"),
        value.max().alias("max_ns"),
        value.std().fill_null(0.0).alias("std_ns"),
    ]


def by_name(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns name, calls and timings of rows (name, duration), the longest total first."""
    return (
        frame.group_by("name")
        .agg(timings())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("total_ns", "name", descending=[True, False])
    )
