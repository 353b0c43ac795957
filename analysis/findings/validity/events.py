"""Is the recording complete and readable? Rules on events that are missing, dropped, doubled, unnamed or at odds."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import lane_order, numbered_by, row_ids
from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds, rows_of
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import NO_ACT, Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.declared.validity import V9, V10, V11, V12, V16, V17, V20, V21, V32
from tracetui.analysis.findings.validity.clock import IN_US, not_in_us
from tracetui.analysis.findings.validity.lost import FEWER_EVENTS, lost_stretch
from tracetui.analysis.gpu.activities import WORK
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names import kernel_names
from tracetui.parsers.nesting import LaneClock
from tracetui.parsers.tally import CUT_SHORT
from tracetui.parsers.trace import Note

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
    advice = _COUNTERS if counted else _OF_TOOL.get(trace.info.kind, _KINETO)
    if kernels.height and not_in_us(trace):
        what, advice = "none took any time, since times are not in µs", IN_US
    done = words.things(calls, "kernel launch", "kernel launches") if calls else "Ran on a GPU"
    return Finding(
        "invalid",
        f"{done}, but {what}: nothing can be said of the GPU",
        evidence(
            ("launching calls", calls, "", Query("host:API calls", "Launch")),
            ("kernels recorded", kernels.height),
            ("kernels with counters only", counted or None),
            ("device of the run", device),
        ),
        f"{words.count(calls)} launches, {words.count(kernels.height)} kernels, "
        f"{words.ns(int(kernels['duration'].sum()))} of kernel time",
        advice=advice,
        next_command="" if advice in (_COUNTERS, IN_US) else "tracetui doctor",
    )


_COUNTERS = (
    "Counters were asked for (profiler_metrics in torch.profiler's experimental_config), and CUPTI then records no"
    " kernel's time: record again without them, and counters with Nsight Compute."
)
_KINETO = (
    "Ask for the GPU (ProfilerActivity.CUDA), and let CUPTI see it: run as root on a Jetson before CUDA 13, end other"
    " profilers, and use a torch whose CUPTI fits the driver."
)
_OF_TOOL = {
    "nsys": "Record with nsys profile --trace=cuda, and let the program end by itself or flush before it is ended"
    " (--cuda-flush-interval=100, cudaProfilerStop()). Run it as root on a Jetson and where only administrators may"
    " profile; in WSL and containers the GPU may not be traced.",
}
"""What to do, by the tool that recorded; else `_KINETO`."""


def _gpu_of(facts: Facts) -> str | None:
    """The GPU that the run used even if none of its work was recorded; None if nothing proves that it used one."""
    device = facts.manifest.workload.device if facts.manifest else None
    if device and device.startswith("cuda"):
        return device
    return "CUDA memory was allocated" if (facts.trace.memory["device_type"] == CUDA).any() else None


@looks_for(V10)
def broken_times(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    launched = facts.sel.device.select("name", "launch", "start").drop_nulls(["launch", "start"])
    if (stray := _long_after_its_launch(facts, limits)) is not None:
        return stray
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
        refutes=(),
    )


def _long_after_its_launch(facts: Facts, limits: Limits) -> Finding | None:
    """Finds work that begins hours after its launch, though its GPU had ended all before it."""
    work = facts.trace.device.select("name", "device", "launch", "start", "duration").drop_nulls(["launch", "start"])
    host = facts.trace.host
    returned = (host["start"] + host["duration"]).gather(work["launch"])
    ended = (pl.col("start") + pl.col("duration").fill_null(0)).cum_max().shift().over("device")
    work = work.with_columns(returned=returned).sort("start").with_columns(ended=ended)
    work = work.with_columns(late=pl.col("start") - pl.max_horizontal("returned", "ended"))
    stray = work.filter(pl.col("late") > 1e9 * limits.late_s)
    if not stray.height:
        return None
    name, late = str(stray["name"][0]), int(stray["late"][0])
    return Finding(
        "invalid",
        f"{words.count(stray.height)} of {words.count(work.height)} GPU activities begin hours after their launch"
        f" ({words.ns(late)} the first), though their GPU was idle",
        (
            Evidence("begins long after its launch", stray.height, query=Query("kernels", row=name)),
            Evidence("launched work", work.height),
        ),
        f"{words.ns(late)} from the end of its launch, and of all work before it, to its start",
        threshold=f"more than {words.number(limits.late_s)} s",
        advice="Times of this file are damaged: record again, and look at what rewrote them.",
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
        evidence(
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


NUMERIC = re.compile(r"\d+")
UNNAMED = ("", "(unknown)")
DROPPED = ("not all ", "dropped", "discarded", "lost", "overflow", "buffer", "exceeded", "incomplete")
"""Words of a profiler's own warning that it did not keep everything."""
BESIDE_CUDA = re.compile(r"\b(NVTX|OS runtime|(IP|CPU) samples?|sampling|context switch|GPU Metrics)\b", re.IGNORECASE)
"""What such a warning is about if not about API calls and GPU work."""


