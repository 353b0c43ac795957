"""Are steps complete, warmed up, alike, without setup, and their parts possible? Rules on figures per step."""

from __future__ import annotations

import re
import shlex
import statistics

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.operator_tree import device_work, scope_mask
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.names import of_kinds, rows_where
from tracetui.analysis.captures.roles import Phase, named_phases, phase_of
from tracetui.analysis.captures.step_ranges import outside_steps, per_step
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.basis import is_verdicts
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import NO_ACT, Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.declared.validity import V2, V3, V6, V7, V13, V29
from tracetui.analysis.gpu.step_kinds import grouped, recorded_kinds, told_kinds
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.matching.light_times import light_selection
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Bools
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.range_roles import MADE_BY_TORCH

MODULE_LOADS = re.compile("LibraryLoad|ModuleLoad", re.IGNORECASE)
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t for a two-sided 95 % interval with 2 to 10 values; more values use 2.0."""


@looks_for(V3)
def scope_mismatch(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if (too_much := _too_much(facts, limits)) is not None:
        return too_much
    warmup = phase_of(facts.sel, "warmup")
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
    if share <= limits.outside_percent:
        return None
    number = steps.frame.height
    named = words.things(number, "step") if steps.name == "step" else f"{words.count(number)} {steps.name} ranges"
    return Finding(
        "warning",
        f"{words.percent(share)} of the GPU time was launched outside the {named}",
        evidence(
            ("GPU time outside of the steps", outside, "ns"),
            ("GPU time of the recording", all_ns, "ns", Query("kernels")),
            ("of it in warm-up ranges", warmup.launched_ns or 0 if warmup else None, "ns"),
        ),
        words.part_of(outside, all_ns, share),
        advice="Cut the numbers to the steps, or start the capture after the warm-up"
        " (torch.profiler.schedule, cudaProfilerStart); compare per step only.",
    )


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
    """Finds steps with different numbers of kernels; those of an inference server need not be alike."""
    counts, told = per_step(facts.sel, facts.step_ranges), told_kinds(facts.sel)
    if told and told[0][0] is not None:
        return None
    if told:
        counts = [counts[row] for row in told[0][1].tolist()]
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
        advice="Leave out the steps that do other work (--steps, --skip-steps): a first one that captures or compiles,"
        " a last one that was cut off.",
    )


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
        words.part_of(spent, whole, share),
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
    if light is None:
        loads, spent = _loads(facts.sel, facts.step_ranges.frame)
    else:
        loads, spent = _loads(light, light.steps.select("start", end=pl.col("start") + pl.col("duration")))
    base = sum(durations) or facts.step_ns
    if len(durations) < 2 and not loads:
        return Abstention("two steps or more, or calls that load GPU code (nsys records them)")
    rest = statistics.median_high(durations[1:]) if len(durations) > 1 else 0.0
    usual = next((place for place, ns in enumerate(durations) if place and ns <= rest * limits.first_ratio), 0)
    again = max(durations[usual:], default=0.0) > rest * limits.first_ratio
    ratio = durations[0] / rest if rest and not (usual and again) and not _is_rare(facts) else 0.0
    share = 100 * spent / base if base else 0.0
    if ratio <= limits.first_ratio and share <= limits.load_percent:
        return None
    which = "step" if light is None else "light step"
    first = f"The first {which} is a warm-up: it takes {words.number(ratio)} times as long as the others"
    loading = f"loading GPU code takes {words.percent(share)} of the time"
    slow = ratio > limits.first_ratio
    # by how much the average is longer than a step after the first
    raised = 100 * (ratio - 1) / len(durations) if slow else 0.0
    return Finding(
        "critical" if raised > limits.average_percent else "warning",
        f"{first}; {loading}" if slow and share > limits.load_percent else first if slow else f"L{loading[1:]}",
        evidence(
            ("first step", durations[0] if ratio else None, "ns"),
            ("median of the others", rest if ratio else None, "ns"),
            ("loading of GPU code", spent, "ns", Query("host:API calls", "Load") if loads else None),
            ("loading calls", loads),
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

    They are the steps that the overview's average is of, of an inference server those of the most frequent phase. If
    some steps have kernels, a step without any was cut off and is left out.
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
    if named := told_kinds(facts.sel):
        of_phase = named[0][1].tolist()
        found, counts = [found[row] for row in of_phase], [counts[row] for row in of_phase]
    return [float(ns) for ns, kernels in zip(found, counts, strict=True) if kernels or not any(counts)]


def _is_rare(facts: Facts) -> bool:
    """Whether the first of these steps is a rare one that does other work: no warm-up."""
    kinds = recorded_kinds(facts.sel if (light := light_selection(facts.sel)) is None else light)
    return kinds is not None and any(kinds.first in one.steps for one in kinds.rare)


def _of_which(facts: Facts) -> str:
    """Whose steps these are, where the verdict's are others: ``light ``, ``recorded ``."""
    if is_verdicts(facts):
        return ""
    return "recorded " if light_selection(facts.sel) is None else "light "


