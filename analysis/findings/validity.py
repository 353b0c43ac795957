"""Is what was recorded there, whole, and legible? Rules on the file and its events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings import words
from tracetui.analysis.findings.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.rule import Threshold, rule

if TYPE_CHECKING:
    from tracetui.analysis.findings.facts import Facts
    from tracetui.analysis.findings.rule import Limits
    from tracetui.parsers import Trace
    from tracetui.parsers.trace import Note

NUMERIC = r"^\d+$"
UNNAMED = ("", "(unknown)")
CUT_SHORT = (
    "the compressed stream ends early",
    "the file ends before its closing bracket",
    "event cut off by the end of the file",
    "row cut short",
    "rest of the pickle",
    "the rest of table",
    "table that can't be read",
    "rows still in the database's write-ahead log",
    "XLA's profiler stops at a million events",
)
"""How notes of the readers begin that say the recording goes on where the file ends."""
DROPPED = ("not all ", "dropped", "lost", "overflow", "buffer", "exceeded")
"""Words of a profiler's own warning that it did not keep everything."""


@rule(
    "V9",
    "GPU events are missing",
    needs=("timeline",),
    refutes=("gpu", "shares"),
    advice="On a desktop or server: check that no other profiler holds CUPTI, and that torch's CUPTI fits the driver. "
    "On Jetson before CUDA 13: run as root. `tracetui doctor` tests both.",
    source="Kineto; CUPTI on Tegra needs root",
)
def no_gpu_events(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """Kernels were launched, but the recording holds none, or none that takes time.

    Counted are calls such as `cudaLaunchKernel` and `cudaGraphLaunch`, and kernels and whole graphs on the device. The
    usual cause is that CUPTI was not allowed to see the GPU, which drivers report to nobody. Every figure about the
    GPU would be 0, so nothing that rests on them is said.
    """
    from tracetui.analysis.launch_calls import launch_calls

    trace = facts.trace
    kernels = trace.device.filter(pl.col("kind").is_in(["kernel", "graph"]))
    device = facts.manifest.workload.device if facts.manifest else None
    calls = launch_calls(trace).height
    if not calls and not kernels.height and not (device or "").startswith("cuda"):
        return Abstention("V9", "CUDA API calls, or a run.json that says it ran on a GPU: launch with tracetui profile")
    if trace.info.kind == "nsys" and not calls:
        return None  # without any call it is an empty capture, which V11 is about
    if int(kernels["duration"].sum()) > 0 or (not calls and kernels.height):
        return None
    what = "none took any time" if kernels.height else "no kernel was recorded"
    said = (
        f"{words.things(calls, 'kernel launch', 'kernel launches')}, but {what}"
        if calls
        else "Ran on a GPU, but " + what
    )
    return Finding(
        "V9",
        "invalid",
        f"{said[0].upper()}{said[1:]}: nothing can be said of the GPU",
        (
            Evidence("launching calls", calls, query=Query("host", "Launch")),
            Evidence("kernels recorded", kernels.height),
            *((Evidence("device of the run", device),) if device else ()),
        ),
        f"{words.count(calls)} launches, {words.count(kernels.height)} kernels, "
        f"{words.ns(int(kernels['duration'].sum()))} of kernel time",
        "kernel time above 0",
        "Let CUPTI see the GPU: run as root on a Jetson before CUDA 13, end other profilers, "
        "and use a torch whose CUPTI fits the driver.",
        next_command="tracetui doctor",
    )


@rule(
    "V10",
    "Times that can't be",
    needs=("timeline", "gpu"),
    doubts=("host", "whole"),
    remark="the clocks of host and GPU do not agree here: gaps and waits are not reliable",
    thresholds={
        "share_percent": Threshold(1, "%", "of the launched work that begins before its launch", own=True),
        "slack_us": Threshold(
            1, "us", "by which a kernel may begin before its launch: the clocks' resolution", own=True
        ),
    },
    advice="Record again, with another version of CUPTI if it stays; till then trust durations, not gaps.",
    source="torch.profiler's trace validator",
)
def broken_times(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """Work begins before the call that launched it, or events end before they begin.

    The GPU's clock is converted to the host's; where that goes wrong, kernels run before their launch, and every
    statement on who waits for whom is void. Compared is the start of each activity with the start of its API call.
    """
    launched = facts.sel.device.filter(pl.col("launch").is_not_null() & pl.col("start").is_not_null())
    negative = sum(
        n.count for n in facts.trace.notes if "negative duration" in n.reason or "end before the start" in n.reason
    )
    if not launched.height and not negative:
        return Abstention("V10", "which call launched which kernel: record the CUDA API too")
    called = facts.trace.host["start"].gather(launched["launch"])
    ahead = called - launched["start"]
    early = int((ahead > 1000 * limits.slack_us).sum())
    events = max(facts.trace.source.events_parsed, 1)
    share = 100 * early / launched.height if launched.height else 0.0
    if share <= limits.share_percent and 100 * negative / events <= limits.share_percent:
        return None
    worst = launched.with_columns(ahead=ahead).sort("ahead", descending=True).row(0, named=True) if early else None
    if early:
        title = (
            f"{words.percent(share)} of the launched work begins before its launch, up to {words.ns(worst['ahead'])}"
            if worst
            else ""
        )
    else:
        title = f"{words.count(negative)} of {words.count(events)} events end before they begin"
    row = str(worst["name"]) if worst else ""
    return Finding(
        "V10",
        "warning",
        title,
        (
            Evidence("begins before its launch", early, query=Query("kernels", row=row)),
            Evidence("launched work", launched.height),
            Evidence("events that end before they begin", negative),
        ),
        f"{words.count(early)} of {words.count(launched.height)} start before their call; "
        f"{words.count(negative)} negative durations in {words.count(events)} events",
        f"{words.percent(limits.share_percent)} of either, by more than {words.number(limits.slack_us)} µs",
        "Record again; if it stays, with another version of CUPTI. Treat gaps and waiting times as unknown till then.",
    )


@rule(
    "V11",
    "Empty capture",
    refutes=("gpu", "shares", "whole"),
    advice="Call torch.cuda.cudart().cudaProfilerStart() and cudaProfilerStop() around the steps, or leave "
    "--capture-range (nsys) and --profile-from-start off (ncu) out.",
    source="NVIDIA's guides to nsys and ncu",
)
def empty_capture(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """A capture by Nsight Systems without a single CUDA row, or one by Nsight Compute without a launch.

    The usual cause: `--capture-range=cudaProfilerApi` waits for a `cudaProfilerStart()` that the program never calls.
    It is also what a program without CUDA leaves. Nothing follows from such a file, least of all that the GPU is idle.
    """
    trace = facts.trace
    if trace.info.kind not in ("nsys", "ncu"):
        return Abstention("V11", "a capture by Nsight Systems or Nsight Compute")
    work = trace.device.filter(pl.col("kind") != "annotation").height
    calls = trace.host.filter(pl.col("kind").is_in(["runtime", "driver"])).height
    if work or calls:
        return None
    settings = dict(trace.info.captured)
    asked, waited = settings.get("traced", ""), _waits_for(facts, settings)
    untraced = bool(asked) and "cuda" not in asked.lower()
    if untraced:
        why, advice = f"CUDA was not traced, only {asked}", "Record again with nsys profile --trace=cuda,nvtx."
    elif waited:
        why = f"the capture waited for {waited}, which never came"
        advice = (
            "Call torch.cuda.cudart().cudaProfilerStart() before and cudaProfilerStop() after the steps, or record "
            "all: leave --capture-range (nsys) or --profile-from-start off (ncu) out."
        )
    else:
        why = "the program used no GPU, or the capture began after its work or ended before"
        advice = (
            "Check that the program ran on the GPU, and that the capture covers its work (--capture-range, --delay)."
        )
    return Finding(
        "V11",
        "invalid",
        f"The capture is empty: 0 CUDA events; {why}",
        (
            Evidence("GPU activities", work),
            Evidence("CUDA calls", calls),
            Evidence("other events", trace.host.height),
            *((Evidence("capture starts", settings["capture starts"]),) if "capture starts" in settings else ()),
        ),
        f"0 GPU activities and 0 CUDA calls among {words.count(trace.source.events_total)} events of the file",
        "at least one CUDA event",
        advice,
        next_command=f"tracetui profile --tool {trace.info.kind} {_program(facts)}",
    )


def _waits_for(facts: Facts, settings: dict[str, str]) -> str:
    """What the capture was to wait for, as far as the file or run.json says."""
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
    """What was profiled, as far as `tracetui profile` noted it."""
    model = facts.manifest.workload.model if facts.manifest else None
    return model if model and " " not in model else "-- python your_program.py"


@rule(
    "V12",
    "Names that were not resolved",
    doubts=("gpu", "shares"),
    remark="some kernels have no name, so that what is told by names (kinds of kernels, tensor cores) is incomplete",
    thresholds={
        "share_percent": Threshold(1, "%", "of the kernel launches, or of the ranges, without a name", own=True)
    },
    advice="Join the ids with the table StringIds (nsys: demangledName, shortName, textId), or export again.",
)
def unresolved_names(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """Kernels whose name is a number or missing, and ranges without a text.

    An nsys export keeps names as ids in other tables. Who does not join them gets "1173" for a kernel, finds no GEMM
    and no softmax, and may conclude that there is none. Counted per launch, and per NVTX or record_function range.
    """
    kernels = facts.trace.device.filter(pl.col("kind").is_in(["kernel", "graph"]))
    ranges = facts.trace.host.filter(pl.col("kind") == "annotation")
    if not kernels.height and not ranges.height:
        return Abstention("V12", "kernels or ranges")
    blank, numeric = _nameless(kernels), _numeric(kernels)
    silent = _nameless(ranges)
    kernel_share = 100 * (len(blank) + len(numeric)) / kernels.height if kernels.height else 0.0
    range_share = 100 * len(silent) / ranges.height if ranges.height else 0.0
    if max(kernel_share, range_share) <= limits.share_percent:
        return None
    if kernel_share > limits.share_percent:
        like = f' (such as "{numeric[0]}")' if len(numeric) else ""
        title = f"{words.percent(kernel_share)} of the kernel launches have no name{like}: no kind can be ruled out"
    else:
        title = f"{words.percent(range_share)} of the ranges have no text: time in them can't be told apart"
    return Finding(
        "V12",
        "warning",
        title,
        (
            Evidence("launches named by a number", len(numeric), query=Query("kernels", r"/^\d+$/")),
            Evidence("launches without a name", len(blank), query=Query("kernels", "unknown")),
            Evidence("ranges without a text", len(silent)),
        ),
        f"{words.count(len(blank) + len(numeric))} of {words.count(kernels.height)} launches, "
        f"{words.count(len(silent))} of {words.count(ranges.height)} ranges",
        f"{words.percent(limits.share_percent)} of either",
        "Export the report again with the nsys that made it (nsys export --type=sqlite); a script of your own must "
        "join demangledName, shortName and textId with StringIds.",
        next_command="nsys export --type=sqlite --force-overwrite=true REPORT.nsys-rep"
        if facts.trace.info.kind == "nsys"
        else "",
    )


def _nameless(rows: pl.DataFrame) -> pl.Series:
    return rows.select(pl.col("name").cast(pl.String)).filter(pl.col("name").is_null() | pl.col("name").is_in(UNNAMED))[
        "name"
    ]


def _numeric(rows: pl.DataFrame) -> pl.Series:
    return rows.select(pl.col("name").cast(pl.String)).filter(pl.col("name").str.contains(NUMERIC))["name"]


@rule(
    "V16",
    "Truncated file",
    refutes=("whole",),
    advice="Record again; let the profiler finish writing, and keep the disk from filling up.",
)
def truncated(facts: Facts, limits: Limits) -> Finding | None:
    """The recording goes on where the file ends.

    JSON without its end, a gzip or pickle stream that stops, tables that can't be read to their end, rows left in a
    write-ahead log, or loading that was stopped. What could be recovered is shown; sums over the whole recording are
    too small by what is missing.
    """
    trace = facts.trace
    cut = [note for begin in CUT_SHORT for note in trace.notes if note.reason.startswith(begin)]
    if not cut and not trace.source.partial:
        return None
    parsed = trace.source.events_parsed
    why = "loading was stopped" if trace.source.partial else _reason(cut[0])
    return Finding(
        "V16",
        "invalid",
        f"Only the beginning is here, {words.things(parsed, 'event')}: {why}",
        tuple(Evidence(_reason(note), note.count) for note in cut) or (Evidence("events read", parsed),),
        f"{words.count(parsed)} events were recovered; how many are missing is not known",
        "a file that is whole",
        "Open it again and let loading finish."
        if trace.source.partial and not cut
        else "Copy the file again; if that is no help, record fewer steps and let the profiler finish writing.",
    )


def _reason(note: Note) -> str:
    return note.reason if len(note.reason) <= 80 else f"{note.reason[:79]}…"


@rule(
    "V17",
    "Dropped events",
    needs=("timeline",),
    doubts=("gpu", "whole"),
    remark="events are missing from the recording: sums are too small, gaps may be none",
    thresholds={"share_percent": Threshold(1, "%", "of the launches whose kernel is not in the recording", own=True)},
    advice="Record for a shorter time, with fewer kinds of events, or with larger buffers.",
    source="CUPTI's count of dropped records; diagnostics of Nsight Systems",
)
def dropped_events(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """The profiler lost events.

    Either it says so, or launches are recorded whose kernels are not: each `cudaLaunchKernel` and `cudaGraphLaunch`
    must have its activity, except inside the capture of a graph. Nsight Systems warns at the end of nearly every
    capture that "not all events might have been collected"; that counts only where launches lack their kernels, or
    where launches were not recorded and so can't clear the suspicion.
    """
    from tracetui.analysis.launch_calls import launch_calls, lost_launches

    trace = facts.trace
    calls, lost = launch_calls(trace).height, lost_launches(trace)
    kernels = trace.device.filter(pl.col("kind").is_in(["kernel", "graph"])).height
    told = _told(trace)
    dropped = (facts.manifest.outcome.events_dropped or 0) if facts.manifest else 0
    if not calls and not told and not dropped:
        return Abstention("V17", "CUDA API calls to compare kernels with, or a profiler's own count")
    share = 100 * lost.height / calls if calls and kernels else 0.0
    cleared = calls > 0 and kernels > 0 and share <= limits.share_percent
    certain = [note for note in told if "might" not in note.reason]
    if not dropped and not certain and (cleared or not told):
        return None
    if share > limits.share_percent:
        title = f"{words.percent(share)} of the launches have no kernel in the recording"
    else:
        title = (
            f"The profiler dropped {words.count(dropped)} events"
            if dropped
            else "The profiler says that events are missing"
        )
    return Finding(
        "V17",
        "warning" if share > limits.share_percent or dropped or certain else "info",
        title,
        (
            Evidence("launches without a kernel", lost.height, query=Query("host", "Launch")),
            Evidence("launches", calls),
            *((Evidence("dropped, as the profiler counts", dropped),) if dropped else ()),
            *(Evidence("the profiler says", _reason(note)) for note in told),
        ),
        f"{words.count(lost.height)} of {words.count(calls)} launches without a kernel; "
        f"{words.count(dropped)} counted as dropped",
        f"{words.percent(limits.share_percent)} of the launches, or any that the profiler counts",
        "Record fewer steps; leave out what is not needed (with_stack, profile_memory, osrt); let the program end by "
        "itself, after a synchronize, so that buffers are flushed.",
    )


def _told(trace: Trace) -> list[Note]:
    """The profiler's own words on events that it did not keep."""
    return [
        note
        for note in trace.notes
        if note.reason.startswith("Nsight Systems ") and any(word in note.reason.lower() for word in DROPPED)
    ]
