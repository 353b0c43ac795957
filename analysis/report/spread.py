"""How the launches of each kernel of a report spread over durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.distribution import distribution, p95_of
from tracetui.analysis.base.json_values import us

if TYPE_CHECKING:
    from collections.abc import Collection

    from tracetui.analysis.base.json_values import Json

BINS = 40
"""The most bins of a distribution."""


def distributions(launches: pl.DataFrame, names: Collection[str]) -> dict[str, Json]:
    """``p95_us`` and ``distribution`` of kernels, by name; the latter is null where all launches take the same time."""
    rows = launches.select(pl.col("name").cast(pl.String), "duration").drop_nulls("duration")
    rows = rows.filter(pl.col("name").is_in(list(names))).sort("duration")
    found: dict[str, Json] = {}
    for (name,), group in rows.group_by("name"):
        durations = group["duration"]
        spread = distribution(durations, min(BINS, max(round(3 * len(durations) ** 0.5), 12)))
        found[str(name)] = {
            "p95_us": us(p95_of(durations.to_numpy())),
            "distribution": spread
            and {
                "log": spread.log,
                "edges_us": [us(edge) for edge in spread.edges],
                "counts": list(spread.counts),
            },
        }
    return found
