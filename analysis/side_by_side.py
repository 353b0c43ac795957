"""Runs side by side: what of them is the same thing, its number in each run, and how that changes from the first.

A number is of a run, a thing and a measure. A diff has two runs, a sweep pairs of a variant and its baseline, Nsight
Compute's reports as many as there are files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import polars as pl

from tracetui.parsers.names.kernel_key import key

SAME_PERCENT = 1.0
"""A difference of up to this many percent is no change where the noise is unknown."""


def identities(runs: Iterable[Sequence[str]]) -> dict[str, str]:
    """What each kernel is matched by: its key, or its name where one run has several names with that key."""
    spellings: defaultdict[str, set[str]] = defaultdict(set)
    ambiguous: set[str] = set()
    for names in runs:
        mine: defaultdict[str, set[str]] = defaultdict(set)
        for name in set(names):
            mine[key(name)].add(name)
            spellings[key(name)].add(name)
        ambiguous |= {found for found, same in mine.items() if len(same) > 1}
    return {name: name if found in ambiguous else found for found, same in spellings.items() for name in same}


def together(tables: Iterable[tuple[int, pl.DataFrame]]) -> pl.DataFrame:
    """Tables of kernels below each other, each with the number of its run, as ``run`` and ``identity``.

    What tells kernels apart is what `identities` says, whatever version of a tool spelled their ``name``.
    """
    numbered = list(tables)
    kernels = identities([table["name"].to_list() for _, table in numbered])
    return pl.concat(
        table.with_columns(
            run=pl.lit(number, pl.UInt32),
            identity=pl.Series([kernels[name] for name in table["name"]], dtype=pl.String),
        )
        for number, table in numbered
    )


def per_run(found: pl.DataFrame, by: Sequence[str], runs: int) -> pl.DataFrame:
    """A row per thing with lists that have an item per run: ``values``, ``launches``, ``changes``.

    Args:
        found: a row per thing and run: the columns `by`, ``run`` (its number), ``value``, ``launches``.
        by: what makes a thing.
        runs: how many there are. A run without the thing has no value and 0 launches; changes are from the first.
    """
    here = [pl.col("run") == number for number in range(runs)]
    values = [pl.col("value").filter(mine).first() for mine in here]
    return found.group_by(by, maintain_order=True).agg(
        values=pl.concat_list(values),
        launches=pl.concat_list([pl.col("launches").filter(mine).sum() for mine in here]),
        changes=pl.concat_list([value - values[0] for value in values]),
    )


def aligned(a: pl.DataFrame, b: pl.DataFrame, factor: float) -> pl.DataFrame:
    """The rows of two runs side by side, the largest difference first.

    Args:
        a: a row per ``name``: ``calls``, ``ns``, ``variance`` of that time (null where unknown), and ``launches``,
            where the work is not the calls.
        b: the same of the other run.
        factor: how many standard errors are noise.

    Returns:
        name, status (``added``, ``removed``, ``changed``; ``same`` if as much work makes up the time, and that differs
        by no more than the noise, or `SAME_PERCENT` where that is unknown), a_calls, b_calls, a_ns, b_ns, delta_ns,
        noise_ns.
    """
    work = "launches" if "launches" in a.columns else "calls"
    both = a.join(b, on="name", how="full", coalesce=True, suffix="_b").select(
        "name",
        pl.col("calls").is_null().alias("new"),
        pl.col("calls_b").is_null().alias("gone"),
        a_calls=pl.col("calls").fill_null(0.0),
        b_calls=pl.col("calls_b").fill_null(0.0),
        a_ns=pl.col("ns").fill_null(0.0),
        b_ns=pl.col("ns_b").fill_null(0.0),
        as_much=pl.col(work) == pl.col(f"{work}_b"),
        noise_ns=factor * (pl.col("variance") + pl.col("variance_b")).sqrt(),
    )
    delta = pl.col("b_ns") - pl.col("a_ns")
    allowed = pl.coalesce("noise_ns", SAME_PERCENT / 100 * pl.max_horizontal("a_ns", "b_ns"))
    status = (
        pl.when("new")
        .then(pl.lit("added"))
        .when("gone")
        .then(pl.lit("removed"))
        .when(pl.col("as_much") & (delta.abs() <= allowed))
        .then(pl.lit("same"))
        .otherwise(pl.lit("changed"))
    )
    return (
        both.with_columns(status=status, delta_ns=delta)
        .select("name", "status", "a_calls", "b_calls", "a_ns", "b_ns", "delta_ns", "noise_ns")
        .sort(pl.col("delta_ns").abs(), "name", descending=[True, False])
    )
