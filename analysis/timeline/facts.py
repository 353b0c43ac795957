"""What a timeline knows of an event, of a stretch of time and of an idle GPU, and which events lead to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from tracetui.analysis.attribution.generated import kernel_files, source_of
from tracetui.analysis.attribution.place import frames_around, launching_rows
from tracetui.analysis.base import intervals
from tracetui.analysis.dependencies.critical_path import path_within
from tracetui.analysis.gpu.idle import IDLE_WORDS
from tracetui.analysis.kernels import operator_names
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.gaps import UNRECORDED
from tracetui.analysis.timeline.lanes import WORK, Lane
from tracetui.analysis.timeline.rows import NONE
from tracetui.analysis.timeline.timeline import Place, Timeline
from tracetui.parsers.arrays import Ints


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing known of an event."""

    title: str
    value: object
    kind: str
    """``text``, ``time`` (ns), ``at`` (ns on the trace's clock), ``bytes``, ``count``, ``number`` or ``percent``."""


@dataclass(frozen=True, slots=True)
class HostDuring:
    """What the thread that ended a GPU's idle time did during it."""

    process: int | None
    thread: int | None
    name: str
    """Of the thread."""
    own: tuple[tuple[str, int], ...]
    """Calls by their own time in the gap, ns, the most first; the rest of the gap is `UNRECORDED`."""
    next_name: str
    """The GPU activity that ends the gap; empty where none does."""
    launched_after: int | None
    """When the call that launched it began, ns after the start of the gap; negative if before it. Null: unknown."""


def facts(timeline: Timeline, place: Place) -> list[Fact]:
    """Everything the trace says about an event; unknown facts are left out."""
    lane = timeline.lanes[place.lane]
    record = timeline.record(place)
    of = {"device": _of_device, "host": _of_host, "idle": _of_gap, "path": _of_path, "samples": _of_sample}
    lines = of.get(lane.source, _of_step)(timeline, place, lane, record)
    return [fact for fact in lines if fact.value not in (None, "") or fact.title in ALWAYS]


ALWAYS = frozenset({"Slack"})
"""What is shown as unknown where it is."""


def has_slack(timeline: Timeline, place: Place) -> bool:
    """Whether an event is GPU work of a recording whose replay is known."""
    known = timeline.slack is not None and timeline.lanes[place.lane].source == "device"
    return known and timeline.kinds("device", [timeline.event(place)])[0] in WORK


def slack(timeline: Timeline, place: Place) -> int | None:
    """How much longer GPU work could take before a step of the replay gets longer, ns; None where it is not known."""
    if timeline.slack is None or timeline.lanes[place.lane].source != "device":
        return None
    return timeline.slack.get(timeline.event(place))


@dataclass(frozen=True, slots=True)
class OnPath:
    """What the critical path runs through while a GPU is idle."""

    percent: float
    """Share of the gap in which the path was found; the rest lies outside of the steps that were replayed."""
    parts: tuple[tuple[str, str, int], ...]
    """(resource, name, ns) that take most of the gap, the most first."""


def path_during(timeline: Timeline, start: int, end: int) -> OnPath | None:
    """What the critical path runs through in a stretch of time; None where the path is not known."""
    if timeline.path is None or end <= start:
        return None
    pieces = path_within(timeline.path, start, end)
    parts = tuple((resource, name or "", int(ns)) for resource, name, ns in pieces.head(3).iter_rows())
    return OnPath(100 * int(pieces["ns"].sum()) / (end - start), parts)


def delay(timeline: Timeline, place: Place) -> int | None:
    """Time from the end of the launching call to the start of a device event, ns; 0 where the event began before."""
    if timeline.lanes[place.lane].source != "device":
        return None
    launch = timeline.launches[timeline.event(place)]
    if launch == NONE:
        return None
    begin, lasting = timeline.trace.host.select("start", "duration").row(int(launch))
    return max(timeline.span(place)[0] - int(begin) - int(lasting or 0), 0)


