"""The kernels under each range of the tree: every GPU operation once, under the range that it was launched in.

A launch belongs to the innermost range around it on its own thread. Where its thread has none, as autograd's has none,
it belongs to the range of its process that began last among those open at the time: the kernels of a backward pass
stand under ``backward_pass``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE
from tracetui.analysis.attribution.concurrent_launches import open_elsewhere
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.attribution.projection import innermost
from tracetui.analysis.base import names
from tracetui.analysis.range_tree import range_paths
from tracetui.analysis.ranges import NOT_IN_ANY_RANGE
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection


def range_tree_kernels(sel: Selection) -> pl.DataFrame:
    """One row per path of ranges and name of the kernels, copies, fills and whole graphs launched directly in it.

    Returns:
        ``path`` and ``number`` as in `range_tree`; name, short_name, category (the kind of work where it is no kernel),
        calls, ``device_ns``: what the range's own thread launched, ``device_meanwhile_ns``: what any thread did. The
        latter sums to all GPU time over the rows; within a path, the most of it first.
    """
    tree = range_paths(sel.trace)
    device = device_work(sel)
    own = innermost(sel.trace.host, tree.rows, device)
    owner = np.where(own >= 0, own, open_elsewhere(sel, tree.rows, device))
    spent = pl.col("duration").fill_null(0)
    is_kernel = device["kind"].is_in(["kernel", "graph"])
    kinds = names.mapped(device["name"], kernel_names.category, "other").zip_with(
        is_kernel, device["kind"].cast(pl.String)
    )
    found = (
        device.select("duration", pl.col("name").cast(pl.String))
        .with_columns(
            kinds.alias("category"),
            number=pl.Series(tree.number_of(owner), dtype=pl.Int64),
            mine=pl.Series((own >= 0) | (owner == NONE)),
        )
        .group_by("number", "name", "category", maintain_order=True)
        .agg(
            calls=pl.len().cast(pl.Int64),
            device_ns=spent.filter(pl.col("mine")).sum(),
            device_meanwhile_ns=spent.sum(),
        )
    )
    texts = [*tree.texts(), NOT_IN_ANY_RANGE]
    path = pl.Series("path", [texts[number] for number in found["number"]], pl.String)
    short = pl.Series("short_name", [kernel_names.short_name(name or "") for name in found["name"]], pl.String)
    return (
        found.with_columns(path, short)
        .select("path", "number", "name", "short_name", "category", "calls", "device_ns", "device_meanwhile_ns")
        .sort("number", "device_meanwhile_ns", "name", descending=[False, True, False])
    )
