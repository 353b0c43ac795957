"""Can these durations be? Kernels shorter than any can be, and times from a clock that is too coarse for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.declared.validity import V22, V23

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

UNITS = ((1_000_000_000, "seconds"), (100_000_000, "tenths of a second"), (10_000_000, "hundredths of a second"),
         (1_000_000, "milliseconds"), (100_000, "tenths of a millisecond"), (10_000, "ten microseconds"),
         (1_000, "microseconds"))  # fmt: skip
"""Units that durations may be whole multiples of, ns, the coarsest first."""
LEAST = 20
"""Of so few events it does not matter how they were rounded to microseconds."""
DIGITS = 5
"""All durations are multiples of a unit by chance with odds of less than one in ten to this power, even if the clock
ticks in microseconds: two whole milliseconds are enough, three tenths, five hundredths."""
FAR_UNITS = 5
"""Of a coarse clock, what the median launch of a kernel takes so that one of 0 is not due to rounding."""
LEAST_SHORT = 3
"""A single event may have been cut, or have lost its duration."""
WHOLE = 0.99
"""The share of durations that are multiples of the unit; an event or two may have been repaired."""


def unit_of(durations: NDArray[np.int64]) -> tuple[int, str] | None:
    """The coarsest unit that the durations are multiples of, ns, with its name; None for a fine clock."""
    known = durations[durations > 0]
    whole = known[known % UNITS[-1][0] == 0]  # every unit is a multiple of the finest
    for ns, name in UNITS:
        least = LEAST if ns <= 1000 else max(math.ceil(DIGITS / math.log10(ns / 1000)), 2)
        if known.size >= least and np.count_nonzero(whole % ns == 0) >= WHOLE * known.size:
            return ns, name
    return None


@looks_for(V22)  # fmt: skip
def too_short(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    rows = facts.trace.device.filter(pl.col("kind") == "kernel").select("name", "grid", "block", "duration")
    rows = rows.drop_nulls("duration")
    durations = rows["duration"].to_numpy()
    if not durations.any():
        return Abstention("kernels that take time")
    short = durations < 1000 * limits.shortest_us
    if (unit := unit_of(durations)) is not None:
        usual = rows.select(pl.col("duration").median().over("name", "grid", "block")).to_series().to_numpy()
        short &= usual >= FAR_UNITS * unit[0]
    share = 100 * float(short.mean())
    if share <= limits.share_percent or short.sum() < LEAST_SHORT:
        return None
    names = rows.filter(pl.Series(short))["name"].value_counts(sort=True)
    most = str(names["name"][0])
    return Finding(
        "invalid",
        f"{words.percent(share)} of the kernels are shorter than any kernel can be: their durations are wrong",
        (
            Evidence("kernels that are too short", int(short.sum()), query=Query("kernels", row=most)),
            Evidence("kernels", rows.height),
            Evidence("shortest", int(durations.min()), "ns"),
            Evidence("distinct kernels among them", names.height),
        ),
        f"{words.count(int(short.sum()))} of {words.count(rows.height)} kernels take less than "
        f"{words.number(limits.shortest_us)} µs",
    )


@looks_for(V23)
def coarse(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    work = facts.sel.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
    durations = work["duration"].drop_nulls().to_numpy()
    if not durations.any():
        return Abstention("GPU work that takes time")
    unit = unit_of(durations)
    if unit is None:
        return None
    ns, name = unit
    off = 100 * (ns / 2) * durations.size / float(durations.sum())
    severity = "critical" if off > limits.critical_percent else "warning" if off > limits.warning_percent else "info"
    zero = int((durations == 0).sum())
    return Finding(
        severity,  # type: ignore[arg-type]
        f"The GPU's durations are whole {name}: rounding may be {words.percent(min(off, 100.0))} of the GPU time",
        (
            Evidence("unit of the durations", ns, "ns"),
            Evidence("GPU events", durations.size),
            Evidence("of them with duration 0", zero),
            Evidence("median duration", float(np.median(durations)), "ns", Query("kernels")),
        ),
        f"{words.ns(ns / 2)} x {words.count(durations.size)} events = {words.ns(ns / 2 * durations.size)}, of "
        f"{words.ns(float(durations.sum()))}",
        doubts=() if severity == "info" else None,
    )
