"""Can these durations be? Kernels shorter than any can be, and times from a clock that is too coarse for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits

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


@rule(
    "V22",
    "Durations that no kernel can have",
    needs=("timeline", "gpu"),
    refutes=("gpu", "shares"),
    doubts=("gpu", "shares"),
    remark="some kernels are shorter than any kernel can be: times and shares of kernels are wrong",
    thresholds={
        "shortest_us": Threshold(
            0.25, "us", "that a kernel takes at least: launch a block, read memory once, end; an empty one takes 0.6",
            own=True,
        ),
        "share_percent": Threshold(0.5, "%", "of the kernels that are shorter", own=True),
    },
    advice="Find what changed the times: units mixed up, a cut or an export of its own. Then record again.",
)  # fmt: skip
def too_short(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """Kernels take less time than it takes to start one block and to reach memory once.

    An empty kernel takes 0.6 µs and more on every GPU that was looked at. Kernels of a few nanoseconds are a sign of
    mixed-up units or of events that were cut, and their share of the time is lost. Where all times are multiples of a
    microsecond or more (V23), a short kernel may read 0; then only those count whose other launches take five units.
    """
    rows = facts.trace.device.filter(pl.col("kind") == "kernel").select("name", "grid", "block", "duration")
    rows = rows.drop_nulls("duration")
    durations = rows["duration"].to_numpy()
    if not durations.any():
        return Abstention("V22", "kernels that take time")
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
        "V22",
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
        f"{words.percent(limits.share_percent)} of the kernels",
        "Look at what the file went through after recording: a wrong unit, an event cut at the edge of a range. Shares "
        "and sums of kernels are void until it is found.",
    )


@rule(
    "V23",
    "Times from a coarse clock",
    needs=("timeline", "gpu"),
    doubts=("gpu", "shares", "whole"),
    remark="times are rounded so coarsely that short kernels may be off by their own length",
    thresholds={
        "warning_percent": Threshold(5, "%", "of the GPU time that rounding may add or take", own=True),
        "critical_percent": Threshold(20, "%", "of the GPU time that rounding may add or take", own=True),
    },
    advice="Record with a profiler that keeps nanoseconds (torch 2.2 and later), or export without rounding.",
)
def coarse(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """All durations of GPU work are whole microseconds, milliseconds or other round units.

    GPUs count in ticks of 32 ns or less, so durations that are all multiples of a rounder unit were rounded. Each
    may be off by half a unit: ``units / 2 x events`` of the GPU time, if the profiler always cuts off or always rounds
    up. Traces of torch before 2.2 have whole microseconds, which matters only where kernels are short.
    """
    work = facts.sel.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
    durations = work["duration"].drop_nulls().to_numpy()
    if not durations.any():
        return Abstention("V23", "GPU work that takes time")
    unit = unit_of(durations)
    if unit is None:
        return None
    ns, name = unit
    off = 100 * (ns / 2) * durations.size / float(durations.sum())
    severity = "critical" if off > limits.critical_percent else "warning" if off > limits.warning_percent else "info"
    zero = int((durations == 0).sum())
    return Finding(
        "V23",
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
        f"{words.percent(limits.warning_percent)}, {words.percent(limits.critical_percent)}",
        "Trust sums of long kernels only; record with a profiler that keeps nanoseconds.",
        doubts=() if severity == "info" else None,
    )
