"""The events in which the host waits for the next batch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base import intervals, names

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals
    from tracetui.parsers import Trace

LOADING = re.compile(
    r"(?<![a-z])(data[ _]?(load(er|ing)?|fetch|wait)|(load(ing)?|next|get|fetch)[ _]?(batch|data))(?![a-z])",
    re.IGNORECASE,
)
"""Names that people give to ranges around ``next(loader)``."""


def loading_rows(trace: Trace) -> pl.DataFrame:
    """The loader's own events, else ranges named like `LOADING`: rows of `schema.HOST`."""
    rows = trace.host.filter(pl.col("kind") == "dataloader")
    if rows.height:
        return rows
    named = names.matching(trace.host["name"], lambda name: LOADING.search(name) is not None)
    return trace.host.filter(pl.Series(named) & (pl.col("kind") == "annotation"))


def loading_time(trace: Trace) -> Intervals:
    """When the host waits for the next batch."""
    rows = loading_rows(trace)
    start = rows["start"].to_numpy()
    return intervals.union(start, start + rows["duration"].to_numpy())