@looks_for(V12)
def unresolved_names(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    kernels = facts.trace.device.lazy().filter(pl.col("kind").is_in(["kernel", "graph"])).select("name").collect()
    ranges = facts.trace.host.lazy().filter(pl.col("kind") == "annotation").select("name").collect()
    if not kernels.height and not ranges.height:
        return Abstention("kernels or ranges")
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
        "warning",
        title,
        (
            Evidence("launches named by a number", len(numeric), query=Query("kernels", r"/^\d+$/")),
            Evidence("launches without a name", len(blank), query=Query("kernels", "unknown")),
            Evidence("ranges without a text", len(silent)),
        ),
        f"{words.count(len(blank) + len(numeric))} of {words.count(kernels.height)} launches, "
        f"{words.count(len(silent))} of {words.count(ranges.height)} ranges",
        next_command="nsys export --type=sqlite --force-overwrite=true REPORT.nsys-rep"
        if facts.trace.info.kind == "nsys"
        else "",
    )


def _nameless(rows: pl.DataFrame) -> pl.Series:
    named: pl.Series = rows["name"]
    return _texts(named, named.is_null().to_numpy() | names.matching(named, UNNAMED.__contains__))


def _numeric(rows: pl.DataFrame) -> pl.Series:
    return _texts(rows["name"], names.matching(rows["name"], lambda name: NUMERIC.fullmatch(name) is not None))


def _texts(named: pl.Series, chosen: Bools) -> pl.Series:
    found: pl.Series = named.filter(pl.Series(chosen, dtype=pl.Boolean)).cast(pl.String)
    return found


@looks_for(V16)
def truncated(facts: Facts, limits: Limits) -> Finding | None:
    trace = facts.trace
    cut = [note for begin in CUT_SHORT for note in trace.notes if note.reason.startswith(begin)]
    if not cut and not trace.source.partial:
        return None
    parsed = trace.source.events_parsed
    why = "loading was stopped" if trace.source.partial else _reason(cut[0])
    return Finding(
        "invalid",
        f"Only the beginning is here, {words.things(parsed, 'event')}: {why}",
        tuple(Evidence(_reason(note), note.count) for note in cut) or (Evidence("events read", parsed),),
        f"{words.count(parsed)} events were recovered; how many are missing is not known",
        advice="Open it again and let loading finish."
        if trace.source.partial and not cut
        else "Copy the file again; if that is no help, record fewer steps and let the profiler finish writing.",
    )


def ends_early(trace: Trace) -> bool:
    """Whether the recording is known to have been longer than what was read of it."""
    return trace.source.partial or any(note.reason.startswith(CUT_SHORT) for note in trace.notes)


def _reason(note: Note) -> str:
    return note.reason if len(note.reason) <= 80 else f"{note.reason[:79]}…"


