"""Rule on recordings that can't tell what limits the run, with the reason and what to record instead."""

from __future__ import annotations

from collections.abc import Callable

from tracetui.analysis.base import intervals
from tracetui.analysis.dependencies.graph import longest_delay
from tracetui.analysis.dependencies.limit import LAYERS, UNLAUNCHED, Why, launches_alone, lost_wait, missed
from tracetui.analysis.dependencies.model import Model
from tracetui.analysis.findings.core import program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Finding, Query, evidence
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.declared.validity import V26
from tracetui.analysis.findings.validity.events import ends_early
from tracetui.parsers.names import kernel_names

_TITLE = "CPU or GPU can't be told"
_NOT_ITS_FAULT: dict[Why, str] = {
    "no_gpu": "GPU work",
    "kernels": "GPU work: it launched kernels, and none was recorded (V9)",
    "durations": "a recording with a time line: a Chrome trace or an nsys export",
    "runtime": "which calls of the device's runtime wait: CUDA's and HIP's are known",
    "selection": "launches of GPU work in what was selected",
}
"""Reasons for which another recording of the same kind tells no more: what the rule misses."""


@looks_for(V26)
def undecided(facts: Facts, _: Limits) -> Finding | Abstention | None:
    why = facts.run_overview.verdict.why
    if why is None:
        return None
    if why == "launches" and ends_early(facts.trace):
        return Abstention("launches of GPU work: the file ends before them")
    if why in _NOT_ITS_FAULT:
        return Abstention(_NOT_ITS_FAULT[why])
    return _SAID[why](facts)


def _by_recording_cost(facts: Facts) -> Finding:
    """The two ends disagree."""
    model = _model(facts)
    low, high = min(model.kernels_free_ns), max(model.kernels_free_ns)
    events = model.cost.events
    stacks = events.get("python", 0) > 0
    step = f"{words.ns(model.recorded_ns)} as recorded"
    hosts = "the host" if model.transfer is None else "all ranks' hosts"
    return Finding(
        "warning",
        f"{_TITLE}: time ten steps without the profiler"
        if model.clean_ns is None
        else "Late ranks or GPU can't be told: open the recordings of all ranks together",
        evidence(
            ("step as recorded", model.recorded_ns, "ns", Query("timeline")),
            ("the GPU alone", model.host_free_ns, "ns"),
            ("the host alone, as recorded", high, "ns"),
            ("the same without the most that recording may cost", low, "ns"),
            ("host events recorded on the launching threads", sum(events.values())),
            ("Python functions among them", events.get("python")),
        ),
        f"of {step} the GPU alone takes {words.ns(model.host_free_ns)}, {hosts} alone {words.ns(low)} to"
        f" {words.ns(high)}",
        threshold="the limit is the same at both ends",
        advice="The step without the profiler is known, but not how much of what its collectives waited the profiler"
        " cost other ranks: open the recordings of all ranks together, which tells who is late, or record the GPU alone"
        " on all of them (activities=[ProfilerActivity.CUDA])."
        if model.clean_ns is not None
        else facts.program.say(
            pytorch="Record without stacks (with_stack=False): they cost the host most. Or time ten steps without the"
            " profiler: `tracetui profile` does both."
            if stacks
            else "Time ten steps without the profiler, as `tracetui profile` does, or record the GPU alone"
            " (activities=[ProfilerActivity.CUDA]).",
            other="Time the same work without the profiler: if it takes as long as the GPU's work alone, the GPU is the"
            " limit.",
        ),
        next_command=program.rerun(facts, "--no-stack") if model.clean_ns is None else "",
    )