def operator(timeline: Timeline, place: Place) -> str:
    """What launched a device event: its operator, else its range; empty where neither is known."""
    row = timeline.trace.device.slice(timeline.event(place), 1)
    named = operator_names(select(timeline.trace), row)[0]
    return str(named) if named is not None else _range(timeline, row["range"][0])


def module(timeline: Timeline, place: Place) -> str:
    """The path of the module that a device event belongs to, or of the module around a host event."""
    source, event = timeline.lanes[place.lane].source, timeline.event(place)
    around: int | None
    if source == "device":
        own, forward = timeline.trace.device.select("module", "forward_module").row(event)
        around = own if own is not None else forward
    else:
        kinds, parents = timeline.trace.host["kind"], timeline.trace.host["parent"]
        around = event
        while around is not None and kinds[around] != "module":
            around = parents[around]
    if around is None:
        return ""
    number = int(timeline.modules.path_of(np.array([around]))[0])
    return timeline.modules.paths[number] if number != NONE else ""


def _called_by(timeline: Timeline, place: Place) -> int:
    """The host row of the call that launched a device event, or of the operator around it; -1 for none."""
    return int(launching_rows(timeline.trace.device.slice(timeline.event(place), 1))[0])


def _frames(timeline: Timeline, row: int) -> str:
    """The program's own frames that led to a host event, the innermost first; -1 has none."""
    return ", from ".join(frames_around(timeline.trace, row)) if row != NONE else ""


def _times(timeline: Timeline, place: Place, lasting: int | None) -> list[Fact]:
    start, end = timeline.span(place)
    return [Fact("Start", start, "at"), Fact("End", end, "at"), Fact("Duration", lasting, "time")]


