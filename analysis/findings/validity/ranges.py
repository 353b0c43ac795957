"""Do shares and ranges mean what readers assume? Rules on parts of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, codes_of, lanes_of
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.declared.validity import V2, V13
from tracetui.analysis.gpu.activities import by_value
from tracetui.parsers.names.range_roles import MADE_BY_TORCH

if TYPE_CHECKING:
    from tracetui.analysis.attribution.calltree import Bools
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits


@looks_for(V2)
def impossible_shares(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    steps = facts.step_ranges.frame
    if not steps.height:
        return Abstention("steps and ranges inside them: call profiler.step(), or put an NVTX range around each")
    longest = int((steps["end"] - steps["start"]).max())
    said = f"more than {words.percent(limits.part_percent)} of the longest step"
    found = _longest_part(facts)
    if found is not None and longest > 0 and 100 * found[1] / longest > limits.part_percent:
        name, part, instances = found
        share = 100 * part / longest
        return Finding(
            "invalid",
            f"{name} takes {words.percent(share)} of the {facts.step_ranges.name} it is part of",
            (
                Evidence(f"{name}, median", part, "ns", Query("host:ranges", row=name)),
                Evidence(f"longest {facts.step_ranges.name}", longest, "ns"),
                Evidence("instances", instances),
            ),
            f"{words.ns(part)} of {words.ns(longest)} = {words.percent(share)}",
            threshold=said,
            advice=(
                "Do not show this share. See whether the step ran to its end (an error such as out of memory cuts it "
                "short), and compare each range with the step that it was in."
            ),
        )
    return _overlap(steps, limits.overlap_percent)


def _overlap(steps: pl.DataFrame, most_percent: float) -> Finding | None:
    """Finds steps whose times add up to more than the time that passed."""
    whole, wall = int((steps["end"] - steps["start"]).sum()), _covered(steps)
    if wall and 100 * (whole - wall) / wall > most_percent:
        return Finding(
            "invalid",
            f"The steps add up to {words.percent(100 * whole / wall)} of the time they take: they overlap",
            (Evidence("steps", steps.height), Evidence("sum", whole, "ns"), Evidence("time they take", wall, "ns")),
            f"{words.ns(whole)} of {words.ns(wall)} = {words.percent(100 * whole / wall)}",
            threshold=f"more than {words.percent(most_percent)} above it",
            advice="Mark steps on one thread only, and end each before the next begins.",
        )
    return None


def _longest_part(facts: Facts) -> tuple[str, int, int] | None:
    """The range with the longest lower median among those inside steps on their thread: name, ns, count."""
    steps = facts.step_ranges.frame.drop_nulls(["process", "thread"]).sort("start")
    host = facts.trace.host
    chosen = _nesting(host) & scope_mask(facts.sel)
    lane = lanes_of(host)
    of_steps = _lanes(host, steps)
    with_steps = np.zeros(int(lane[-1]) + 1 if lane.size else 0, np.bool_)
    with_steps[of_steps[of_steps != NONE]] = True
    chosen &= with_steps[lane]
    if not chosen.any():
        return None
    name = codes_of(host["name"])[chosen]
    begin, duration = host["start"].to_numpy()[chosen], host["duration"].to_numpy()[chosen]
    end = begin + duration
    at = _step_before(lane[chosen], begin, of_steps, steps["start"].to_numpy())
    inside = (at >= 0) & (end <= steps["end"].to_numpy()[at])
    is_step = inside & (begin == steps["start"].to_numpy()[at]) & (end == steps["end"].to_numpy()[at])
    parts = np.zeros(int(name.max()) + 1, np.bool_)
    parts[name[inside]] = True
    parts[name[is_step]] = False
    mine = parts[name]
    low = pl.col("duration").sort().get((pl.len() - 1) // 2)
    found = (
        pl.DataFrame({"name": name[mine], "duration": duration[mine]})
        .group_by("name")
        .agg(low.alias("ns"), pl.len().alias("n"))
        .with_columns(pl.col("name").cat.to(pl.Categorical).cast(pl.String))
        .sort("ns", "name", descending=[True, False])
    )
    return found.row(0) if found.height else None


def _nesting(host: pl.DataFrame) -> Bools:
    """Marks the ranges with a name and a thread that last and nest."""
    chosen: Bools = of_kinds(host["kind"], "annotation") & (host["duration"].to_numpy() > 0)
    style = host["style"]
    if style.null_count() < len(style):
        chosen &= of_kinds(style, "push_pop") | style.is_null().to_numpy()
    for column in ("name", "process", "thread"):
        if host[column].null_count():
            chosen &= host[column].is_not_null().to_numpy()
    return chosen


def _lanes(host: pl.DataFrame, steps: pl.DataFrame) -> Ints:
    """The thread of each step as `lanes_of` numbers it, or -1."""
    lane = lanes_of(host)
    first = np.searchsorted(lane, np.arange(int(lane[-1]) + 1 if lane.size else 0))
    known = {key: number for number, key in enumerate(host.select("process", "thread")[first].rows())}
    return np.array([known.get(key, NONE) for key in steps.select("process", "thread").rows()], np.int64)


def _step_before(lane: Ints, start: Ints, of_steps: Ints, begin: Ints) -> Ints:
    """For each range the last step of its thread that began before it or with it, or -1.

    Args:
        lane: the thread of each range, ascending.
        start: of the ranges.
        of_steps: the thread of each step.
        begin: of the steps, ascending.
    """
    found = np.full(lane.size, NONE, np.int64)
    for number, steps in by_value(of_steps):
        rows = slice(*np.searchsorted(lane, (number, number + 1)).tolist())
        mine = np.arange(of_steps.size)[steps]
        place = np.searchsorted(begin[mine], start[rows], side="right") - 1
        found[rows] = np.where(place >= 0, mine[place], NONE)
    return found


def _covered(steps: pl.DataFrame) -> int:
    from tracetui.analysis.base import intervals

    return intervals.length(intervals.union(steps["start"].to_numpy(), steps["end"].to_numpy()))


@looks_for(V13)
def host_is_not_gpu(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    steps = facts.step_ranges.frame
    base = float((steps["end"] - steps["start"]).sum()) if steps.height else facts.step_ns
    found = []
    for phase in facts.named_phases:
        if phase.role == "step" or MADE_BY_TORCH.match(phase.name) or not phase.launched_ops:
            continue
        if not phase.host_ns or phase.span_ns is None:
            continue
        ratio = phase.span_ns / phase.host_ns
        if phase.host_ns >= limits.least_percent / 100 * base and not limits.low_ratio <= ratio <= limits.high_ratio:
            found.append((abs(phase.span_ns - phase.host_ns), ratio, phase))
    if not found:
        return None
    found.sort(key=lambda entry: -entry[0])
    _, ratio, worst = found[0]
    times = f" ({worst.instances} times)" if worst.instances and worst.instances > 1 else ""
    return Finding(
        "info",
        f"{worst.name}{times} is open for {words.ns(worst.host_ns or 0)} on the host, but its work takes "
        f"{words.ns(worst.span_ns or 0)} on the GPU",
        tuple(
            Evidence(f"{phase.name}: GPU over host", round(factor, 2), "", Query("host:ranges", row=phase.name))
            for _, factor, phase in found[:6]
        ),
        f"{words.ns(worst.span_ns or 0)} / {words.ns(worst.host_ns or 0)} = {words.number(ratio)}; "
        f"{len(found)} of {words.things(len(facts.named_phases), 'range')}",
    )