def _by_replay(facts: Facts) -> Finding:
    """The recorded launches don't explain the recorded steps."""
    model = _model(facts)
    work = model.graph.work
    before = work.call < 0
    queued = intervals.length(intervals.union(work.start[before], work.end[before]))
    delay, row = longest_delay(model.graph)
    late = str(model.sel.trace.device["name"][row])
    lacks = [
        f"{kernel_names.short_name(late)} began {words.ns(delay)} later than its launch and its streams explain"
        if delay
        else "",
        f"{words.ns(queued)} of GPU work was launched before the recording" if queued else "",
    ]
    return Finding(
        "warning",
        f"{_TITLE}: record a few steps more, its launches don't explain these",
        evidence(
            ("step as recorded", model.recorded_ns, "ns", Query("timeline")),
            ("step in a replay of its launches", model.replayed_ns, "ns"),
            ("steps that the replay misses", len(model.unexplained)),
            ("steps in all", model.step_count),
            ("what the replay misses of a step, in the median", model.missed_ns, "ns"),
            ("longest delay of GPU work that nothing recorded explains", delay, "ns", Query("timeline")),
            ("GPU work launched before the recording", queued, "ns", Query("timeline")),
            ("waits of a stream for another whose source is not known", model.graph.unknown_waits),
        ),
        "; ".join((missed(model), *filter(None, lacks))),
        threshold="the limit is the same whether what is missed is the host's time or the GPU's",
        advice=(
            "Wait for the GPU before the recording starts (torch.cuda.synchronize(), cudaDeviceSynchronize), so that no"
            " work from before runs in it, and record a few steps more."
            if queued
            else _ALL_OF_IT
        )
        + _BY_TRIAL,
        next_command=program.rerun(facts),
    )


def _by_lost_wait(facts: Facts) -> Finding:
    """The path runs through waits for what nobody recorded."""
    assert facts.path is not None
    share, call = lost_wait(facts.path)
    return Finding(
        "warning",
        f"{_TITLE}: the host waits for something that was not recorded",
        evidence(
            ("waits for it, of the critical path", share, "%", Query("host:critical path", row="wait")),
            ("most in", call, "", Query("host:API calls", row=call)),
        ),
        f"{words.percent(share)} of the critical path is in calls that wait for long while no recorded GPU work ends,"
        f" most in {call}",
        threshold="another part of the host's or the GPU's path is longer",
        advice=(
            "Open the recordings of all ranks together: who comes last to collectives is told then, and the Timeline"
            " shows on one clock whose work runs while this rank waits, as that of a rank on the same GPU does."
            if (facts.trace.info.world_size or 1) > 1
            else _ALL_OF_IT
        )
        + _BY_TRIAL,
        next_command=program.rerun(facts),
    )


def _by_kind(facts: Facts) -> Finding:
    """JAX's profiler says when work ran, not what its host did before."""
    return _without_host(
        facts,
        "record with Nsight Systems",
        launches_alone(facts.trace),
        "Record with Nsight Systems instead: nsys profile -t cuda,nvtx -o run python PROGRAM." + _BY_TRIAL,
    )


_CALLS_BY: dict[str, str] = {
    "nsys": "nsys profile -t cuda PROGRAM",
    "rocprof": "rocprofv3 --hip-trace --kernel-trace -- PROGRAM",
    "trtexec": "nsys profile -t cuda,nvtx trtexec …",
}
"""The command that records the host's calls too, by the tool that did not."""


def _by_launches(facts: Facts) -> Finding:
    """GPU work without the calls that launched it."""
    kind = facts.trace.info.kind
    if kind == "chrome" and facts.program.framework == "pytorch":
        act, how = "record the CPU too", "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
    else:
        act, how = "record the API calls of the host too", _CALLS_BY.get(kind, "")
    advice = f"{act[:1].upper()}{act[1:]}{f': {how}' if how else ''}." + _BY_TRIAL
    return _without_host(facts, act, LAYERS if kind == "trtexec" else UNLAUNCHED, advice)


def _without_host(facts: Facts, act: str, lacks: str, advice: str) -> Finding:
    """A recording of the GPU alone; rules on the host abstain by themselves, so it takes nothing away."""
    return Finding(
        "info",
        f"{_TITLE}: {act}",
        evidence(
            ("step as recorded" if facts.sel.steps.height else "recorded", facts.step_ns, "ns", Query("timeline"))
        ),
        lacks,
        advice=advice,
        doubts=(),
    )


_ALL_OF_IT = (
    "Record all GPUs and processes that this one waits for, from before the work is launched that is waited for, and a"
    " few steps more."
)
_BY_TRIAL = (
    " Or try it: time steps of two batch sizes without a profiler. Steps that grow with the batch wait for the GPU,"
    " steps that hardly do for the CPU."
)
_SAID: dict[Why, Callable[[Facts], Finding]] = {
    "recording_cost": _by_recording_cost,
    "unexplained": _by_replay,
    "unrecorded_wait": _by_lost_wait,
    "jax": _by_kind,
    "launches": _by_launches,
}


def _model(facts: Facts) -> Model:
    assert facts.model is not None
    return facts.model