def _of_device(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    launch = timeline.launches[timeline.event(place)]
    host = timeline.trace.host
    moved, lasting = record["bytes"], record["duration"]
    step = record["step"]
    lines = [
        Fact("Name", record["name"], "text"),
        Fact("Kind", record["kind"], "text"),
        Fact("Operator", _with_shapes(timeline, place, record), "text"),
        Fact("Module", module(timeline, place), "text"),
        Fact("Line", _frames(timeline, _called_by(timeline, place)), "text"),
        Fact("Range", _range(timeline, record["range"]), "text"),
        Fact("Operation", record["operation"], "text"),
        Fact("Scope", record["scope"], "text"),
        *_of_compiler(timeline, place, record),
        Fact("Launched by", host["name"][int(launch)] if launch != NONE else None, "text"),
        Fact("Memory", record["memory_kinds"], "text"),
        *_times(timeline, place, lasting),
        Fact("Launch delay", delay(timeline, place), "time"),
        *(
            [Fact("Slack", slack(timeline, place), "time")]
            if timeline.slack is not None and record["kind"] in WORK
            else []
        ),
        Fact("Launched at", int(host["start"][int(launch)]) if launch != NONE else None, "at"),
        Fact("Call lasts", host["duration"][int(launch)] if launch != NONE else None, "time"),
        Fact("Step", timeline.trace.steps["index"][step] if step is not None else None, "id"),
        Fact("Grid", _size(record["grid"]), "short"),
        Fact("Block", _size(record["block"]), "short"),
        Fact("Registers", record["registers"], "count"),
        Fact("Shared memory", record["shared_memory"], "bytes"),
        Fact("Est. occupancy", record["occupancy_percent"], "percent"),
        Fact("Blocks per SM", record["blocks_per_sm"], "number"),
        Fact("Bytes", moved, "bytes"),
        Fact("GB/s", moved / lasting if moved and lasting else None, "number"),
    ]
    names = ("device", "stream", "context", "process", "correlation", "external_id", "graph_node")
    titles = ("GPU", "Stream", "Context", "Process", "Correlation", "External id", "Graph node")
    return lines + [Fact(title, record[name], "id") for title, name in zip(titles, names, strict=True)]


def _of_compiler(timeline: Timeline, place: Place, record: dict[str, Any]) -> list[Fact]:
    """What Inductor says of a kernel that it made."""
    file = kernel_files(timeline.trace, timeline.trace.device.slice(timeline.event(place), 1))[0]
    if file is None:
        return []
    nodes, lines = source_of(timeline.trace, str(record["name"]), file)
    told = (("Kernel file", file), ("Source nodes", nodes), ("Source lines", lines))
    return [Fact(title, text, "text") for title, text in told]


def _of_host(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    start, end = timeline.span(place)
    names = timeline.trace.host["name"]
    rows = timeline.launched(lane.process, lane.thread, start, end)
    device = timeline.trace.device.select("start", "duration")[rows] if rows.size else None
    parent, forward = record["parent"], record["forward"]
    texts = [
        Fact("Name", record["name"], "text"),
        Fact("Kind", record["kind"], "text"),
        Fact("Within", names[parent] if parent is not None else None, "text"),
        Fact("Module", module(timeline, place), "text"),
        Fact("Line", _frames(timeline, timeline.event(place)), "text"),
        Fact("Forward", names[forward] if forward is not None else None, "text"),
        Fact("Shapes", record["input_shapes"], "text"),
        Fact("Types", record["input_types"], "text"),
        Fact("Stack", record["stack"], "text"),
        Fact("Domain", record["domain"], "text"),
        Fact("Style", record["style"], "text"),
        Fact("Thread name", lane.name, "text"),
    ]
    numbers = [
        *_times(timeline, place, record["duration"]),
        Fact("Launched", rows.size or None, "count"),
        Fact("GPU time", int(device["duration"].sum()) if device is not None else None, "time"),
    ]
    ids = ("process", "thread", "correlation", "external_id", "sequence", "module_id")
    titles = ("Process", "Thread", "Correlation", "External id", "Sequence", "Module id")
    return [*texts, *numbers, *(Fact(title, record[name], "id") for title, name in zip(titles, ids, strict=True))]


def _of_step(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    return [
        Fact("Name", record["name"], "text"),
        *_times(timeline, place, record["duration"]),
        Fact("Index", record["index"], "id"),
    ]


def _of_gap(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    start, end = timeline.span(place)
    during = host_during(timeline, lane.device, start, end)
    lines = [
        Fact("Idle", f"{IDLE_WORDS[record['cause']]}: {WHY[record['cause']]}", "text"),
        Fact("Ended by", during.next_name, "text"),
        Fact("Host thread", during.name or (during.thread if during.own else None), "text"),
        *(Fact("Host did", f"{100 * ns / (end - start):.1f} % {name}", "text") for name, ns in during.own),
    ]
    path = path_during(timeline, start, end)
    if path is not None:
        lines += [
            Fact("Path runs", f"{100 * ns / (end - start):.1f} % {resource}: {name or UNRECORDED}", "text")
            for resource, name, ns in path.parts
        ]
        lines.append(Fact("On the path", path.percent, "percent"))
    return [
        *lines,
        *_times(timeline, place, end - start),
        Fact("Launch after", during.launched_after, "time"),
        Fact("GPU", lane.device, "id"),
    ]


def _of_path(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    return [
        Fact("Name", record["name"], "text"),
        Fact("Path runs", record["resource"], "text"),
        *_times(timeline, place, record["duration"]),
    ]


def _of_sample(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    return [
        Fact("Metric", record["name"], "text"),
        Fact("Unit", record["unit"], "text"),
        Fact("Value", record["value"], "number"),
        *_times(timeline, place, record["duration"]),
        Fact("GPU", lane.device, "id"),
    ]


WHY = {
    "host_wait": "the next activity was launched after the gap began",
    "kernel_wait": "the next one was launched in time: the GPU's own start-up time",
    "other": "the next one was launched in time, or its launch is not in the trace",
}
"""What `analysis.gpu.idle.CAUSES` mean."""


def host_during(timeline: Timeline, device: int | None, start: int, end: int) -> HostDuring:
    """What the host did while a GPU was idle: the calls of the thread that launched the work which ended the gap."""
    after = _next_work(timeline, device, end)
    lane: Lane | None = None
    launched_after, next_name = None, ""
    if after is not None:
        next_name = str(timeline.trace.device["name"][after])
        launch = int(timeline.launches[after])
        if launch != NONE:
            called, process, thread = timeline.trace.host.select("start", "process", "thread").row(launch)
            launched_after = int(called) - start
            lane = next((x for x in _host_lanes(timeline) if (x.process, x.thread) == (process, thread)), None)
    lane = lane or next(_host_lanes(timeline), None)
    if lane is None:
        return HostDuring(None, None, "", (), next_name, launched_after)
    own = timeline.thread_calls(int(lane.rows[0].events[0])).own_times(start, end)
    return HostDuring(lane.process, lane.thread, lane.name, own, next_name, launched_after)


def _host_lanes(timeline: Timeline) -> Any:
    return (lane for lane in timeline.lanes if lane.source == "host")


def _next_work(timeline: Timeline, device: int | None, time: int) -> int | None:
    """The first work that begins on a GPU at a time or after."""
    best: tuple[int, int] | None = None
    for lane in timeline.lanes:
        if lane.kind == "stream" and lane.device == device:
            for row in lane.rows:
                at = int(np.searchsorted(row.start, time))
                if at < row.size and (best is None or int(row.start[at]) < best[0]):
                    best = int(row.start[at]), int(row.events[at])
    return best[1] if best else None


def _with_shapes(timeline: Timeline, place: Place, record: dict[str, Any]) -> str:
    row = record["operator"]
    name = operator_names(select(timeline.trace), timeline.trace.device.slice(timeline.event(place), 1))[0]
    if name is None:
        return ""
    shapes = timeline.trace.host["input_shapes"][row] if row is not None else None
    return f"{name} {shapes}" if shapes else str(name)


def _range(timeline: Timeline, row: int | None) -> str:
    if row is None:
        return ""
    name, domain = timeline.trace.host.select(pl.col("name", "domain").cast(pl.String)).row(row)
    return f"{domain}:{name}" if domain else str(name)


def _size(values: Any) -> str | None:
    return " x ".join(map(str, values)) if values is not None else None


LANES: dict[str, pl.DataType] = {
    "number": pl.Int64(),
    "calls": pl.Int64(),
    "busy_ns": pl.Int64(),
    "percent": pl.Float64(),
    "most": pl.String(),
}
EVENTS: dict[str, pl.DataType] = {
    "name": pl.String(),
    "calls": pl.Int64(),
    "total_ns": pl.Int64(),
    "percent": pl.Float64(),
    "longest_ns": pl.Int64(),
    "row": pl.UInt32(),
}


def lanes_within(timeline: Timeline, start: int, end: int) -> pl.DataFrame:
    """The lanes in which something runs in a stretch of time, in their order.

    Returns:
        number (of the lane), calls (events that touch the stretch), busy_ns (time of the stretch in which any of them
        runs), percent (of the stretch), most (the name that takes the most time in it).
    """
    rows = []
    for number in timeline.order():
        if timeline.lanes[number].source == "samples":
            continue
        parts = [_touching(timeline.lanes[number], depth, start, end) for depth in range(_depths(timeline, number))]
        calls = sum(events.size for events, _, _ in parts)
        if not calls:
            continue
        begun, done = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
        busy = intervals.length(intervals.union(begun, done))
        most = events_within(timeline, number, start, end)
        rows.append((number, calls, busy, 100 * busy / max(end - start, 1), most["name"][0]))
    return pl.DataFrame(rows, schema=LANES, orient="row")


def events_within(timeline: Timeline, lane: int, start: int, end: int) -> pl.DataFrame:
    """What ran in one lane in a stretch of time, by name, the most time first.

    Returns:
        name, calls, total_ns (in the stretch; what is nested counts in what is around it too), percent (of the
        stretch), longest_ns (in the stretch), row (of the longest, in the frame of the lane's source).
    """
    parts = [_touching(timeline.lanes[lane], depth, start, end) for depth in range(_depths(timeline, lane))]
    events, begun, done = (np.concatenate([part[place] for part in parts]) for place in range(3))
    of, owner = timeline.owner(lane)
    lasting = pl.col("ns")
    found = (
        pl.DataFrame({"name": of.names(owner.source, events.tolist()), "ns": done - begun, "row": events})
        .group_by("name")
        .agg(
            pl.len().alias("calls"),
            lasting.sum().alias("total_ns"),
            lasting.max().alias("longest_ns"),
            pl.col("row").get(lasting.arg_max()),
        )
        .with_columns(percent=100 * pl.col("total_ns") / max(end - start, 1))
        .sort("total_ns", "name", descending=[True, False])
    )
    return found.select(pl.col(name).cast(dtype) for name, dtype in EVENTS.items())


def _depths(timeline: Timeline, lane: int) -> int:
    return len(timeline.lanes[lane].rows)


def _touching(lane: Lane, depth: int, start: int, end: int) -> tuple[Ints, Ints, Ints]:
    """The events of a row that touch a stretch: their rows in the frame, and both ends as far as they lie in it."""
    row = lane.rows[depth]
    low, high = (int(place[0]) for place in row.touching(np.array([start]), np.array([end])))
    at = np.arange(low, high)
    begun, done = row.start[at], row.start[at] + row.duration(at)
    # where events overlap, some in between have ended before
    inside = (done > start) & (begun < end)
    at, begun, done = at[inside], begun[inside], done[inside]
    return row.events[at].astype(np.int64), np.maximum(begun, start), np.minimum(done, end)


MOST = 4
"""So many arrows start at one event; more would hide each other."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one event to a later one."""

    tail: Place
    tail_time: int
    """Where on the event it starts, ns on the trace's clock."""
    head: Place
    head_time: int
    """The start of the event that it leads to."""
    kind: Literal["launch", "flow"]


def arrows(timeline: Timeline, place: Place) -> tuple[Arrow, ...]:
    """The arrows of one event; none for gaps, steps and what has no link.

    GPU work has one from its launch. A call has one to the first work that it launched on each stream, as an operator
    has for the calls below it. A forward operator has one to the first of its backward operators, and that one back.
    """
    source = timeline.lanes[place.lane].source
    if source == "device":
        launch = timeline.launch_of(place)
        return (_arrow(timeline, launch, place),) if launch is not None else ()
    if source != "host":
        return ()
    return (*_launches(timeline, place), *_flows(timeline, place))[:MOST]


def _arrow(timeline: Timeline, tail: Place, head: Place) -> Arrow:
    return Arrow(tail, timeline.span(tail)[0], head, timeline.span(head)[0], "launch")


def _launches(timeline: Timeline, place: Place) -> list[Arrow]:
    of, here = timeline.local(place)
    rows = of.rows_launched(here)
    if not rows.size:
        return []
    keys = of.trace.device.select("device", "stream")[rows]
    first = keys.with_row_index("at").unique(["device", "stream"], keep="first", maintain_order=True)["at"]
    found = []
    for row in rows[first.to_numpy()][:MOST].tolist():
        head = timeline.find_beside(place, "device", row)
        launch = int(of.launches[row])
        if head is not None and launch != NONE:
            called = int(of.trace.host["start"][launch])
            found.append(Arrow(place, called, head, timeline.span(head)[0], "launch"))
    return found


def _flows(timeline: Timeline, place: Place) -> list[Arrow]:
    of, here = timeline.local(place)
    event, forward = of.event(here), of.trace.host["forward"]
    arrows: list[Arrow] = []
    if forward.null_count() == forward.len():
        return arrows
    if (start := forward[event]) is not None and (tail := timeline.find_beside(place, "host", int(start))) is not None:
        arrows.append(Arrow(tail, timeline.span(tail)[0], place, timeline.span(place)[0], "flow"))
    later = np.flatnonzero((forward == event).fill_null(value=False).to_numpy())
    if later.size and (head := timeline.find_beside(place, "host", int(later[0]))) is not None:
        arrows.append(Arrow(place, timeline.span(place)[0], head, timeline.span(head)[0], "flow"))
    return arrows
