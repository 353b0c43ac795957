"""Are the steps complete, warmed up and alike? Rules on figures that are divided by the number of steps."""

from __future__ import annotations

import re
import shlex
import statistics
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds, rows_where
from tracetui.analysis.captures.step_ranges import outside_steps, per_step
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.basis import is_verdicts
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.declared.validity import V3, V6, V7
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.matching.light_times import light_selection

if TYPE_CHECKING:
    from tracetui.analysis.captures.roles import Phase
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits
    from tracetui.analysis.selection import Selection

MODULE_LOADS = re.compile("LibraryLoad|ModuleLoad", re.IGNORECASE)
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t for a two-sided 95 % interval with 2 to 10 values; more values use 2.0."""


@looks_for(V3)
def scope_mismatch(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if (too_much := _too_much(facts, limits)) is not None:
        return too_much
    warmup = facts.warm_up_phase
    if warmup is not None and not warmup.launched_ns:
        warmup = None
    steps = facts.step_ranges
    if not steps.frame.height:
        if warmup is None:
            return Abstention("steps, or ranges named as such: call profiler.step() after each")
        return _with_warmup(facts, warmup, limits)
    return _outside(facts, limits, warmup) or _unlike(facts, limits)


def _outside(facts: Facts, limits: Limits, warmup: Phase | None) -> Finding | None:
    """Finds GPU work that no step launched."""
    steps = facts.step_ranges
    outside, all_ns = outside_steps(facts.sel, steps)
    outside -= _left_out(facts)
    share = 100 * outside / all_ns if all_ns else 0.0
    if share > limits.outside_percent:
        return Finding(
            "warning",
            f"{words.percent(share)} of the GPU time is from outside of the {_named(steps.frame.height, steps.name)}",
            (
                Evidence("GPU time outside of the steps", outside, "ns"),
                Evidence("GPU time of the recording", all_ns, "ns", Query("kernels")),
                *((Evidence("of it in warm-up ranges", warmup.launched_ns or 0, "ns"),) if warmup else ()),
            ),
            f"{words.ns(outside)} of {words.ns(all_ns)} = {words.percent(share)}",
            advice=(
                "Cut the numbers to the steps, or start the capture after the warm-up "
                "(torch.profiler.schedule, cudaProfilerStart); compare per step only."
            ),
        )
    return None


def _left_out(facts: Facts) -> int:
    """GPU time of a warm-up that is no part of the steps already, and said in their base."""
    trace = facts.sel.trace
    if trace.marked_by is None or not trace.marked_by.warm_up:
        return 0
    called = trace.host["start"].gather(trace.device["launch"])
    work = device_work(facts.recorded)
    when = called.gather(work["row"]).fill_null(work["start"])
    inside = when.is_between(trace.marked_by.begins, int(trace.steps["start"][0]), closed="left")
    return int(work["duration"].filter(inside).sum())


def _unlike(facts: Facts, limits: Limits) -> Finding | None:
    """Finds steps with different numbers of kernels."""
    counts = per_step(facts.sel, facts.step_ranges)
    middle = statistics.median(counts)
    spread = 100 * (max(counts) - min(counts)) / middle if middle else 100.0 * bool(max(counts))
    if len(counts) < 2 or spread <= limits.spread_percent:
        return None
    return Finding(
        "warning",
        f"The steps are not alike: {words.count(min(counts))} to {words.things(max(counts), 'kernel')} each",
        (
            Evidence(
                "kernels per step", ", ".join(map(words.count, counts[:12])) + (", …" if len(counts) > 12 else "")
            ),
            Evidence("median", middle),
        ),
        f"({words.count(max(counts))} - {words.count(min(counts))}) / {words.count(middle)} = {words.percent(spread)}",
        threshold=f"more than {words.percent(limits.spread_percent)} of the median",
        advice=(
            "Leave out the steps that do other work (--steps, --skip-steps): a first one that captures or compiles,"
            " a last "
            "one that was cut off."
        ),
    )


def _named(count: int, name: str) -> str:
    return words.things(count, "step") if name == "step" else f"{words.count(count)} {name} ranges"


def _with_warmup(facts: Facts, warmup: Phase, limits: Limits) -> Finding | None:
    """Finds warm-up in a recording without steps, by a range that is named as warm-up."""
    spent, whole = warmup.launched_ns or 0, int(facts.sel.device["duration"].sum())
    share = 100 * spent / whole if whole else 0.0
    if share <= limits.outside_percent:
        return None
    return Finding(
        "warning",
        f"{words.percent(share)} of the GPU time is warm-up",
        (Evidence("GPU time of warm-up", spent, "ns"), Evidence("GPU time of the recording", whole, "ns")),
        f"{words.ns(spent)} of {words.ns(whole)} = {words.percent(share)}",
        advice="Start the capture after the warm-up, or mark the steps so that the numbers can be cut to them.",
    )


def _too_much(facts: Facts, limits: Limits) -> Finding | None:
    """Finds more kernel time on a device than its streams can hold. Graph branches share a stream and do not count."""
    launches = facts.recorded_launches.select("kind", "device", "stream", "start", "duration", "graph_node")
    timed = of_kinds(launches["kind"], "kernel")
    timed &= launches["start"].is_not_null().to_numpy() & launches["graph_node"].is_null().to_numpy()
    rows = rows_where(launches.drop("kind", "graph_node"), timed).lazy()
    if facts.api.filter(pl.col("name").str.contains("GraphLaunch")).height:
        return None
    sums = rows.group_by("device").agg(
        ns=pl.col("duration").sum(),
        wall=(pl.col("start") + pl.col("duration")).max() - pl.col("start").min(),
        streams=pl.col("stream").n_unique(),
    )
    found = sums.collect()
    if not found.height:
        return None
    found = found.with_columns(percent=100 * pl.col("ns") / (pl.col("wall") * pl.col("streams"))).drop_nulls("percent")
    worst = found.sort("percent", descending=True).row(0, named=True)
    if worst["percent"] <= 100 + limits.over_percent:
        return None
    return Finding(
        "warning",
        f"The kernels take {words.percent(worst['percent'])} of the time that the streams had",
        (
            Evidence("kernel time", worst["ns"], "ns", Query("kernels")),
            Evidence("from the first to the last", worst["wall"], "ns"),
            Evidence("streams", worst["streams"]),
        ),
        f"{words.ns(worst['ns'])} / ({worst['streams']} x {words.ns(worst['wall'])}) = "
        f"{words.percent(worst['percent'])}",
        threshold=f"more than {words.percent(100 + limits.over_percent)}",
        advice="Events of several runs or ranks seem to be in one file: look at each by itself.",
    )


@looks_for(V6)
def warm_up(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    durations = _durations(facts)
    light = light_selection(facts.sel)
    loads, spent = _loads(facts.sel, facts.step_ranges.frame) if light is None else _loads(light, _spans(light))
    base = sum(durations) or facts.step_ns
    if len(durations) < 2 and not loads:
        return Abstention("two steps or more, or calls that load GPU code (nsys records them)")
    rest = statistics.median_high(durations[1:]) if len(durations) > 1 else 0.0
    usual = next((place for place, ns in enumerate(durations) if place and ns <= rest * limits.first_ratio), 0)
    again = max(durations[usual:], default=0.0) > rest * limits.first_ratio
    ratio = durations[0] / rest if rest and not (usual and again) else 0.0
    share = 100 * spent / base if base else 0.0
    if ratio <= limits.first_ratio and share <= limits.load_percent:
        return None
    which = "step" if light is None else "light step"
    first = f"The first {which}, a warm-up, takes {words.number(ratio)} times as long as the others"
    loading = f"{words.percent(share)} of the time goes to loading GPU code"
    slow = ratio > limits.first_ratio
    # by how much the average is longer than a step after the first
    raised = 100 * (ratio - 1) / len(durations) if slow else 0.0
    return Finding(
        "critical" if raised > limits.average_percent else "warning",
        f"{first}; {loading}" if slow and share > limits.load_percent else first if slow else loading,
        (
            *(
                (Evidence("first step", durations[0], "ns"), Evidence("median of the others", rest, "ns"))
                if ratio
                else ()
            ),
            Evidence("loading of GPU code", spent, "ns", Query("host:API calls", "Load")),
            Evidence("loading calls", loads),
        ),
        (f"{words.ns(durations[0])} / {words.ns(rest)} = {words.number(ratio)}; " if ratio else "")
        + f"{words.ns(spent)} of loading in {words.ns(base)} = {words.percent(share)}",
        advice=("Leave the first step out, or run" if light is None else "Run")
        + " more warm-up steps before recording; CUDA_MODULE_LOADING=EAGER loads all code at the start.",
        next_command=f"tracetui report --skip-steps 1 {shlex.quote(str(facts.run.path))}"
        if slow and light is None
        else "",
    )


def _durations(facts: Facts) -> list[float]:
    """How long each step takes, including its GPU work if the trace marks steps; ns.

    They are the steps that the overview's average is of. If some steps have kernels, a step without any was cut off
    and is left out.
    """
    if (light := light_selection(facts.sel)) is not None:
        slots = step_slots(light)
        return [float(ns) for ns in (slots.end - slots.start).tolist()]
    steps = facts.step_ranges
    if not steps.frame.height:
        return []
    found = (steps.frame["end"] - steps.frame["start"]).to_list()
    if steps.marked and facts.overview.per_step.height == steps.frame.height:
        found = facts.overview.per_step["duration_ns"].to_list()
    counts = per_step(facts.sel, steps)
    return [float(ns) for ns, kernels in zip(found, counts, strict=True) if kernels or not any(counts)]


def _of_which(facts: Facts) -> str:
    """Whose steps these are, where the verdict's are others: ``light ``, ``recorded ``."""
    if is_verdicts(facts):
        return ""
    return "recorded " if light_selection(facts.sel) is None else "light "


