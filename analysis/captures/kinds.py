"""Kinds of GPU work, finer than categories where a variant of a program adds work: top-k, sorting, gathering."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.base import names
from tracetui.parsers.names.kernel_names import kind_of

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection


def kind_series(device: pl.DataFrame) -> pl.Series:
    """Each device row's kind: of a kernel by its name (`kind_of`), else what it is (``memcpy``)."""
    by_name = names.mapped(device["name"], kind_of, "other", pl.String())
    is_kernel = device["kind"].is_in(["kernel", "graph"])
    kinds: pl.Series = by_name.zip_with(is_kernel, device["kind"].cast(pl.String)).alias("kind")
    return kinds


def kind_times(sel: Selection) -> pl.DataFrame:
    """One row per kind of GPU work in scope, per step: kind, calls, ns, ``top``: its kernel with most time."""
    device = device_work(sel)
    work = device.select(
        kind_series(device), pl.col("name").cast(pl.String), pl.col("duration").fill_null(0).alias("ns")
    )
    by_name = work.group_by("kind", "name").agg(calls=pl.len(), ns=pl.col("ns").sum())
    by_name = by_name.sort("ns", "name", descending=[True, False])
    steps = sel.step_count
    return (
        by_name.group_by("kind", maintain_order=True)
        .agg(calls=pl.col("calls").sum() / steps, ns=pl.col("ns").sum() / steps, top=pl.col("name").first())
        .sort("ns", "kind", descending=[True, False])
    )
