"""The checklist of one recording, also as JSON: its points, what answers them, and what records the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import polars as pl
from msgspec import Meta, Struct
from msgspec.structs import replace

from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core import basis, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding, Findings
from tracetui.analysis.findings.engine import findings_of
from tracetui.analysis.findings.host.copies import HTOD, copies, copies_of
from tracetui.analysis.findings.verdict import verdict
from tracetui.analysis.roofline.words import PRECISIONS
from tracetui.analysis.scope import Scope
from tracetui.parsers import Run, Trace


def host_work(facts: Facts) -> str:
    """What the step would gain without work of the host other than launching."""
    from tracetui.analysis.findings.host.launching import without_host

    if facts.missing(("timeline", "gpu", "api")) or facts.unknown(("host",)) or facts.host_model is None:
        return ""
    ceiling = without_host(facts, launching=False)
    if ceiling is None or ceiling.ceiling_percent is None:
        return "the GPU is the limit, not the host"
    share = words.percent(ceiling.ceiling_percent)
    return f"without the host's other work than launching {program.span(facts)} would be {share} shorter"


def loading(facts: Facts) -> str:
    """How long the step waits for data and copies it."""
    if not facts.trace.has_timeline or not facts.step_ns:
        return ""
    parts = []
    if facts.loader is not None:
        share = words.percent(facts.ceiling(facts.loader.waited_ns) or 0)
        parts.append(f"the wait for data is {share} of {basis.recorded_span(facts)}")
    if not facts.missing(("gpu",)):
        base = basis.shown(facts)
        spent = float(copies_of(base.of_steps).filter(pl.col("direction") == HTOD)["ns"].sum())
        share = words.percent(base.share(base.of_step(spent)) or 0)
        parts.append(f"copies to the GPU take {share} of {base.span}")
    return ", ".join(parts)


def longest_kernel(facts: Facts) -> str:
    """The kernel with the most time."""
    known = facts.kernels.filter(pl.col("total_ns").is_not_null() & (pl.col("category") != "communication"))
    whole = int(known["total_ns"].sum())
    if not whole:
        return ""
    first = known.row(0, named=True)
    share = words.percent(100 * first["total_ns"] / whole)
    return f"the longest of {words.things(known.height, 'kernel')}, {first['short_name']}, takes {share} of kernel time"


def allocation(facts: Facts) -> str:
    """What the steps ask the driver for, and the peak."""
    from tracetui.analysis.findings.gpu.memory import allocations

    parts = []
    if facts.trace.has_timeline and not facts.missing(("api", "steps")):
        calls = allocations(facts)
        spent = words.ns(facts.per_step(float(calls["duration"].sum())))
        many = words.things(calls.height, "call")
        parts.append(f"{many} for memory in the steps" + (f", {spent} per step" if calls.height else ""))
    held = facts.memory
    if held.peak_allocated_bytes is not None:
        place = "" if held.on_gpu else " on the host"
        peak = f"tensors hold {words.size(held.peak_allocated_bytes)}{place} at most"
        if held.peak_reserved_bytes:
            peak += f", the allocator {words.size(held.peak_reserved_bytes)}"
        parts.append(peak)
    return ", ".join(parts)


def waits(facts: Facts) -> str:
    """How often and how long waits of the host leave the GPU idle."""
    if facts.missing(("timeline", "gpu", "api")) or facts.unknown(("host",)):
        return ""
    from tracetui.analysis.findings.host.synchronisation import waits as waits_of

    frame = waits_of(facts)
    stalls = frame.filter(pl.col("stall_ns") > 0)
    if not frame.height:
        return "the host never waits for the GPU"
    share = words.percent(facts.ceiling(facts.per_step(float(stalls["stall_ns"].sum()))) or 0)
    many = f"{stalls.height} of {frame.height} waits for the GPU"
    return f"{many} leave it idle, for {share} of {basis.recorded_span(facts)}"


def sm_use(facts: Facts) -> str:
    """How much of the multiprocessors is used."""
    if facts.trace.has_timeline and facts.page_step.gpu.height:
        gpu = facts.page_step.gpu
        mean = {name: gpu[name].mean() for name in ("sm_efficiency_percent", "occupancy_percent")}
        parts = [
            f"{what} {words.percent(float(value))}"  # type: ignore[arg-type]
            for what, value in zip(("SM efficiency", "occupancy"), mean.values(), strict=True)
            if value is not None
        ]
        if mean["sm_efficiency_percent"] is not None:
            parts[0] += f" of {program.span(facts)}"
            return ", ".join(parts)
    share = _measured(facts, "sm_percent")
    return "" if share is None else f"SMs work at {words.percent(share)} of their peak in the measured launches"


def bandwidth_use(facts: Facts) -> str:
    """How much of the memory's bandwidth the kernels use."""
    share = _measured(facts, "dram_percent")
    if share is not None:
        return f"DRAM moves {words.percent(share)} of its peak in the measured launches"
    points, peak = _points(facts), facts.roofline.peaks.bandwidth
    if peak is None:
        return ""
    known = points.filter(pl.col("achieved_bytes").is_not_null())
    rate = _weighted(known, "achieved_bytes")
    if rate is None:
        return ""
    share = 100 * rate / peak.value
    return f"by the sizes of their tensors, kernels move {words.percent(share)} of the peak bandwidth{_covered(facts)}"