@looks_for(V17)
def dropped_events(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    from tracetui.analysis.attribution.launch_calls import launch_calls, lost_launches, lost_of_graphs

    trace = facts.trace
    work = trace.device.filter(of_kinds(trace.device["kind"], "kernel", "graph"))
    kernels = work.height
    # no kernel of other tools' Chrome JSON says which call launched it, and so none is missed
    joined = not kernels or bool(work["correlation"].is_not_null().any())
    calls, lost = launch_calls(trace).height if joined else 0, lost_launches(trace)
    told = _told(trace)
    dropped = (facts.manifest.outcome.events_dropped or 0) if facts.manifest else 0
    void = _unread(trace, limits) or _without_calls(trace, limits) or lost_stretch(facts, limits.refuted_percent)
    if void is not None:
        return void
    if not calls and not told and not dropped:
        return Abstention("CUDA API calls to compare kernels with, or a profiler's own count")
    absent, nodes = lost_of_graphs(trace)
    by_graphs = 100 * absent / nodes if nodes else 0.0
    share = max(100 * lost.height / calls if calls and kernels else 0.0, by_graphs)
    many = share > limits.share_percent
    surely = [note.reason for note in told if "might" not in note.reason]
    certain = bool(dropped or surely)
    if not (many or certain or told):
        return None
    title = f"GPU events are missing for {words.percent(share)} of the launches"
    if many and share == by_graphs:
        title = f"GPU events are missing for {words.percent(share)} of the kernels of CUDA graphs"
    if not many and certain:
        title = (
            f"The profiler {f'dropped {words.count(dropped)} events' if dropped else 'says that events are missing'}"
        )
    elif not many:
        title = f"The profiler says that not all {_kinds(told)} events might have been collected: " + (
            f"each of {words.count(calls)} launches has its kernel"
            if calls and kernels
            else "no launch can disprove it"
        )
    doubts = None if many or dropped or (not surely and not kernels) else _doubted(surely)
    return Finding(
        "invalid" if share > limits.refuted_percent else "warning" if many or certain else "info",
        title,
        evidence(
            ("launches without a kernel", lost.height, "", Query("host:API calls", "Launch")),
            ("launches", calls),
            ("kernels absent from replays of graphs", absent or None),
            ("dropped, as the profiler counts", dropped or None),
            *(("the profiler says", _reason(note)) for note in told),
        ),
        f"{words.count(lost.height)} of {words.count(calls)} launches without a kernel; "
        f"{words.count(dropped)} counted as dropped",
        advice=FEWER_EVENTS
        if many or certain
        else f"Nothing, while launches have their kernels; should ranges or calls be missing: {FEWER_EVENTS}",
        refutes=None if share > limits.refuted_percent else (),
        doubts=doubts,
        aside=NO_ACT if doubts == () and not certain else "",
    )


UNREAD = "event "
"""The first word of the readers' notes on single events that are in the file and can't be read."""


def _unread(trace: Trace, limits: Limits) -> Finding | None:
    """Finds a file of whose events many can't be read."""
    notes = [note for note in trace.notes if note.kind == "skipped" and note.reason.startswith(UNREAD)]
    lost, all_of_it = sum(note.count for note in notes), trace.source.events_total
    share = 100 * lost / all_of_it if all_of_it else 0.0
    if share <= limits.refuted_percent:
        return None
    most = max(notes, key=lambda note: note.count)
    return Finding(
        "invalid",
        f"{words.count(lost)} of {words.count(all_of_it)} events can't be read: {_reason(most)}",
        tuple(Evidence(_reason(note), note.count) for note in notes),
        f"{words.count(lost)} of {words.count(all_of_it)} = {words.percent(share)}",
        threshold=f"more than {words.percent(limits.refuted_percent)} of the events",
        advice="Take the file as the profiler wrote it: a script that rewrote it may have written another unit of time,"
        " or numbers as text.",
    )


def _without_calls(trace: Trace, limits: Limits) -> Finding | None:
    """Finds streams on which the file launched some work, while for much of it the launching calls are lost."""
    from tracetui.analysis.attribution.launch_calls import STREAM, of_nobody

    work = trace.device.filter(pl.Series(of_kinds(trace.device["kind"], *WORK))).drop_nulls("start")
    here = work.filter(pl.col("launch").is_not_null().any().over(STREAM)).height
    lost = of_nobody(trace).filter(~pl.col("stranger"))
    share = 100 * lost.height / here if here else 0.0
    if share <= limits.refuted_percent:
        return None
    return Finding(
        "invalid",
        f"Launches are missing: {words.percent(share)} of the GPU activities on the program's streams have none",
        (
            Evidence("activities without a launch", lost.height, query=Query("kernels")),
            Evidence("activities on streams of which the file launched some", here),
        ),
        f"{words.count(lost.height)} of {words.count(here)} = {words.percent(share)}",
        threshold=f"more than {words.percent(limits.refuted_percent)} of these activities",
        advice=FEWER_EVENTS,
    )


def _kinds(told: list[Note]) -> str:
    """What the messages are about: ``CUDA, NVTX``."""
    found = [match[1] for note in told if (match := _OF_KIND.search(note.reason))]
    return ", ".join(sorted(dict.fromkeys(found))) or "its"


_OF_KIND = re.compile(r"[Nn]ot all (.+?) events")


def _doubted(surely: list[str]) -> tuple[str, ...]:
    """The bases that messages about certain losses doubt."""
    if any(BESIDE_CUDA.search(reason) is None for reason in surely):
        return ("gpu", "shares", "whole", "steps")
    return ("steps",) if any("NVTX" in reason for reason in surely) else ()


def _told(trace: Trace) -> list[Note]:
    """The profiler's own messages about events that it did not keep, but those about programs beside the recorded."""
    said = [note for note in trace.notes if note.reason.startswith("Nsight Systems ")]
    if not said:
        return []
    from tracetui.parsers.nsys.unread import ELSEWHERE

    return [
        note for note in said if ELSEWHERE not in note.reason and any(word in note.reason.lower() for word in DROPPED)
    ]


SAME = ("kind", "name", "device", "stream", "context", "graph_node", "start", "duration")
"""What no two activities of a stream can share."""
ALL = ("gpu", "shares", "whole", "steps", "counters")


@looks_for(V32)
def launched_by_nobody(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    from tracetui.analysis.attribution.launch_calls import of_nobody

    trace = facts.trace
    work = trace.device.filter(pl.Series(of_kinds(trace.device["kind"], *WORK))).drop_nulls("start")
    if not work["launch"].count():
        return Abstention("launches of GPU work: record the CUDA API too")
    found, all_ns = of_nobody(trace), int(work["duration"].sum())
    lasts = int(found["duration"].sum())
    share = 100 * lasts / all_ns if all_ns else 0.0
    if share < limits.share_percent:
        return None
    by_name = found.group_by("name").agg(pl.col("duration").sum()).sort("duration", "name", descending=[True, False])
    longest = str(by_name["name"][0])
    strange = found.filter("stranger")
    return Finding(
        "warning",
        f"{words.percent(share)} of the GPU time was launched by nothing in this file, most of it"
        f" {kernel_names.short_name(longest)}",
        evidence(
            ("activities without a launch", found.height),
            ("their time", lasts, "ns", Query("kernels", row=longest)),
            ("time of all GPU work", all_ns, "ns"),
            ("on streams of which the file launched nothing", int(strange["duration"].sum()), "ns"),
            ("such streams", strange.select("process", "device", "stream").n_unique() if strange.height else None),
        ),
        words.part_of(lasts, all_ns, share),
    )


@looks_for(V20)
def recorded_twice(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    work = facts.trace.device.select(*SAME, "launch")
    work = work.filter(pl.col("kind").is_in(WORK) & (pl.col("duration") > 0) & pl.col("start").is_not_null())
    if not work.height:
        return Abstention("GPU work with a place in time")
    # no launch starts two at one moment, whatever streams they are said to be on
    of_launch = pl.struct(*(name for name in SAME if name != "stream"), "launch").is_first_distinct()
    first = pl.struct(*SAME).is_first_distinct() & (of_launch | pl.col("launch").is_null())
    extra = _at_one_moment(work).filter(~first)
    copies = int((work["kind"] != "kernel").sum())
    doubled_copies = extra.filter(pl.col("kind") != "kernel").height
    share = 100 * extra.height / work.height
    of_copies = 100 * doubled_copies / copies if copies else 0.0
    if max(share, of_copies) <= limits.share_percent:
        return None
    only_copies = doubled_copies == extra.height
    time = 100 * int(extra["duration"].sum()) / int(work["duration"].sum())
    void = time > limits.refuted_percent
    what = "copies and fills" if only_copies else "GPU events"
    number = of_copies if only_copies else share
    return Finding(
        "invalid" if void else "critical",
        f"{words.percent(number)} of the {what} are duplicates: the file holds them twice",
        (
            Evidence("duplicates", extra.height, query=Query("kernels")),
            Evidence("GPU events", work.height),
            Evidence("of them copies and fills", doubled_copies),
            Evidence("GPU time that counts double", int(extra["duration"].sum()), "ns"),
        ),
        f"{words.count(extra.height)} of {words.count(work.height)} events have the stream or the launch, name, start "
        f"and duration of another; {words.percent(time)} of the GPU time",
        refutes=ALL if void else (),
    )


def _at_one_moment(work: pl.DataFrame) -> pl.DataFrame:
    """The activities that begin when another one does: only these can be the same."""
    start = work["start"].to_numpy()
    order = np.argsort(start, kind="stable")
    again = start[order[1:]] == start[order[:-1]]
    several = np.zeros(start.size, np.bool_)
    several[order[1:][again]] = several[order[:-1][again]] = True
    return work.filter(pl.Series(several))


@looks_for(V21)
def inside_others(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    work, order, inside, holder = _in_order(facts)
    size = order.size
    if not size:
        return Abstention("GPU work with a place in time")
    if not inside.size:
        return None
    lasting = (work["end"] - work["start"]).to_numpy()[order]
    holders = holder[np.append(True, holder[1:] != holder[:-1])]  # they ascend
    held, time = int(lasting[inside].sum()), int(lasting.sum())
    at = int(holders[lasting[holders].argmax()])
    longest = work.row(int(order[at]), named=True)
    few = holders.size == 1 or 100 * holders.size / size <= limits.few_percent
    blamed = int(lasting[holders].sum()) if few else held
    share = 100 * blamed / time
    void = share > limits.refuted_percent
    lasts = int(lasting[at])
    single = f"A duration that can't be: {words.ns(lasts)} of one {longest['kind']}, while "
    many = "Streams do several things at once: "
    return Finding(
        "invalid" if void else "warning",
        (single if few else many)
        + f"{words.things(inside.size, 'activity', 'activities')} of the same stream "
        + ("begin and end inside of it" if few else "begin and end inside others; two recordings seem to be mixed"),
        (
            Evidence("begin and end inside others", inside.size),
            Evidence("others that hold them", holders.size),
            Evidence("longest of these", lasts, "ns", Query("kernels", row=str(longest["name"]))),
            Evidence("GPU time of all work", time, "ns"),
        ),
        f"{words.count(inside.size)} of {words.count(size)} activities lie inside {holders.size} others; "
        f"{words.part_of(blamed, time, share)}",
        advice="Leave out the step that holds this activity (--steps), or record again."
        if few
        else "Look at each process or rank by itself; if the file was merged of several, take those.",
        refutes=("gpu", "shares", "whole", "steps") if void else (),
    )


def _in_order(facts: Facts) -> tuple[pl.DataFrame, Ints, Ints, Ints]:
    """What streams do one after the other, and what lies inside something that began before on its stream.

    Returns:
        The work, its rows in that order, positions in it of what lies inside, and of what holds each of these.
    """
    columns = ("kind", "name", "device", "stream", "context", "process", "start", "duration", "launch", "graph_node")
    work = facts.trace.device.select(*columns, "correlation").filter(pl.col("kind").is_in(WORK))
    work = work.drop_nulls(["start", "duration"])
    # with a place more, for no launch
    called = np.append(names.matching(facts.trace.host["name"], lambda name: "GraphLaunch" in name), False)
    launched = called[row_ids(work["launch"])] if called.any() else np.zeros(work.height, np.bool_)
    of_graph = (work["graph_node"].is_not_null() | pl.Series(launched)) & work["correlation"].is_not_null()
    work = work.select(
        "kind", "name", "device", "stream", "context", "process", "start", "correlation",
        end=pl.col("start") + pl.col("duration"),
    )  # fmt: skip
    lane = ("device", "stream", "context", "process")
    if of_graph.any():
        spans = work.filter(of_graph).group_by(*lane, "correlation").agg(
            pl.col("kind", "name").first(), pl.col("start").min(), pl.col("end").max()
        )  # fmt: skip
        work = pl.concat([work.filter(~of_graph), spans.select(work.columns)])
    lanes = numbered_by(work, lane)
    start, end = work["start"].to_numpy(), work["end"].to_numpy()
    order = lane_order(lanes, start, end)
    lanes, start, end = lanes[order], start[order], end[order]
    # the one that reaches farthest: the last that reached beyond all before it on its stream
    clock = LaneClock(int(lanes.max(initial=0)) + 1, start, end)
    key = clock.key(lanes, end)
    before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(key))[: key.size]
    holder = np.maximum.accumulate(np.where(key > before, np.arange(key.size), 0))
    holder = np.append(0, holder)[: key.size]
    # what takes no time, at the moment that something begins, is in its way no more than before it
    apart = (start == end) & (start == start[holder])
    inside = np.flatnonzero((lanes[holder] == lanes) & (end < end[holder]) & (start >= start[holder]) & ~apart)
    return work, order, inside, holder[inside]
