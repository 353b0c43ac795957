"""Ranks that the others wait for: in the program, or in this recording only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import gain, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import rule
from tracetui.analysis.ranks.together import said
from tracetui.analysis.ranks.together.late import LEAST_PERCENT, STEP_PERCENT

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits
    from tracetui.analysis.ranks.together.job import Job
    from tracetui.analysis.ranks.together.late import Late

_WHAT_TO_DO = {
    "gpu_work": "Give every rank the same work: look for what only this rank computes there (evaluation, logging,"
    " an uneven split of layers or experts).",
    "larger": "Give every rank the same share: batches of one size, sequences padded or packed alike.",
    "slow_gpu": "Compare clocks, temperature and power of its GPU with the others' (nvidia-smi -q -d"
    " CLOCK,PERFORMANCE), and look for other processes on it.",
    "copies": "Look for what only this rank copies: checkpoints, metrics, a batch that others keep on the GPU.",
    "loader": "Look at this rank's loader: more workers, its share of the files, its disk or network.",
    "collection": "Collect garbage on all ranks at the same step (gc.disable(), then gc.collect() every some hundred"
    " steps), so that they pause together.",
    "pause": "Record with stacks, or with nsys, to see what the host did there; gc.disable() in the loop tells whether"
    " it is garbage collection.",
    "host": "Take it out of the step, or let a thread do it: nothing is launched meanwhile, and all other ranks wait.",
}
_NO_REASON = "Open this rank, and compare it with the median one."


@rule(
    "S20",
    "A rank that is late in the program",
    needs=("ranks",),
    rests_on=("gpu",),
    advice="Give all ranks the same work.",
)
def late_in_program(facts: Facts, limits: Limits) -> list[Finding]:
    """The others wait for a rank that has more to do, by what a profiler cannot add.

    That is GPU work of its own which it launched in the recording, waiting for its data loader, or host time in
    stretches of over 1 ms in which no recorded event begins or ends, outside blocking calls: a profiler costs time at
    events only. A rank is compared with the median of those that do the same work (a stage of a pipeline), and named
    from 5 % of the step on; for GPU work that is 20 % above the median rank's from 2 %. The cause is the range, module
    or kernel that it has more of, launches that are larger or take longer, or a single stop. What it costs is at most
    what it has so much more of; what it has less is said beside that.
    """
    job = facts.job
    assert job is not None
    del limits
    return [_late(one, job) for one in job.answers.program[: said.NAMED]]


def _late(late: Late, job: Job) -> Finding:
    step = said.base_ns(late, job)
    named = late.named_ns
    ceiling = said.at_the_median(late, job)
    path = job.path.filter(pl.col("rank") == late.rank)["percent"]
    cause = late.cause
    per = "per step" if job.step_count else "in the recording"
    evidence = [
        *(
            Evidence(f"{'more' if ns > 0 else 'less'} {_PARTS[name]}, {per}", abs(ns), "ns", Query("ranks"))
            for name, ns in late.parts.items()
        ),
        Evidence(f"excess over the median rank, {per}", late.late_ns, "ns", Query("ranks")),
        Evidence("in", cause.name if cause is not None else ""),
        Evidence("last to arrive", f"{late.last} of {late.of} collectives", "", Query("ranks:arrivals")),
        Evidence(
            "the recording's critical path across ranks",
            float(path[0] or 0.0) if len(path) else 0.0,
            "%",
            Query("ranks:waiting"),
        ),
    ]
    clean = " without a profiler" if step is not None and step == job.clean_step_ns else ""
    return Finding(
        "S20",
        gain.severity(ceiling),
        f"Rank {late.rank} is late in the program: {said.late_words(late, job)}",
        tuple(one for one in evidence if one.value),
        f"{_sum(late)} over the median rank; at stake {words.ns(named)} of a step of {words.ns(step)}{clean}"
        if step
        else "",
        f"{STEP_PERCENT:.0f} % of the step, or {LEAST_PERCENT:.0f} % of it that are far beyond the"
        " median rank's own GPU work",
        _WHAT_TO_DO.get(cause.kind if cause is not None else "", _NO_REASON),
        impact_ns=named,
        ceiling_percent=ceiling,
    )


_PARTS = {"gpu": "GPU work", "silent": "silent host time", "loader": "waiting for data"}


def _sum(late: Late) -> str:
    """``12.27 ms silent host time - 1.860 ms GPU work = 10.42 ms``."""
    parts = [(name, ns) for name, ns in late.parts.items() if round(ns)]
    parts.sort(key=lambda part: -part[1])
    text = "".join(f" {'+' if ns > 0 else '-'} {words.ns(abs(ns))} {_PARTS[name]}" for name, ns in parts)
    text = text.removeprefix(" + ")
    return f"{text} = {words.ns(late.late_ns)}" if len(parts) > 1 else text


@rule(
    "S21",
    "A rank that comes last in this recording only",
    needs=("collectives",),
    rests_on=("host",),
    advice="Don't take its time in this recording for the program's.",
)
def late_in_recording(facts: Facts, limits: Limits) -> Finding | None:
    """A rank comes last to the collectives, and what it has more than the median rank does not explain it.

    Its lateness is spread over many short calls of its host, each of which the profiler slows, and not on all ranks
    alike. Whether the program has it can't be told from this recording, so the finding promises nothing. Clean steps
    and a light recording come nearer.
    """
    del limits
    job = facts.job
    assert job is not None
    late = job.answers.recording
    if late is None or any(one.rank == late.rank for one in job.answers.program):
        return None
    if late.untold_ns <= 0.5 * late.late_ns:
        return None
    per = "per step" if job.step_count else "in the recording"
    clean = (
        Evidence("step without a profiler", job.clean_step_ns, "ns") if job.clean_step_ns is not None else None,
        Evidence("step as recorded", job.step_ns, "ns") if job.step_ns is not None else None,
    )
    return Finding(
        "S21",
        "info",
        f"Rank {late.rank} comes last in this recording, to {late.last} of {late.of} collectives; whether it does in"
        " the program can't be told",
        (
            Evidence(f"after the median rank, {per}", late.late_ns, "ns", Query("ranks")),
            Evidence("of it unexplained", late.untold_ns, "ns", Query("ranks:arrivals")),
            *(one for one in clean if one is not None),
        ),
        f"{words.ns(late.late_ns)} after the median rank; more GPU work {words.ns(late.gpu_ns)}, more silent host time"
        f" {words.ns(late.silent_ns)}",
        f"{STEP_PERCENT:.0f} % of the step, and more than half of it unexplained",
        "Look at the light recording and at the clean steps, on each rank: record with tracetui profile. A rank whose"
        " host is slow there too needs fewer launches (CUDA graphs, torch.compile) or a core of its own.",
    )
