"""How many launches an operator's or a module's GPU time is of, and how much it varies from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.attribution.calltree import row_ids
from tracetui.analysis.attribution.module_tree import module_tree
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.captures.kinds import kind_series

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

SCHEMA = {"name": pl.String(), "launches": pl.Float64(), "variance": pl.Float64()}
"""``launches`` is per step, of GPU work of any kind; ``variance`` is `variance_of_mean`."""


def variance_of_mean(steps: int) -> pl.Expr:
    """The variance of the mean over all steps of the column ``ns``, a row per step that has any; null for one step.

    Steps without a row count as 0.
    """
    if steps < 2:
        return pl.lit(None, pl.Float64)
    mean = pl.col("ns").sum() / steps
    spread = ((pl.col("ns").cast(pl.Float64) ** 2).sum() - steps * mean**2).clip(lower_bound=0)
    return spread / (steps - 1) / steps


def operator_noise(sel: Selection) -> pl.DataFrame:
    """The frame `SCHEMA` of the GPU work that each operator itself launched."""
    device = device_work(sel).filter(pl.col("operator").is_not_null())
    names = sel.trace.host["name"].gather(device["operator"]).cast(pl.String)
    each = device.select("step", pl.col("duration").alias("ns"), launches=pl.lit(1))
    return _noise(each.with_columns(names.alias("name")), sel)


def kind_noise(sel: Selection) -> pl.DataFrame:
    """The frame `SCHEMA` of each kind of GPU work."""
    device = device_work(sel)
    each = device.select("step", pl.col("duration").alias("ns"), kind_series(device).alias("name"), launches=pl.lit(1))
    return _noise(each, sel)


def module_noise(sel: Selection) -> pl.DataFrame:
    """The frame `SCHEMA` by path of the GPU work of each module with those inside and of its backward pass."""
    tree = module_tree(sel.trace)
    if not tree.paths:
        return pl.DataFrame(schema=SCHEMA)
    device = device_work(sel)
    own = pl.Series(tree.path_of(row_ids(device["module"])))
    backward = pl.Series(tree.path_of(row_ids(device["forward_module"])))
    number = pl.select(pl.when(own < 0).then(backward).otherwise(own)).to_series()
    spent = device.select("step", pl.col("duration").alias("ns")).with_columns(number.alias("number"))
    spent = spent.filter(pl.col("number") >= 0).group_by("number", "step").agg(pl.col("ns").sum(), launches=pl.len())
    above = [[at, *_ancestors(at, tree.parent)] for at in range(len(tree.paths))]
    holders = pl.DataFrame({"number": range(len(above)), "name": above}).explode("name")
    paths = pl.Series(tree.paths, dtype=pl.String)
    held = spent.join(holders.cast({"number": pl.Int64}), on="number")
    return _noise(held.with_columns(paths.gather(held["name"]).alias("name")).drop("number"), sel)


def _ancestors(at: int, parents: object) -> list[int]:
    found = []
    while (at := int(parents[at])) >= 0:  # type: ignore[index]
        found.append(at)
    return found


def _noise(spent: pl.DataFrame, sel: Selection) -> pl.DataFrame:
    """`SCHEMA` of rows (name, step, ns, launches) that have a step."""
    steps = sel.step_count
    if not spent.height:
        return pl.DataFrame(schema=SCHEMA)
    by_step = spent.group_by("name", "step").agg(pl.col("ns", "launches").sum())
    variance = variance_of_mean(steps).cast(pl.Float64)
    return by_step.group_by("name").agg(launches=pl.col("launches").sum() / steps, variance=variance)