def idle_gaps(facts: Facts) -> str:
    """How long the GPU has nothing to do, and for how much of that because launches come late."""
    step = facts.page_step
    if facts.missing(("timeline", "gpu")) or not step.ns:
        return ""
    share = words.percent(100 * basis.idle_ns(facts) / step.ns)
    late = _weighted(step.idle.filter(pl.col("stream").is_null()), "host_wait_percent", "idle_ns")
    why = "" if late is None else f", {words.percent(late)} of that waiting for a launch"
    return f"the GPU is idle for {share} of {basis.shown(facts).span}{why}"


def intensity(facts: Facts) -> str:
    """FLOP per byte of all kernels whose work is known, and the ridge of the type that most of the FLOPs are of."""
    known = _points(facts).filter(pl.col("flops").is_not_null() & pl.col("bytes").is_not_null())
    flops, moved = (float((known[name] * known["launches"]).sum()) for name in ("flops", "bytes"))
    if not moved:
        return ""
    by_type = (
        known.drop_nulls("precision").group_by("precision").agg(flops=(pl.col("flops") * pl.col("launches")).sum())
    )
    main = by_type.sort("flops", "precision")["precision"].tail(1).to_list()
    ridge = facts.roofline.ridge.get(main[0]) if main else None
    from_ridge = (
        "" if ridge is None else f"; {PRECISIONS[main[0]]} turns from memory- to compute-bound at {words.number(ridge)}"
    )
    return f"{words.number(flops / moved)} FLOP/byte{_covered(facts)}{from_ridge}"


def roof(facts: Facts) -> str:
    """How near kernels come to their roofs."""
    attained = _weighted(_points(facts).filter(pl.col("attained_percent").is_not_null()), "attained_percent")
    return "" if attained is None else f"kernels attain {words.percent(attained)} of their roofs{_covered(facts)}"


def throughput(facts: Facts) -> str:
    """Compute against memory: measured, else by the roof that limits each kernel."""
    compute, memory = _measured(facts, "sm_percent"), _measured(facts, "memory_percent")
    if compute is not None and memory is not None:
        return f"SMs at {words.percent(compute)} of their peak, memory at {words.percent(memory)}, in measured launches"
    known = _points(facts).filter(pl.col("roof").is_not_null())
    whole = float(known["total_ns"].sum())
    if not whole:
        return ""
    share = 100 * float(known.filter(pl.col("roof") == "memory")["total_ns"].sum()) / whole
    return f"memory limits {words.percent(share)} of the time of the kernels, arithmetic the rest{_covered(facts)}"


def compiled(facts: Facts) -> str:
    """Whether a compiler made kernels of the run."""
    if not facts.kernels.height:
        return ""
    if program.is_compiled(facts):
        return facts.program.say(
            pytorch="compiled: kernels of torch.compile run", jax="compiled: XLA makes the kernels", other="compiled"
        )
    return facts.program.say(
        pytorch="not compiled: no kernel of torch.compile runs",
        jax="no kernel tells that jax.jit was applied",
        other="no compiler of kernels is known",
    )


def pinned(facts: Facts) -> str:
    """How much is copied from and to memory that may be paged out."""
    if not facts.trace.has_timeline:
        return ""
    found = copies(facts)
    known = found.filter(pl.col("pageable").is_not_null())
    if not known.height:
        return "" if found.height or facts.missing(("gpu",)) else "no copies between host and GPU"
    moved = float(known["bytes"].fill_null(0).sum())
    slow = float(known.filter("pageable")["bytes"].fill_null(0).sum())
    slow_size, size = (words.size(facts.per_step(amount)) for amount in (slow, moved))
    return f"{slow_size} of {size} copied {program.per(facts)} are from or to pageable memory"