def _loads(sel: Selection, steps: pl.DataFrame) -> tuple[int, int]:
    """How many calls load GPU code, and their time, ns; within steps, without any between first and last GPU work."""
    host = sel.host.select("row", "kind", "name", "parent", "start", "duration")
    loads = names.matching(host["name"], lambda name: MODULE_LOADS.search(name) is not None)
    calls = host.filter(pl.col("kind").is_in(["runtime", "driver"]) & pl.Series(loads))
    calls = calls.filter(~pl.col("parent").is_in(calls["row"].implode()).fill_null(value=False))
    start = calls["start"].to_numpy()
    end = start + calls["duration"].to_numpy()
    spans = [sel.work_span] if not steps.height and sel.work_span else steps.select("start", "end").rows()
    base = intervals.union(*np.array(spans, np.int64).reshape(-1, 2).T) if spans else intervals.union(start, end)
    within = intervals.intersect(intervals.union(start, end), base)
    return int(np.count_nonzero(intervals.covered(base, start, end))), intervals.length(within)


@looks_for(V7)
def noisy(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    durations = _durations(facts)
    durations = [durations[place] for place in grouped(durations)[0].tolist()] if durations else []
    if len(durations) < 3:
        return Abstention("three steps or more that are alike")
    mean, deviation = statistics.fmean(durations), statistics.stdev(durations)
    if not mean or not statistics.median(durations):
        return None
    cv, tail = 100 * deviation / mean, max(durations) / statistics.median(durations)
    if cv <= limits.cv_percent and tail < limits.tail_ratio:
        return None
    t = T_95[len(durations) - 2] if len(durations) - 2 < len(T_95) else 2.0
    within = 100 * t * deviation / mean / len(durations) ** 0.5
    return Finding(
        "warning" if within >= limits.warning_percent else "info",
        f"The {_of_which(facts)}steps vary by ± {words.percent(within)} (95 % interval of"
        f" {words.things(len(durations), 'step')})",
        (
            Evidence("steps", len(durations)),
            Evidence("standard deviation", deviation, "ns"),
            Evidence("slowest step", max(durations), "ns"),
        ),
        f"{words.ns(deviation)} / {words.ns(mean)} = {words.percent(cv)}; slowest / median = {words.number(tail)}",
    )


_PREPARES = re.compile(
    r"fill_?(functor|kernel)|fill_|distribution_|arange|curand|philox|uniform_|normal_kernel|random_|memset|_eye",
    re.IGNORECASE,
)
"""Kernels that fill memory with constants or random numbers."""
_INITIALISES = re.compile(
    r"^aten::(uniform_|normal_|trunc_normal_|kaiming_\w+|xavier_\w+|orthogonal_?|erfinv_)$"
    r"|(^|/)torch/nn/init\.py\(\d+\): |: (reset_parameters|_init_weights|load_state_dict|from_pretrained)$"
)
"""Operators and functions that make or load weights."""
_NAMED_SETUP = re.compile(
    r"(?<![a-z])(initiali[sz](e|ing|ation)|init|set ?up|(load|build|create)[ _]?(model|weights|checkpoint))(?![a-z])",
    re.IGNORECASE,
)
"""Ranges that people put around setup."""
_LOADS_CODE = re.compile(r"LibraryLoad|ModuleLoad|CtxCreate|PrimaryCtxRetain", re.IGNORECASE)
LEAST_COPIES = 20
"""So many copies to the GPU before anything computes are a model's weights, one by one, and no batch."""


class Setup(Struct, frozen=True):
    """What comes before the first kernel that computes; times in ns."""

    begin: int
    end: int
    initialisers: int
    """Calls and ranges that make, load or fill weights."""
    example: str
    """The name of the longest of them; "" without any."""
    loads: int
    """Calls that load GPU code or create a context."""
    copies: int
    """Copies from the host to the GPU."""

    @property
    def told(self) -> bool:
        """Whether something shows that this is setup: a program may also wait, or copy its input, first."""
        return bool(self.initialisers or self.loads or self.copies >= LEAST_COPIES)


def before_computing(facts: Facts) -> Setup | None:
    """The time from the first GPU work to the first kernel that does not just copy or fill; None without kernels."""
    span, launched = facts.sel.work_span, facts.launches
    computes = names.matching(
        launched["name"], lambda name: _PREPARES.search(name) is None and kernel_names.category(name) != "copy"
    )
    first = launched["start"].filter(pl.Series(computes)).min()
    if span is None or first is None:
        return None
    end = int(first)
    host = facts.trace.host.select("kind", "name", "start", "duration").filter(pl.col("start") < end)
    by_torch = names.matching(host["name"], lambda name: _INITIALISES.search(name) is not None)
    by_range = names.matching(host["name"], lambda name: _NAMED_SETUP.search(name) is not None)
    calls = host["kind"].is_in(["operator", "python"])
    made = host.filter((pl.Series(by_torch) & calls) | (pl.Series(by_range) & (host["kind"] == "annotation")))
    loads = names.matching(host["name"], lambda name: _LOADS_CODE.search(name) is not None)
    inside = (host["start"] >= span[0]).to_numpy()
    longest = made.sort("duration", descending=True)["name"].cast(pl.String)
    copies = facts.sel.device.select("kind", "name", "start")
    copies = copies.filter((pl.col("kind") == "memcpy") & (pl.col("start") < end))
    return Setup(
        span[0],
        end,
        made.height,
        str(longest[0]) if made.height else "",
        int(np.count_nonzero(loads & inside)),
        int(names.matching(copies["name"], lambda name: "HtoD" in name or "Host-to-Device" in name).sum()),
    )


@looks_for(V29)
def setup_inside(facts: Facts, limits: Limits) -> Finding | None:
    if facts.sel.steps.height:
        return None
    found, span = before_computing(facts), facts.sel.work_span
    if found is None or span is None or not found.told:
        return None
    lasts, whole = found.end - found.begin, span[1] - span[0]
    share = 100 * lasts / whole
    if share < limits.share_percent:
        return None
    return Finding(
        "critical" if share >= limits.critical_percent else "warning",
        f"The first {words.percent(share)} of the analysed time are setup: no kernel computes anything yet",
        evidence(
            ("from the first GPU work to the first kernel that computes", lasts, "ns", Query("timeline")),
            ("from first to last GPU work", whole, "ns", Query("timeline")),
            ("copies to the GPU before it", found.copies, "", Query("kernels:copies")),
            (f"calls that make or load weights before it, such as {found.example}", found.initialisers or None),
            ("calls that load GPU code in it", found.loads or None),
        ),
        words.part_of(lasts, whole, share),
        advice=facts.program.say(
            pytorch="Call profiler.step() after each step, or put a record_function range around it; or start the"
            " profiler after the model is on the GPU and has run once (torch.profiler.schedule).",
            other="Put an NVTX range around each step, or start the recording after the setup (cudaProfilerStart with"
            " nsys profile --capture-range=cudaProfilerApi).",
        ),
    )


@looks_for(V2)
def impossible_shares(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    steps = facts.step_ranges.frame
    if not steps.height:
        return Abstention("steps and ranges inside them: call profiler.step(), or put an NVTX range around each")
    longest = int((steps["end"] - steps["start"]).max())
    found = _longest_part(facts)
    if found is None or longest <= 0 or 100 * found[1] / longest <= limits.part_percent:
        return _overlap(steps, limits.overlap_percent)
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
        words.part_of(part, longest, share),
        threshold=f"more than {words.percent(limits.part_percent)} of the longest step",
        advice="Do not show this share. See whether the step ran to its end (an error such as out of memory cuts it"
        " short), and compare each range with the step that it was in.",
    )


def _overlap(steps: pl.DataFrame, most_percent: float) -> Finding | None:
    """Finds steps whose times add up to more than the time that passed."""
    whole = int((steps["end"] - steps["start"]).sum())
    wall = intervals.length(intervals.union(steps["start"].to_numpy(), steps["end"].to_numpy()))
    if not wall or 100 * (whole - wall) / wall <= most_percent:
        return None
    share = 100 * whole / wall
    return Finding(
        "invalid",
        f"The steps add up to {words.percent(share)} of the time they take: they overlap",
        (Evidence("steps", steps.height), Evidence("sum", whole, "ns"), Evidence("time they take", wall, "ns")),
        words.part_of(whole, wall, share),
        threshold=f"more than {words.percent(most_percent)} above it",
        advice="Mark steps on one thread only, and end each before the next begins.",
    )


def _longest_part(facts: Facts) -> tuple[str, int, int] | None:
    """The range with the longest lower median among those inside steps on their thread: name, ns, count."""
    steps = facts.step_ranges.frame.drop_nulls(["process", "thread"])
    steps = steps.select("process", "thread", begin="start", until="end").sort("begin", "until")
    host = facts.trace.host
    ranges = host.select("name", "process", "thread", "start", "duration")
    ranges = ranges.filter(pl.Series(_nesting(host) & scope_mask(facts.sel)))
    ranges = ranges.join(steps.select("process", "thread").unique(), on=["process", "thread"], how="semi")
    # the last step of its thread that began before it or with it
    ranges = ranges.sort("start").join_asof(
        steps, left_on="start", right_on="begin", by=["process", "thread"], check_sortedness=False
    )
    end = pl.col("start") + pl.col("duration")
    inside = (end <= pl.col("until")).fill_null(value=False)
    is_step = inside & (pl.col("start") == pl.col("begin")) & (end == pl.col("until"))
    parts = ranges.group_by("name").agg(
        pl.col("duration").sort().get((pl.len() - 1) // 2), n=pl.len(), inside=inside.any(), is_step=is_step.any()
    )
    parts = parts.filter(pl.col("inside") & ~pl.col("is_step")).select(pl.col("name").cast(pl.String), "duration", "n")
    return parts.sort("duration", "name", descending=[True, False]).row(0) if parts.height else None


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


@looks_for(V13)
def host_is_not_gpu(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    steps = facts.step_ranges.frame
    base = float((steps["end"] - steps["start"]).sum()) if steps.height else facts.step_ns
    found = []
    phases = named_phases(facts.sel)
    for phase in phases:
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
        f"{len(found)} of {words.things(len(phases), 'range')}",
        aside=NO_ACT,
    )
