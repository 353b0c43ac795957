"""Was any GPU work recorded, and are its times possible?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.names import of_kinds, rows_of
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query, known
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.declared.validity import V9, V10, V11

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

CUDA = 1
"""Torch's number for CUDA devices (c10::DeviceType)."""


@looks_for(V9)
def no_gpu_events(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    from tracetui.analysis.attribution.launch_calls import launch_calls

    trace = facts.trace
    kernels = rows_of(trace.device.select("kind", "duration"), "kernel", "graph")
    device = _gpu_of(facts)
    calls = launch_calls(trace).height
    if not calls and not kernels.height and device is None:
        return Abstention("CUDA API calls, or a run.json that says it ran on a GPU: launch with tracetui profile")
    if trace.info.kind == "nsys" and not calls:
        return None  # without any call it is an empty capture, which V11 reports
    if int(kernels["duration"].sum()) > 0 or (not calls and kernels.height):
        return None
    from tracetui.parsers.chrome.classify import COUNTERS_NOT_KERNELS

    counted = sum(note.count for note in trace.notes if note.reason == COUNTERS_NOT_KERNELS)
    what = "none took any time" if kernels.height else "no kernel was recorded"
    if counted and not kernels.height:
        what = "the file has counters in place of kernels"
    done = words.things(calls, "kernel launch", "kernel launches") if calls else "Ran on a GPU"
    return Finding(
        "invalid",
        f"{done}, but {what}: nothing can be said of the GPU",
        known(
            ("launching calls", calls, "", Query("host:API calls", "Launch")),
            ("kernels recorded", kernels.height),
            ("kernels with counters only", counted or None),
            ("device of the run", device),
        ),
        f"{words.count(calls)} launches, {words.count(kernels.height)} kernels, "
        f"{words.ns(int(kernels['duration'].sum()))} of kernel time",
        advice="Counters were asked for (profiler_metrics in torch.profiler's experimental_config), and CUPTI then"
        " records no "
        "kernel's time: record again without them, and counters with Nsight Compute."
        if counted
        else "Ask for the GPU (ProfilerActivity.CUDA), and let CUPTI see it: run as root on a Jetson before CUDA 13, "
        "end other profilers, and use a torch whose CUPTI fits the driver.",
        next_command="" if counted else "tracetui doctor",
    )


def _gpu_of(facts: Facts) -> str | None:
    """The GPU that the run used even if none of its work was recorded; None if nothing proves that it used one."""
    device = facts.manifest.workload.device if facts.manifest else None
    if device and device.startswith("cuda"):
        return device
    return "CUDA memory was allocated" if (facts.trace.memory["device_type"] == CUDA).any() else None


@looks_for(V10)
def broken_times(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    launched = facts.sel.device.select("name", "launch", "start").drop_nulls(["launch", "start"])
    negative = sum(
        n.count for n in facts.trace.notes if "negative duration" in n.reason or "end before the start" in n.reason
    )
    if not launched.height and not negative:
        return Abstention("which call launched which kernel: record the CUDA API too")
    called = facts.trace.host["start"].gather(launched["launch"])
    ahead = called - launched["start"]
    early = int((ahead > 1000 * limits.slack_us).sum())
    events = max(facts.trace.source.events_parsed, 1)
    share = 100 * early / launched.height if launched.height else 0.0
    if share <= limits.share_percent and 100 * negative / events <= limits.share_percent:
        return None
    title, row, far = f"{words.count(negative)} of {words.count(events)} events end before they begin", "", False
    if early:
        worst = int(ahead.arg_max() or 0)
        most, row = words.ns(ahead[worst]), str(launched["name"][worst])
        far = share > limits.share_percent and ahead[worst] > 1000 * limits.early_us
        title = (
            f"{words.percent(share)} of the launched work begins before its launch, up to {most}: "
            "the GPU's clock is early"
        )
    return Finding(
        "critical" if far else "warning",
        title,
        (
            Evidence("begins before its launch", early, query=Query("kernels", row=row)),
            Evidence("launched work", launched.height),
            Evidence("events that end before they begin", negative),
        ),
        f"{words.count(early)} of {words.count(launched.height)} start before their call; "
        f"{words.count(negative)} negative durations in {words.count(events)} events",
    )


@looks_for(V11)
def empty_capture(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    trace = facts.trace
    if trace.info.kind not in ("nsys", "ncu"):
        return Abstention("a capture by Nsight Systems or Nsight Compute")
    work = int((trace.device["kind"] != "annotation").sum())
    calls = int(of_kinds(trace.host["kind"], "runtime", "driver").sum())
    if work or calls:
        return None
    settings = dict(trace.info.captured)
    why, advice = _why_empty(facts, settings)
    return Finding(
        "invalid",
        f"The capture is empty: 0 CUDA events; {why}",
        known(
            ("GPU activities", work),
            ("CUDA calls", calls),
            ("other events", trace.host.height),
            ("capture starts", settings.get("capture starts")),
        ),
        f"0 GPU activities and 0 CUDA calls among {words.count(trace.source.events_total)} events of the file",
        advice=advice,
        next_command=f"tracetui profile --tool {trace.info.kind} {_program(facts)}",
    )


def _why_empty(facts: Facts, settings: dict[str, str]) -> tuple[str, str]:
    """The likely cause, and what to do."""
    asked, waited = settings.get("traced", ""), _waits_for(facts, settings)
    if asked and "cuda" not in asked.lower():
        return f"CUDA was not traced, only {asked}", "Record again with nsys profile --trace=cuda,nvtx."
    if waited:
        return f"the capture waited for {waited}, which never came", (
            "Call cudaProfilerStart() before and cudaProfilerStop() after the steps (PyTorch: torch.cuda.cudart()), or "
            "record all: leave --capture-range (nsys) or --profile-from-start off (ncu) out."
        )
    return "the program used no GPU, or the capture began after its work or ended before", (
        "Check that the program ran on the GPU, and that the capture covers its work (--capture-range, --delay)."
    )


def _waits_for(facts: Facts, settings: dict[str, str]) -> str:
    """What the capture waited for, if the file or run.json says so."""
    trigger = settings.get("capture starts", "")
    if trigger and trigger.lower() not in ("immediate", "now", "delayed", "none", "manual"):
        return trigger
    said = [word for command in facts.manifest.measurement.commands for word in command] if facts.manifest else []
    for at, word in enumerate(said):
        if word.startswith("--capture-range="):
            return word.partition("=")[2]
        if word in ("--capture-range", "-c") and at + 1 < len(said):
            return said[at + 1]
        if word.startswith("--profile-from-start") and "off" in (word.partition("=")[2], *said[at + 1 : at + 2]):
            return "cudaProfilerStart"
    return ""


def _program(facts: Facts) -> str:
    """The profiled model or program, if `tracetui profile` recorded it."""
    model = facts.manifest.workload.model if facts.manifest else None
    return model if model and " " not in model else "-- python your_program.py"
