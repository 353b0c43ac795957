"""What differs between two reports of Nsight Compute: the launches that they hold, their sizes, precision and clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.compare.run_conditions import CLOCK_TOLERANCE_PERCENT, Difference
from tracetui.analysis.counters.compared import identities
from tracetui.analysis.roofline.counters import precision_words
from tracetui.analysis.roofline.peaks import SM_CLOCK
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.parsers import Trace

MOST = 3
"""How many kernels are named at most."""


def counter_differences(a: Trace, b: Trace) -> list[Difference]:
    """Every difference between two reports; empty where either is of another tool."""
    if not a.info.kind == b.info.kind == "ncu":
        return []
    types = precision_words(a), precision_words(b)
    found = [Difference("dtype", *types, intended=True)] if None not in types and types[0] != types[1] else []
    # another type takes other kernels for the same work
    chosen = bool(found) and not any("," in str(words) for words in types)
    return [*found, *_clock(a, b), *_launches(a, b, work=not chosen)]


def _clock(a: Trace, b: Trace) -> Iterator[Difference]:
    """The mean clock of the SMs, at which ncu measured."""
    ours, theirs = sm_clock(a), sm_clock(b)
    if ours and theirs and abs(theirs / ours - 1) > CLOCK_TOLERANCE_PERCENT / 100:
        yield Difference("SM clock of the measurement, Hz", round(ours), round(theirs), matters=True)


def sm_clock(trace: Trace) -> float | None:
    """Mean over the launches; null where it was not collected."""
    rows = trace.counters.filter(
        pl.col("metric").cast(pl.String).is_in([*SM_CLOCK, "SM Frequency"]) & pl.col("value").is_not_null()
    )
    if not rows.height:
        return None
    # one metric of the file, so that launches count alike
    first = str(rows["metric"].cast(pl.String)[0])
    return float(rows.filter(pl.col("metric").cast(pl.String) == first)["value"].sum()) / max(
        rows.filter(pl.col("metric").cast(pl.String) == first).height, 1
    )


def _launches(a: Trace, b: Trace, *, work: bool) -> Iterator[Difference]:
    """How many launches of which kernels, and of what size those of both are.

    Args:
        a: the base.
        b: what is compared with it.
        work: whether other kernels mean other work.
    """
    ours, theirs = (_of(trace) for trace in (a, b))
    kernels = identities([ours["name"].to_list(), theirs["name"].to_list()])
    ours, theirs = (
        rows.with_columns(kernel=pl.Series([kernels[name] for name in rows["name"]], dtype=pl.String))
        for rows in (ours, theirs)
    )
    if ours.height != theirs.height:
        yield Difference("profiled launches", ours.height, theirs.height, work=work)
    mine, its = (set(rows["kernel"]) for rows in (ours, theirs))
    if mine != its:
        yield Difference("kernels", _only(ours, mine - its, "B"), _only(theirs, its - mine, "A"), work=work)
    apart = [
        (kernel, left, right)
        for kernel in dict.fromkeys(ours.sort("ns", descending=True, nulls_last=True)["kernel"])
        if kernel in its and (left := _sizes(ours, kernel)) != (right := _sizes(theirs, kernel))
    ]
    for kernel, left, right in apart[:MOST]:
        name = short_name(str(ours.filter(pl.col("kernel") == kernel)["name"][0]))
        yield Difference(f"grid x block of {name}", left, right, work=True)
    if len(apart) > MOST:
        more = f"{len(apart) - MOST} more kernels"
        yield Difference("grid x block", f"of {more}", "otherwise", work=True)


def _of(trace: Trace) -> pl.DataFrame:
    return trace.device.filter(pl.col("kind") == "kernel").select(
        pl.col("name").cast(pl.String), "grid", "block", ns="duration"
    )


def _only(rows: pl.DataFrame, kernels: set[str], other: str) -> str:
    """Names the kernels that only one report has, the longest first: ``4 not in B: a, b, c and 1 more``."""
    spent = rows.filter(pl.col("kernel").is_in(list(kernels))).group_by("kernel").agg(
        pl.col("ns").sum(), pl.col("name").first()
    )  # fmt: skip
    names = [short_name(str(name)) for name in spent.sort("ns", "name", descending=[True, False])["name"]]
    if not names:
        return f"all in {other} too"
    rest = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{len(names)} not in {other}: {', '.join(names[:MOST])}{rest}"


def _sizes(rows: pl.DataFrame, kernel: str) -> str:
    """Grid and block of a kernel's launches, each with how often: ``96x2x1 x 128x1x1 (3)``."""
    sizes = rows.filter(pl.col("kernel") == kernel).group_by("grid", "block", maintain_order=True).len()
    found = sorted(f"{_words(grid)} x {_words(block)} ({many})" for grid, block, many in sizes.iter_rows())
    return ", ".join(found[:MOST]) + (f" and {len(found) - MOST} more" if len(found) > MOST else "")


def _words(size: list[int] | None) -> str:
    return "unknown" if size is None else "x".join(map(str, size))
