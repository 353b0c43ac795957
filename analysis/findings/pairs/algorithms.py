"""Finds operators that run different kernels in two runs on the same inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.kernels import kernel_rows
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_key import key

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

KEYS = ["operator", "shapes", "types"]


def changed_algorithms(a: Selection, b: Selection) -> pl.DataFrame:
    """Operator calls of equal name, shapes and types whose main kernel in one run is not launched in the other.

    Returns:
        operator, shapes, types, a_name (the whole name), a_kernel, b_kernel (short names), a_ns, b_ns (all kernels of
        these calls, per step); the largest change first.
    """
    both = _by_call(a).join(_by_call(b), on=KEYS, suffix="_b")
    apart = [
        ours not in theirs_all and theirs not in ours_all
        for ours, ours_all, theirs, theirs_all in both.select("key", "keys", "key_b", "keys_b").iter_rows()
    ]
    found = both.filter(pl.Series(apart, dtype=pl.Boolean)).select(
        *KEYS, a_name="name", a_kernel="kernel", b_kernel="kernel_b", a_ns="ns", b_ns="ns_b"
    )
    return found.sort((pl.col("b_ns") - pl.col("a_ns")).abs(), *KEYS, descending=[True, False, False, False])


def _by_call(sel: Selection) -> pl.DataFrame:
    """For each operator, shapes and types: time of its kernels per step, its main kernel, and the keys of all."""
    rows = kernel_rows(sel).filter(pl.col("operator").is_not_null())
    host = sel.trace.host.select(
        operator=pl.col("name").cast(pl.String),
        shapes=pl.col("input_shapes").cast(pl.String),
        types=pl.col("input_types").cast(pl.String).fill_null(""),
    )
    calls = host[rows["operator"]].with_columns(
        rows["name"].cast(pl.String).alias("name"), rows["duration"].alias("ns")
    )
    calls = calls.filter(pl.col("shapes").is_not_null() & pl.col("shapes").str.contains(r"\d"))
    by_kernel = calls.group_by(*KEYS, "name").agg(pl.col("ns").sum() / sel.step_count)
    names = by_kernel["name"].unique().to_list()
    known = pl.DataFrame(
        {
            "name": names,
            "key": [key(name) for name in names],
            "kernel": [kernel_names.short_name(name) for name in names],
        },
        schema=dict.fromkeys(("name", "key", "kernel"), pl.String),
    )
    return (
        by_kernel.join(known, on="name")
        .sort("ns", "name", descending=[True, False])
        .group_by(KEYS, maintain_order=True)
        .agg(
            pl.col("ns").sum(),
            pl.col("name").first(),
            pl.col("kernel").first(),
            pl.col("key").first(),
            keys=pl.col("key"),
        )
    )
