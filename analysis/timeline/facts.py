"""What a timeline knows of one event: everything recorded about it, and what the host did while a GPU was idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.analysis.attribution.during import UNRECORDED
from tracetui.analysis.dependencies.path_lane import path_within
from tracetui.analysis.kernels import operator_names
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.lanes import WORK
from tracetui.analysis.timeline.rows import NONE

if TYPE_CHECKING:
    from tracetui.analysis.timeline.lanes import Lane
    from tracetui.analysis.timeline.timeline import Place, Timeline


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
    found = of.get(lane.source, _of_step)(timeline, place, lane, record)
    return [fact for fact in found if fact.value not in (None, "") or fact.title in ALWAYS]


ALWAYS = frozenset({"Slack"})
"""What is shown as unknown where it is."""


def has_slack(timeline: Timeline, place: Place) -> bool:
    """Whether an event is GPU work of a recording whose replay is known."""
    known = timeline.slack is not None and timeline.lanes[place.lane].source == "device"
    return known and timeline.kinds("device", [timeline.event(place)])[0] in WORK


def slack(timeline: Timeline, place: Place) -> int | None:
    """How much longer GPU work could take before a step of the replay gets longer, ns; null where it is not known."""
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
    """What the critical path runs through in a stretch of time; null where the path is not known."""
    if timeline.path is None or end <= start:
        return None
    found = path_within(timeline.path, start, end)
    parts = tuple((resource, name or "", int(ns)) for resource, name, ns in found.head(3).iter_rows())
    return OnPath(100 * int(found["ns"].sum()) / (end - start), parts)


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


def _of_device(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    start, end = timeline.span(place)
    launch = timeline.launches[timeline.event(place)]
    host = timeline.trace.host
    moved, lasting = record["bytes"], record["duration"]
    step = record["step"]
    found = [
        Fact("Name", record["name"], "text"),
        Fact("Kind", record["kind"], "text"),
        Fact("Operator", _with_shapes(timeline, place, record), "text"),
        Fact("Module", module(timeline, place), "text"),
        Fact("Range", _range(timeline, record["range"]), "text"),
        Fact("Operation", record["operation"], "text"),
        Fact("Scope", record["scope"], "text"),
        Fact("Launched by", host["name"][int(launch)] if launch != NONE else None, "text"),
        Fact("Memory", record["memory_kinds"], "text"),
        Fact("Start", start, "at"),
        Fact("End", end, "at"),
        Fact("Duration", lasting, "time"),
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
    return found + [Fact(title, record[name], "id") for title, name in zip(titles, names, strict=True)]


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
        Fact("Forward", names[forward] if forward is not None else None, "text"),
        Fact("Shapes", record["input_shapes"], "text"),
        Fact("Types", record["input_types"], "text"),
        Fact("Stack", record["stack"], "text"),
        Fact("Domain", record["domain"], "text"),
        Fact("Style", record["style"], "text"),
        Fact("Thread name", lane.name, "text"),
    ]
    numbers = [
        Fact("Start", start, "at"),
        Fact("End", end, "at"),
        Fact("Duration", record["duration"], "time"),
        Fact("Launched", rows.size or None, "count"),
        Fact("GPU time", int(device["duration"].sum()) if device is not None else None, "time"),
    ]
    ids = ("process", "thread", "correlation", "external_id", "sequence", "module_id")
    titles = ("Process", "Thread", "Correlation", "External id", "Sequence", "Module id")
    return [*texts, *numbers, *(Fact(title, record[name], "id") for title, name in zip(titles, ids, strict=True))]


def _of_step(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    start, end = timeline.span(place)
    return [
        Fact("Name", record["name"], "text"),
        Fact("Start", start, "at"),
        Fact("End", end, "at"),
        Fact("Duration", record["duration"], "time"),
        Fact("Index", record["index"], "id"),
    ]


def _of_gap(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    start, end = timeline.span(place)
    during = host_during(timeline, lane.device, start, end)
    found = [
        Fact("Idle", WHY[str(record["cause"])], "text"),
        Fact("Ended by", during.next_name, "text"),
        Fact("Host thread", during.name or (during.thread if during.own else None), "text"),
        *(Fact("Host did", f"{100 * ns / (end - start):.1f} % {name}", "text") for name, ns in during.own),
    ]
    path = path_during(timeline, start, end)
    if path is not None:
        found += [
            Fact("Path runs", f"{100 * ns / (end - start):.1f} % {resource}: {name or UNRECORDED}", "text")
            for resource, name, ns in path.parts
        ]
        found.append(Fact("On the path", path.percent, "percent"))
    return [
        *found,
        Fact("Start", start, "at"),
        Fact("End", end, "at"),
        Fact("Duration", end - start, "time"),
        Fact("Launch after", during.launched_after, "time"),
        Fact("GPU", lane.device, "id"),
    ]


def _of_path(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    start, end = timeline.span(place)
    return [
        Fact("Name", record["name"], "text"),
        Fact("Path runs", record["resource"], "text"),
        Fact("Start", start, "at"),
        Fact("End", end, "at"),
        Fact("Duration", record["duration"], "time"),
    ]


def _of_sample(timeline: Timeline, place: Place, lane: Lane, record: dict[str, Any]) -> list[Fact]:
    start, end = timeline.span(place)
    return [
        Fact("Metric", record["name"], "text"),
        Fact("Unit", record["unit"], "text"),
        Fact("Value", record["value"], "number"),
        Fact("Start", start, "at"),
        Fact("End", end, "at"),
        Fact("Duration", record["duration"], "time"),
        Fact("GPU", lane.device, "id"),
    ]


WHY = {
    "host_wait": "waits for the host: the next activity was launched after the gap began",
    "kernel_wait": "was launched in time: the GPU's own start-up time",
    "other": "was launched in time, or its launch is not in the trace",
}
"""`analysis.idle.CAUSES` in words."""


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