def batch(facts: Facts) -> str:
    """The samples of a step, and how full the memory is."""
    from tracetui.analysis.compare.comparable import samples_per_step

    samples = samples_per_step(facts.trace, facts.manifest)
    parts = [] if samples is None else [f"a step holds {words.things(samples, 'sample')}"]
    held = facts.memory
    if held.on_gpu and held.peak_allocated_bytes is not None:
        parts.append(f"tensors hold {words.size(held.peak_allocated_bytes)} at most")
    return ", ".join(parts)


def tensor_core_use(facts: Facts) -> str:
    """The share of kernel time on tensor cores."""
    from tracetui.analysis.matching.join import conventions_of
    from tracetui.analysis.operators import tensor_cores

    share = tensor_cores(facts.of_steps, facts.kernels, conventions_of(facts.counters))
    if share.percent is None:
        return ""
    unclear = f", {words.percent(share.unclear_percent)} unknown" if share.unclear_percent else ""
    return f"{words.percent(share.percent)} of kernel time is on tensor cores{unclear}"


def _measured(facts: Facts, column: str) -> float | None:
    """The mean of a counter over all measured launches, weighted by their durations."""
    return None if not facts.measured.height else _weighted(facts.measured, column, "duration_ns")


def _weighted(frame: pl.DataFrame, column: str, weight: str = "total_ns") -> float | None:
    known = frame.filter(pl.col(column).is_not_null() & pl.col(weight).is_not_null())
    whole = float(known[weight].sum())
    return float((known[column] * known[weight]).sum()) / whole if whole else None


def _points(facts: Facts) -> pl.DataFrame:
    """One point per kernel: from counters where there are any, else from shapes."""
    points = facts.roofline.points
    counted = points.filter(pl.col("origin") == "counters")
    return counted if counted.height else points


def _covered(facts: Facts) -> str:
    share = facts.roofline.covered_percent
    return "" if share is None else f" ({words.percent(share)} of kernel time is covered)"


BOTTLENECK = "What's the actual bottleneck?"
BUSY = "Is the GPU actually busy?"
BOUND = "Is it compute or memory bound?"
EASY = "Are there easy wins?"
TRACE, LOADER, ROOFS, COUNTERS, MEMORY = "trace", "loader", "roofs", "counters", "memory"


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the checklist."""

    group: str
    question: str
    figure: Callable[[Facts], str]
    """The figure that it rests on if no rule speaks; empty where the recording does not have it."""
    rules: tuple[str, ...] = ()
    """Findings of these fail it."""
    asked: tuple[tuple[str, ...], ...] = ()
    """Of each of these groups of rules one at least must have looked, lest silence be taken for an answer."""
    record: str = TRACE
    """What records what is missing: a key of `RECORDING`."""
    fails: Callable[[Facts, Finding], bool] = lambda facts, finding: True
    """Which of the findings do."""
    beside: bool = False
    """Whether its figure says something beside a finding that fails it."""
    settled: Callable[[Facts], bool] = lambda facts: False
    """Whether its figure alone answers it, whatever rules could not look."""


def _is_worth_it(_: Facts, finding: Finding) -> bool:
    """Whether a finding is about certain kernels, and more than a remark: a flat profile is no bottleneck."""
    return finding.work is not None and finding.severity != "info"


def _has_no_copies(facts: Facts) -> bool:
    return facts.trace.has_timeline and not facts.missing(("gpu",)) and not copies(facts).height


def _not_compiled(facts: Facts, _: Finding) -> bool:
    return not program.is_compiled(facts)


POINTS = (
    Point(BOTTLENECK, "CPU preprocessing?", host_work, ("S13", "S18", "S19"), (("S13",),)),
    Point(BOTTLENECK, "Data loading/transfer?", loading, ("S5", "S10", "S8"), (("S5",), ("S10",)), LOADER),
    Point(BOTTLENECK, "Specific kernel?", longest_kernel, ("K12", "K2"), (("K12",),), fails=_is_worth_it),
    Point(BOTTLENECK, "Memory allocation?", allocation, ("S16", "G1"), (("G1", "S16"),), MEMORY),
    Point(BOTTLENECK, "Synchronization?", waits, ("S7",), (("S7",),)),
    Point(BUSY, "SM utilization", sm_use, ("S1", "K4"), (("K4",),), beside=True),
    Point(BUSY, "Memory bandwidth utilization", bandwidth_use, ("K6", "K5", "K7"), record=ROOFS, beside=True),
    Point(BUSY, "Idle gaps in the timeline", idle_gaps, ("S2", "S1", "S12", "S14"), (("S1",),), beside=True),
    Point(BOUND, "Arithmetic intensity", intensity, record=ROOFS),
    Point(BOUND, "Roofline position", roof, ("K2", "K13"), record=ROOFS),
    Point(BOUND, "Memory against compute throughput", throughput, ("F7",), record=ROOFS, beside=True),
    Point(
        EASY, "torch.compile / jax.jit applied?", compiled, ("S2", "S12", "F7"), (("S12", "F7"),),
        fails=_not_compiled, beside=True,
        settled=lambda facts: bool(facts.kernels.height) and program.is_compiled(facts),
    ),
    Point(EASY, "Data in pinned memory?", pinned, ("S8",), (("S8",),), settled=_has_no_copies),
    Point(EASY, "Appropriate batch size?", batch, ("V1", "G5", "K4"), (("G5",),), MEMORY, beside=True),
    Point(
        EASY, "Mixed precision enabled?", tensor_core_use, ("F1", "F2", "K10"), (("F1", "K10"),), COUNTERS,
        beside=True,
    ),
)  # fmt: skip
"""The guide's profiling checklist, in its order."""

