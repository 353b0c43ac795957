"""Counters of the measured launches, by kernel as a recording spells it: what the rules on them share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.counters.counters import launch_counters
from tracetui.analysis.matching.join import joined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.parsers import Trace


def counted(facts: Facts, metrics: Mapping[str, tuple[str, ...]], said_by: str = "") -> pl.DataFrame:
    """A row per measured launch of a kernel of this recording; no rows where no metric and no advice is there.

    The columns are ``kernel, ns`` (its duration under ncu), one per entry of `metrics` (the first of its names that was
    collected, on whichever page; null where none was), and ``text``: what ncu's rule `said_by` says of the launch.
    """
    tables = [
        table for trace in facts.run.of_kind("ncu") if (table := _of_trace(facts, trace, metrics, said_by)).height
    ]
    return pl.concat(tables) if tables else pl.DataFrame()


def by_time(column: str) -> pl.Expr:
    """The mean of a column over launches, weighted by their time; null where no launch has it."""
    known = pl.col(column).is_not_null() & pl.col("ns").is_not_null()
    weight = pl.when(known).then(pl.col("ns"))
    return pl.when(weight.sum() > 0).then((pl.col(column) * weight).sum() / weight.sum())


def total(column: str) -> pl.Expr:
    """The sum of a column over launches; null where no launch has it."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum())


def _of_trace(facts: Facts, trace: Trace, metrics: Mapping[str, tuple[str, ...]], said_by: str) -> pl.DataFrame:
    names = [name for spellings in metrics.values() for name in spellings]
    rows, value, metric = trace.counters.lazy(), pl.col("value"), pl.col("metric")
    is_metric = pl.col("kind") == "metric"
    values = rows.filter(is_metric & metric.is_in(names) & value.is_not_null())
    values = (
        values.select("device_row", "value", metric.cast(pl.String))
        .group_by("device_row")
        .agg(
            **{
                column: pl.coalesce(*(value.filter(metric == name).first() for name in spellings))
                for column, spellings in metrics.items()
            }
        )
    )
    said = rows.filter(~is_metric & (metric == said_by)).select("device_row", "text")
    of_launch, advice = pl.collect_all([values, said])
    if not of_launch.height and not advice.height:
        return pl.DataFrame()
    texts = advice.drop_nulls("text").group_by("device_row").agg(pl.col("text").str.join("\n"))
    durations = launch_counters(trace).select("device_row", ns="duration_ns")
    table = _spelled(facts, trace).join(durations, on="device_row")
    table = table.join(of_launch, on="device_row", how="left").join(texts, on="device_row", how="left")
    return table.drop("device_row").select("kernel", "ns", *metrics, "text")


def _spelled(facts: Facts, trace: Trace) -> pl.DataFrame:
    """``device_row`` of ncu's launches and the kernel as the recording spells it."""
    if trace is facts.trace:
        return trace.device.select(kernel=pl.col("name").cast(pl.String)).with_row_index("device_row")
    for each in joined(facts.run, facts.trace, "ncu"):
        if each.other is trace:
            ours = each.join.launches.filter(pl.col("status") == "matched")
            return ours.select(pl.col("row").alias("device_row"), pl.col("kernel").cast(pl.String))
    return pl.DataFrame(schema={"device_row": pl.UInt32, "kernel": pl.String})
