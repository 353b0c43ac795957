"""Do the clocks of GPU and host agree, and are they fine enough? Can these durations be?

A GPU whose times are late seems to start late and to end after it was awaited.

Three statements hold whatever the program does. Work that a GPU with nothing to do starts begins a few microseconds
after its launch. A call that waits for work does not return before that work has ended. And a call that waited for all
work returns as soon as the last of it has ended.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds, rows_where
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.declared.validity import V19, V22, V23
from tracetui.parsers.arrays import Ints

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.parsers import Trace

WORK = ("kernel", "memcpy", "memset", "graph")
WAITS = r"^(cuda|cu|hip)(Device|Stream|Ctx)Synchronize"
"""Calls that return once earlier work of a stream, or all of it, has ended."""
_WAITS = re.compile(WAITS)
FOR_ALL = r"^(cuda|cu|hip)(Device|Ctx)Synchronize"
"""Those that wait for all of it."""
LONG_WAIT_NS = 500_000
"""A call that took so long was waiting, and did not only do its own work."""
SOON_NS = 10_000_000
"""A call that waits longer than this after the last launch may have had nothing to wait for."""
GAP_NS = 50_000
"""A GPU that did nothing for so long had nothing to do: the work after it was launched only then."""
PARTS = 8
"""Into how many parts the recording is divided, because one clock may run faster than the other."""
LEAST_STARTS, LEAST_WAITS = 3, 2
"""Fewer in a part of the recording prove nothing: a first launch loads code, a wait may be for another stream."""
ADVICE = (
    "Do not trust gaps, waits and idle times of this recording; durations of kernels stand. Record again, with another "
    "version of CUPTI if it stays."
)


class Seen(Struct, frozen=True):
    """How late the GPU's times are in one part of the recording, ns; null where nothing tells."""

    start: float | None
    """The shortest time from a launch to its start, of work that found the GPU idle."""
    wait: float | None
    """By how much work ends after the call that waited for it returned; negative where it had ended before."""

    early: float | None = None
    """How long after the end of all work a call returned that waited for it."""

    @property
    def late_ns(self) -> float | None:
        """The larger of both."""
        return max((ns for ns in (self.start, self.wait) if ns is not None), default=None)