_NSYS = "nsys profile --trace=cuda,nvtx,osrt {}"
_NCU = "ncu --set full --csv --page raw --log-file ncu.csv {}"
_TORCH = "tracetui profile{} -- python train.py"
_ANY = {"pytorch": _TORCH.format(""), "jax": _NSYS.format("python train.py"), "": _NSYS.format("PROGRAM")}
RECORDING: dict[str, dict[str, str]] = {
    TRACE: _ANY,
    LOADER: _ANY,
    ROOFS: {"pytorch": _TORCH.format(""), "jax": _NCU.format("python train.py"), "": _NCU.format("PROGRAM")},
    COUNTERS: {
        "pytorch": _TORCH.format(" --tool torch,ncu"),
        "jax": _NCU.format("python train.py"),
        "": _NCU.format("PROGRAM"),
    },
    MEMORY: {
        "pytorch": _TORCH.format(" --with-memory"),
        "jax": 'jax.profiler.save_device_memory_profile("memory.prof"), which pprof shows',
        "": _NSYS.format("--cuda-memory-usage=true PROGRAM"),
    },
}
"""What records a kind of evidence, by the framework of the program; ``""`` for any other."""
_OPTIONS = {
    TRACE: ("--tool", "torch"),
    LOADER: ("--data", "imagefolder:PATH"),
    ROOFS: ("--tool", "torch"),
    COUNTERS: ("--tool", "torch,ncu"),
    MEMORY: ("--with-memory",),
}
"""The options that do so for a run that tracetui launched."""


def missing_of(facts: Facts, record: str) -> str:
    """What the recording lacks of such evidence, in words; empty if it has it."""
    needs = {
        TRACE: ("timeline", "gpu"),
        LOADER: ("timeline", "loader"),
        ROOFS: ("gpu", "shapes" if facts.program.framework == "pytorch" else "counters"),
        COUNTERS: ("counters",),
        MEMORY: ("memory",),
    }
    return facts.missing(needs[record])


PEAKS = "tracetui doctor --measure-peaks"
"""What measures the roofs of a GPU that is not in the table."""


def command_for(facts: Facts, record: str) -> str:
    """The command that records such evidence of this program."""
    again = program.rerun(facts, *_OPTIONS[record])
    if again:
        return again
    framework = "pytorch" if facts.trace.info.kind == "memory_snapshot" else facts.program.framework
    return RECORDING[record].get(framework, RECORDING[record][""])


STATUSES = ("done", "failed", "not_recorded")
TOO_LITTLE = "K14"
"""The rule that sets aside advice which would gain too little."""


class CheckPoint(Struct, frozen=True, kw_only=True):
    """A point of the checklist with its answer, as the JSON contract has it."""

    group: str
    point: str
    status: Annotated[str, Meta(description="done, failed or not_recorded")]
    figure: str | None
    """What the answer rests on; of a point that was not recorded, what is known of it, if anything."""
    findings: list[str]
    """Ids of those that failed it, the worst first; `doubted_by` and `advice` are the worst one's."""
    doubted_by: list[str]
    advice: str | None
    beside: str | None
    """Of a point that failed, its own figure beside the finding."""
    missing: str | None
    """What is missing and how to record it, in words."""
    command: str | None
    """The command that records it."""


