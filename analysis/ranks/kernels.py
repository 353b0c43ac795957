"""A rank's kernels by name: how often, how long, and a histogram that adds up over ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.ranks.histogram import BINS, bins_of
from tracetui.analysis.ranks.summary import KERNELS
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from tracetui.parsers import Trace

KEPT = 200
"""How many names a summary has; the rest is one row."""
REST = ""
"""The name of the row for the others."""


def kernel_rows(trace: Trace) -> pl.DataFrame:
    """The kernels (`summary.KERNELS`), the most time first; launches whose duration is unknown are left out."""
    rows = trace.device.filter(pl.col("kind").is_in(["kernel", "graph"]) & pl.col("duration").is_not_null()).select(
        "name", "duration"
    )
    if not rows.height:
        return pl.DataFrame(schema=KERNELS)
    totals = (
        rows.group_by("name")
        .agg(pl.len().alias("count"), pl.col("duration").sum().alias("total_ns"))
        .with_columns(pl.col("name").cast(pl.String).fill_null(REST).alias("text"))
        .sort("total_ns", "text", descending=[True, False])
        .with_row_index("place")
        .with_columns(pl.col("place").clip(upper_bound=KEPT))
    )
    place = rows.join(totals.select("name", "place"), on="name", how="left", nulls_equal=True)["place"].to_numpy()
    bins = bins_of(rows["duration"].to_numpy())
    height = int(place.max()) + 1
    counts = np.bincount(place.astype(np.int64) * BINS + bins, minlength=height * BINS).reshape(height, BINS)
    spent = totals.group_by("place").agg(pl.col("count").sum(), pl.col("total_ns").sum()).sort("place")
    named = totals["text"].head(KEPT).to_list()
    names = [*named, REST] if height > KEPT else named
    return pl.DataFrame(
        {
            "name": names,
            "category": [kernel_names.category(name) if name else None for name in names],
            "count": spent["count"].cast(pl.Int64),
            "total_ns": spent["total_ns"],
            "histogram": [row[: int(np.flatnonzero(row)[-1]) + 1].tolist() for row in counts],
        },
        schema=KERNELS,
    )