@looks_for(V19)
def late_clock(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    seen = offsets(facts.trace)
    known = [(number, part) for number, part in enumerate(seen) if part.late_ns is not None]
    early = max((part.early for part in seen if part.early is not None), default=0.0)
    if early > 1000 * limits.early_us:
        return _early(early, limits)
    if not known:
        return Abstention("launches that found the GPU idle, or calls that wait for the GPU")
    limit = 1000 * limits.late_us
    late = [(number, part) for number, part in known if (part.late_ns or 0.0) > limit]
    waits = [part.wait for _, part in known if part.wait is not None]
    if not late or (waits and max(waits) <= limit):
        return None  # events that are lost or too short open gaps too, yet no wait returns early
    worst = max((part.late_ns or 0.0) for _, part in late)
    first, last = (known[at][1].late_ns or 0.0 for at in (0, -1))
    if len(late) == len(known):
        title = f"The GPU's clock is late by {words.ns(worst)}: its times do not fit the host's"
    else:
        title = f"The GPU's clock drifts against the host's: up to {words.ns(worst)} late in {len(late)} of " \
                f"{len(known)} parts of the recording"  # fmt: skip
    starts = [part.start for _, part in known if part.start is not None]
    return Finding(
        "critical",
        title,
        evidence(
            ("shortest from launch to start, at the beginning", first, "ns", Query("host:API calls", "Launch")),
            ("the same at the end", last, "ns"),
            ("largest of the shortest starts of a part", max(starts, default=None), "ns"),
            ("work ends after its wait returned, at most", max(waits, default=None), "ns"),
        ),
        f"launch to start on an idle GPU, or the end of work after its wait: {words.ns(worst)}; "
        f"{len(late)} of {len(known)} parts of the recording",
        advice=ADVICE,
    )


def _early(early: float, limits: Limits) -> Finding:
    return Finding(
        "critical",
        f"The GPU's clock is early by {words.ns(early)}: its times do not fit the host's",
        (Evidence("from the end of all work to the return of a call that waited for it", early, "ns"),),
        f"a call that waited for all GPU work returned {words.ns(early)} after the last of it had ended",
        threshold=f"more than {words.number(limits.early_us)} µs",
        advice=ADVICE,
    )


def offsets(trace: Trace) -> list[Seen]:
    """How late the GPU's times are in each of the parts of a recording."""
    device = trace.device
    known = of_kinds(device["kind"], *WORK)
    for column in ("start", "launch"):
        if device[column].null_count():
            known &= device[column].is_not_null().to_numpy()
    work = rows_where(device.select("device", "launch", "start", "duration"), known)
    if not work.height:
        return []
    work = work.select("device", "launch", "start", end=pl.col("start") + pl.col("duration"))
    work = work if work["start"].is_sorted() else work.sort("start")
    called = trace.host["start"].gather(work["launch"]).to_numpy()
    at, delay = _starts(work, called)
    waits = _waits(trace, work)
    edges = np.linspace(called.min(), called.max() + 1, PARTS + 1)
    edges[-1] = np.inf
    parts = []
    for begin, end in pairwise(edges):
        there = waits.filter(pl.col("start").is_between(begin, end, closed="left"))
        parts.append(Seen(_shortest(delay[(at >= begin) & (at < end)]), _behind(there), _ahead(there)))
    if any(part.late_ns is not None for part in parts):
        return parts
    return [Seen(_shortest(delay), _behind(waits), _ahead(waits))]


def _shortest(delays: Ints) -> float | None:
    return float(delays.min()) if delays.size >= LEAST_STARTS else None


def _behind(waits: pl.DataFrame) -> float | None:
    """By how much work ends after its wait; half of the waits for a stream must agree, since it may be another's."""
    of_all = waits.filter("for_all")["behind"]
    behind = [float(of_all.median())] if of_all.len() else []  # type: ignore[arg-type]
    if waits.height >= LEAST_WAITS:
        behind.append(float(waits["behind"].median()))  # type: ignore[arg-type]
    return max(behind, default=None)


def _ahead(waits: pl.DataFrame) -> float | None:
    """How long after the end of all work the calls return that waited for it; one that returns at once is enough."""
    waited = pl.col("for_all") & (pl.col("duration") > LONG_WAIT_NS) & (pl.col("after") < SOON_NS)
    slack = waits.filter(waited)["slack"].min()
    return None if slack is None else float(slack)  # type: ignore[arg-type]


def _starts(work: pl.DataFrame, called: Ints) -> tuple[Ints, Ints]:
    """When work was launched that the GPU began after a gap, and how long after its launch it began."""
    before = pl.col("end").cum_max().shift(1)
    alone = work["device"].n_unique() == 1
    reach = work.select(before if alone else before.over("device")).to_series()
    start = work["start"].to_numpy()
    after_gap = (work["start"] - reach).fill_null(-1).to_numpy() > GAP_NS
    return called[after_gap], (start - called)[after_gap]


def _waits(trace: Trace, work: pl.DataFrame) -> pl.DataFrame:
    """Calls that wait: ``behind`` is how long after their return the work ends that their thread launched last.

    ``slack`` is how long after the end of all work that was launched before them they return, at most their duration.
    """
    columns = ("process", "thread", "start", "duration")
    api = trace.host["kind"].is_in(["runtime", "driver"])
    named = names.matching(trace.host["name"], lambda name: _WAITS.search(name) is not None)
    waits = trace.host.select("name", *columns).filter(pl.Series(named) & api)
    waits = waits.with_columns(pl.col("name").cast(pl.String)).sort("start")
    if waits.height:
        ends = work.filter(api.gather(work["launch"])).group_by("launch").agg(pl.col("end").max())
        launches = trace.host.select(columns)[ends["launch"]].with_columns(ends["end"])
    else:  # the launches of a long recording need not be ordered for nothing
        launches = trace.host.select(columns).clear().with_columns(end=pl.lit(None, pl.Int64))
    launches = launches.select("process", "thread", "start", "end").sort("start")
    launches = launches.with_columns(reach=pl.col("end").cum_max())
    both = waits.join_asof(launches.drop("reach"), on="start", by=["process", "thread"], check_sortedness=False)
    both = (
        both.drop_nulls("end").sort("start").join_asof(launches.select("start", "reach", launched="start"), on="start")
    )
    returned = pl.col("start") + pl.col("duration")
    return both.select(
        "start",
        "duration",
        for_all=pl.col("name").str.contains(FOR_ALL),
        behind=pl.col("end") - returned,
        slack=returned - pl.max_horizontal("reach", "start"),
        after=pl.col("start") - pl.col("launched"),
    )


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


def unit_of(durations: Ints) -> tuple[int, str] | None:
    """The coarsest unit that the durations are multiples of, ns, with its name; None for a fine clock."""
    known = durations[durations > 0]
    whole = known[known % UNITS[-1][0] == 0]  # every unit is a multiple of the finest
    for ns, name in UNITS:
        least = LEAST if ns <= 1000 else max(math.ceil(DIGITS / math.log10(ns / 1000)), 2)
        if known.size >= least and np.count_nonzero(whole % ns == 0) >= WHOLE * known.size:
            return ns, name
    return None


@looks_for(V22)
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
        calls = facts.trace.host.filter(pl.col("kind").is_in(["operator", "runtime", "driver"]))["duration"].to_numpy()
        if min(durations.size, calls.size) < ENOUGH or (least := min(durations.min(), calls.min())) < ALL_LONG_NS:
            return None
        many = words.count(durations.size + calls.size)
        return Finding(
            "invalid",
            f"None of {many} kernels and calls takes less than {words.ns(least)}: times are not in µs",
            (
                Evidence("shortest", int(least), "ns"),
                Evidence("kernels", durations.size),
                Evidence("calls", calls.size),
            ),
            f"{words.ns(least)}",
            threshold=f"one of {ENOUGH} kernels and {ENOUGH} calls in less than {words.ns(ALL_LONG_NS)}",
            advice=IN_US.partition(":")[0] + ": here they seem to be in ns.",
        )
    names = rows.filter(pl.Series(short))["name"].value_counts(sort=True)
    most = str(names["name"][0])
    unit_is_wrong = not_in_us(facts.trace)
    return Finding(
        "invalid",
        f"{words.percent(share)} of the kernels are shorter than any kernel can be: "
        + ("times are not in µs" if unit_is_wrong else "their durations are wrong"),
        (
            Evidence("kernels that are too short", int(short.sum()), query=Query("kernels", row=most)),
            Evidence("kernels", rows.height),
            Evidence("shortest", int(durations.min()), "ns"),
            Evidence("distinct kernels among them", names.height),
        ),
        f"{words.count(int(short.sum()))} of {words.count(rows.height)} kernels take less than "
        f"{words.number(limits.shortest_us)} µs",
        advice=IN_US if unit_is_wrong else "",
    )


ALL_LONG_NS, ENOUGH = 100_000, 100
"""So long are not all of so many kernels and calls: most calls take a microsecond, many kernels two."""
NO_CALL_NS = 50
"""No call of CUDA's or HIP's that launches is so short: they take a microsecond and more."""
IN_US = "Write times in µs, as Chrome traces have them (ts, dur): here they seem to be in seconds or milliseconds."


def not_in_us(trace: Trace) -> bool:
    """Whether the launching calls are too short for times in µs."""
    from tracetui.analysis.attribution.launch_calls import launch_calls

    taken = launch_calls(trace)["duration"].drop_nulls().to_numpy()
    return bool(taken.size) and float(np.median(taken)) < NO_CALL_NS


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