def _spans(sel: Selection) -> pl.DataFrame:
    """When the steps of a recording begin and end on the host."""
    return sel.steps.select("start", end=pl.col("start") + pl.col("duration"))


def _loads(sel: Selection, steps: pl.DataFrame) -> tuple[int, int]:
    """How many calls load GPU code, and their time, ns; only calls within steps if there are steps."""
    host = sel.host.select("row", "kind", "name", "parent", "start", "duration")
    loads = names.matching(host["name"], lambda name: MODULE_LOADS.search(name) is not None)
    calls = host.filter(pl.col("kind").is_in(["runtime", "driver"]) & pl.Series(loads))
    calls = calls.filter(~pl.col("parent").is_in(calls["row"].implode()).fill_null(value=False))
    if steps.height and calls.height:
        steps = steps.select(begin="start", until="end").sort("begin")
        calls = calls.sort("start").join_asof(steps, left_on="start", right_on="begin")
        calls = calls.filter(pl.col("start") < pl.col("until"))
    return calls.height, int(calls["duration"].sum())


@looks_for(V7)
def noisy(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    durations = _durations(facts)
    if len(durations) > 2 and durations[0] > 1.5 * statistics.median(durations[1:]):
        durations = durations[1:]
    if len(durations) < 3:
        return Abstention("three steps or more beside warm-up")
    mean, deviation = statistics.fmean(durations), statistics.stdev(durations)
    if not mean or not statistics.median(durations):
        return None
    cv, tail = 100 * deviation / mean, max(durations) / statistics.median(durations)
    if cv <= limits.cv_percent and tail < limits.tail_ratio:
        return None
    t = T_95[len(durations) - 2] if len(durations) - 2 < len(T_95) else 2.0
    within = 100 * t * deviation / mean / len(durations) ** 0.5
    return Finding(
        "info",
        f"The {_of_which(facts)}step time is {words.ns(mean)} ± {words.percent(within)} (95 %,"
        f" {words.things(len(durations), 'step')})",
        (
            Evidence("steps", len(durations)),
            Evidence("standard deviation", deviation, "ns"),
            Evidence("slowest step", max(durations), "ns"),
        ),
        f"{words.ns(deviation)} / {words.ns(mean)} = {words.percent(cv)}; slowest / median = {words.number(tail)}",
    )