def _answer(facts: Facts, point: Point, findings: Findings) -> CheckPoint:
    """The answer to a point, which fails if a finding of its rules stands.

    It is done if they looked and found nothing, or nothing worth the trouble (K14), and its figure is known; else the
    recording does not tell.
    """
    standing = [finding for finding in findings.standing if finding.id in point.rules and point.fails(facts, finding)]
    figure = point.figure(facts) if point.beside or not standing else ""
    answer = CheckPoint(
        group=point.group,
        point=point.question,
        status="done",
        figure=figure or None,
        findings=[],
        doubted_by=[],
        advice=None,
        beside=None,
        missing=None,
        command=None,
    )
    if standing:
        worst = standing[0]
        return replace(
            answer,
            status="failed",
            figure=worst.title or None,
            findings=list(dict.fromkeys(finding.id for finding in standing)),
            doubted_by=list(worst.doubted_by),
            advice=worst.advice,
            beside=figure or None,
        )
    missing = "" if point.settled(facts) else _missing(point, findings)
    if missing or not figure:
        missing, command = missing or missing_of(facts, point.record), command_for(facts, point.record)
        if not missing and (unknown := facts.roofline.peaks.unknown):
            missing, command = "; ".join(unknown), PEAKS
        missing = missing or _abstained(point, findings)
        return replace(answer, status="not_recorded", missing=missing or None, command=command or None)
    aside = [each.finding for each in findings.suppressed if each.finding.id in point.rules and each.by == TOO_LITTLE]
    small = next((finding for finding in aside if point.fails(facts, finding)), None)
    if small is not None:
        figure += f"; set aside as worth too little: {small.title} ({small.id})"
    for silent in findings.silenced:
        if silent.finding.id in point.rules:
            figure += f"; silenced ({silent.by}): {silent.finding.title} ({silent.finding.id})"
    return replace(answer, figure=figure)


def _missing(point: Point, findings: Findings) -> str:
    """Why no rule of a group could look, in words; empty if one of each group did."""
    unsure = {rule.id: rule.missing for rule in findings.abstained}
    # a finding that a rule on the measurement refuted tells nothing either
    unsure |= {
        rule.finding.id: f"a measurement that holds: {rule.by} speaks against this one"
        for rule in findings.suppressed
        if rule.by != TOO_LITTLE
    }
    return next((unsure[group[0]] for group in point.asked if all(id in unsure for id in group)), "")


def _abstained(point: Point, findings: Findings) -> str:
    """The first reason why a rule of the point could not look."""
    reasons = (rule.missing for id in point.rules for rule in findings.abstained if rule.id == id)
    return next(reasons, "work whose size is known")


class CheckReport(Struct, frozen=True, kw_only=True):
    """Every point of the checklist of one run."""

    schema: str
    path: str
    recording: str
    kind: str
    rank: int | None
    ranks: list[int]
    other_runs: int
    base: str
    waits_for: str | None
    points: list[CheckPoint]
    counts: dict[str, int]


SCHEMA = "tracetui.check/1"


def check_report(
    run: Run,
    scope: Scope,
    config: Config | None = None,
    on_error: Callable[[Exception], None] | None = None,
) -> CheckReport:
    """Every point of the checklist for a run; of several ranks, for the one that the others wait for.

    Args:
        run: what `open_path` returned; counters and snapshots beside the main recording answer their points.
        scope: the steps, devices or stretch of time that it is about.
        config: thresholds of the rules, and which rules are silenced.
        on_error: called with the error of a rule that failed.
    """
    trace = _chosen(run, scope)
    facts = Facts(run, trace, scope)
    findings = findings_of(facts, config, on_error)
    points = [_answer(facts, point, findings) for point in POINTS]
    return CheckReport(
        schema=SCHEMA,
        path=str(run.path),
        recording=str(trace.source.path),
        kind=trace.info.kind,
        rank=trace.info.rank,
        ranks=sorted(run.ranks),
        other_runs=len(run.others),
        base=facts.sel.describe() if trace.has_timeline or facts.sel.by_steps else "whole recording",
        waits_for=verdict(facts, config).sentence if trace.has_timeline else None,
        points=points,
        counts={status: sum(point.status == status for point in points) for status in STATUSES},
    )


def _chosen(run: Run, scope: Scope) -> Trace:
    """The recording to check: the straggler's where there is one, else the run's main one."""
    if len(run.ranks) < 2:
        return run.main
    from tracetui.analysis.ranks.of_run import ranks_of, straggler

    late = straggler(ranks_of(run, scope))
    if late is not None:
        run = run.with_rank(late)
    return next((trace for trace in run.traces if late is not None and trace.info.rank == late), run.main)
