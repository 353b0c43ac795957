"""Are Nsight Compute's counters representative of the run? Rules on what was measured, and how."""

from __future__ import annotations

import re
import shlex

import polars as pl

from tracetui.analysis.base.names import matching
from tracetui.analysis.counters.metrics import stopped_at
from tracetui.analysis.findings.core import program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.declared.validity import V4, V5, V27, V28
from tracetui.analysis.roofline.counters import matrix_time
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_key import function_name

ONLY_MOVES = frozenset({"copy", "memcpy", "memset", "fill"})
"""Categories of kernels that compute nothing."""
MOST_LAUNCHES = 200
SM_CLOCKS = ("smsp__cycles_elapsed.avg.per_second", "SM Frequency")

OF_ANOTHER_RUN = "counters of this run: those in the folder are of another run (V25) or rank"


@looks_for(V4)
def coverage(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if facts.trace.info.kind == "ncu":
        return _only_moves(facts)
    measured = facts.counters
    if measured is None:
        return Abstention(OF_ANOTHER_RUN)
    if measured.gpu_time_percent is None:
        return Abstention("kernels with times: a Chrome trace or an nsys export of the same run")
    share = measured.gpu_time_percent
    if share >= limits.covered_percent:
        return None
    absent = facts.kernels.filter(~pl.col("name").is_in(measured.kernels["name"].implode()))
    largest = absent.row(0, named=True)
    of_amd = facts.trace.info.kind == "rocprof"
    kernels, taken, launches = worth_measuring(facts, limits.target_percent, limits.least_percent)
    return Finding(
        "warning",
        f"{'ROCm counted' if of_amd else 'Nsight Compute measured'} only {words.percent(share)} of the kernel time: no"
        " conclusion on the rest",
        (
            Evidence("kernel time that was measured", share, "%", Query("counters")),
            Evidence("launches measured", measured.launches),
            Evidence("kernels measured", measured.kernels.height),
            Evidence("largest that was not", largest["short_name"], "", Query("kernels", row=largest["name"])),
            Evidence("its share of the kernel time", facts.share_of_kernels(largest["total_ns"]) or 0.0, "%"),
        ),
        words.part_of(share / 100 * facts.kernel_ns, facts.kernel_ns, share),
        advice=(f"Measure these {len(kernels)} functions: they make {words.percent(taken)} of the kernel time."),
        next_command="" if of_amd else ncu_command(facts, kernels, launches),
    )


def _only_moves(facts: Facts) -> Finding | Abstention | None:
    """What a report of Nsight Compute alone can tell: whether all that it measured are copies."""
    names = facts.trace.device.filter(pl.col("kind") == "kernel")["name"].cast(pl.String).drop_nulls()
    distinct = names.unique().to_list()
    if not distinct or not all(kernel_names.category(name) in ONLY_MOVES for name in distinct):
        return Abstention("the share of the GPU time that was measured: add a Chrome trace or nsys export")
    shown = words.listed([kernel_names.short_name(name) for name in sorted(distinct)], 2)
    return Finding(
        "warning",
        f"All {words.things(names.len(), 'measured launch', 'measured launches')} are copies: nothing that computes "
        "was measured",
        (
            Evidence("launches measured", names.len(), query=Query("counters")),
            Evidence("kernels measured", shown),
        ),
        f"{names.len()} of {names.len()} launches move data only",
        threshold="a measured launch that computes",
        advice="--launch-skip and --launch-count fell into copies. Record a time line first, then measure the kernels"
        " that take the time by name.",
        next_command="tracetui profile --tool torch,ncu MODEL",
    )


@looks_for(V28)
def stopped(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if facts.trace.info.kind != "ncu":
        return Abstention("a report of Nsight Compute in view")
    if facts.manifest is None:
        return Abstention("the command of ncu: run.json of tracetui profile")
    limit = stopped_at(facts.trace, facts.manifest)
    if limit is None:
        return None
    return Finding(
        "info",
        f"ncu stopped after {words.things(limit, 'launch', 'launches')}, as it was told: the rest of the run was not"
        " measured",
        (Evidence("launches measured", facts.trace.device.height, "", Query("counters")),
         Evidence("--launch-count", limit)),
        f"{facts.trace.device.height} launches measured, {limit} allowed",
        next_command=program.rerun(facts, "--tool", "torch,ncu"),
    )  # fmt: skip


@looks_for(V27)
def mixed_precision(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if facts.trace.info.kind != "ncu":
        return Abstention("a report of Nsight Compute in view")
    told = {name: ns for name, ns in matrix_time(facts.trace).items() if name is not None}
    whole = sum(told.values())
    shares = {name: 100 * ns / whole for name, ns in told.items()} if whole else {}
    large = [name for name, share in shares.items() if share > limits.share_percent]
    if len(large) < 2:
        return None
    listed = ", ".join(f"{name} {words.percent(share)}" for name, share in shares.items())
    untold = matrix_time(facts.trace).get(None, 0.0)
    return Finding(
        "info",
        f"The capture mixes precisions: {listed} of its matrix work",
        evidence(
            *((f"matrix work in {name}", ns, "ns", Query("counters")) for name, ns in told.items()),
            ("matrix work of unknown precision", untold or None, "ns"),
        ),
        f"{' + '.join(words.ns(ns) for ns in told.values())} = {words.ns(whole)} of matrix work",
        next_command="tracetui profile --tool ncu MODEL --sweep dtype=fp32,bf16",
    )


def worth_measuring(facts: Facts, target: float, least: float) -> tuple[list[str], float, int]:
    """Base names of the kernels that take the target share, longest first; their share; their launches per step."""
    chosen: dict[str, None] = {}
    taken, calls = 0.0, 0
    for name, ns, count in facts.kernels.select("name", "total_ns", "calls").iter_rows():
        share = facts.share_of_kernels(ns) or 0.0
        if taken >= target or share < least:
            break
        chosen[function_name(name).base] = None
        taken, calls = taken + share, calls + count
    return list(chosen), taken, min(MOST_LAUNCHES, max(1, round(calls / facts.step_count)))


def ncu_command(facts: Facts, kernels: list[str], launches: int) -> str:
    """The command line that measures these functions."""
    pattern = f"regex:^({'|'.join(map(re.escape, kernels))})$"
    command = facts.manifest.identity.command if facts.manifest else ()
    program = shlex.join(command[command.index("--") + 1 :]) if "--" in command else "python your_program.py"
    return (
        f"ncu --set full --clock-control none --target-processes all --kernel-name {shlex.quote(pattern)} "
        f"--launch-count {launches} --csv --page raw --log-file ncu.csv {program}"
    )


SAME_CLOCK = 0.05
"""Clocks closer to each other than this share count as equal, because they are sampled at different moments."""


@looks_for(V5)
def conditions(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if facts.counters is None:
        return Abstention(OF_ANOTHER_RUN)
    both = facts.kernels.join(
        facts.counters.kernels.select("name", measured_ns="duration_ns", measured="launches"), on="name"
    )
    both = both.filter((pl.col("mean_ns") >= 1000 * limits.least_us) & pl.col("measured_ns").is_not_null())
    if not both.height:
        return Abstention(f"measured kernels of {words.number(limits.least_us)} µs and more, with durations")
    both = both.with_columns(ratio=pl.col("measured_ns") / pl.col("mean_ns"))
    ours, theirs = float(both["total_ns"].sum()), float((both["measured_ns"] * both["calls"]).sum())
    ratio = theirs / ours
    if limits.low_ratio <= ratio <= limits.high_ratio:
        return None
    settings = dict(facts.run.of_kind("ncu")[0].info.captured)
    return Finding(
        "warning",
        f"Under Nsight Compute kernels of {words.number(limits.least_us)} µs and more take {words.number(ratio)} times "
        "as long as in the run",
        evidence(
            *(
                (f"{row['short_name']}: ncu over run", round(row["ratio"], 2), "", Query("kernels", row=row["name"]))
                for row in both.head(4).iter_rows(named=True)
            ),
            ("SM clock under ncu", _clock(facts), "Hz"),
            ("clock in the run", _run_clock(facts), "Hz"),
            ("ncu says", settings.get("warning 1")),
        ),
        f"{words.ns(theirs)} / {words.ns(ours)} = {words.number(ratio)}, of "
        f"{words.things(both.height, 'kernel')}, weighted by launches",
        advice=(f"Take counters as shares of peak and times from the recording. {_same_conditions(facts)}"),
    )


def _same_conditions(facts: Facts) -> str:
    """How to measure again under the conditions of the run; if the clocks were equal, only the caches remain."""
    theirs, ours = _clock(facts), _run_clock(facts)
    warm = "--cache-control none keeps the caches warm, if the run finds its data there."
    if theirs and ours and abs(theirs / ours - 1) <= SAME_CLOCK:
        return f"The clocks were the same, so it is the caches, which ncu flushes before each pass: {warm}"
    return f"Measure again with --clock-control none; {warm}"


def _clock(facts: Facts) -> float | None:
    """The SMs' mean clock under ncu, Hz."""
    for trace in facts.run.of_kind("ncu"):
        rows = trace.counters.filter(pl.Series(matching(trace.counters["metric"], SM_CLOCKS.__contains__)))
        found = rows.filter(pl.col("unit").cast(pl.String) == "hz")["value"].drop_nulls()
        if found.len():
            return float(found.sum()) / found.len()
    return None


def _run_clock(facts: Facts) -> float | None:
    """The highest clock that was sampled during the run, Hz."""
    samples = facts.manifest.power.during if facts.manifest else ()
    return max((float(gpu.clock_hz) for sample in samples for gpu in sample.gpus if gpu.clock_hz), default=None)
