"""The critical path of each step: the chain of host work, launches and GPU work that decides how long it lasts.

Slack, its counterpart, is how much longer each piece of GPU work could take before any step gets longer.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.analysis.attribution.calltree import add_up, count, dense
from tracetui.analysis.base.intervals import covered
from tracetui.analysis.base.names import matching
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.costs import Costs, Times, anchored, step_ends
from tracetui.analysis.dependencies.graph import Graph, launching_threads
from tracetui.analysis.dependencies.host_layers import HostLayers, host_layers
from tracetui.analysis.dependencies.model import Model
from tracetui.analysis.dependencies.waits import LOST, NONE, WAIT
from tracetui.analysis.selection import Selection
from tracetui.parsers import schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names.collectives import is_collective_kernel
from tracetui.parsers.nesting import LaneClock

Codes = NDArray[np.uint8]
HOST, CALL, LATENCY, GAP, RETURN, WORK = range(6)
"""What a piece of the path is: host time between calls, an API call, the way from a launch to the GPU, time between two
activities, the return of a call that waited, an activity."""
RESOURCES = (
    "loader",  # the host waits for the next batch
    "python",  # a Python function is the innermost call
    "operator",  # an operator of the framework is
    "api",  # a CUDA call is
    "host",  # none was recorded
    "wait",  # a call waits, and what it waits for was not recorded
    "launch",  # the way from a launch to the GPU
    "kernel",
    "communication",  # collectives, with their waiting for other ranks
    "memcpy",
    "memset",
    "gap",  # between two activities of a stream
    "return",  # from the end of the awaited work to the return of the call
)
HOST_RESOURCES = ("loader", "python", "operator", "api", "host", "wait")
GPU_RESOURCES = ("kernel", "communication", "memcpy", "memset", "gap")
"""Which of them are the host's and the GPU's; launch and return are on the way between both."""
_HOST_KINDS = {"python": ("python", "module"), "operator": ("operator",), "api": ("runtime", "driver")}


class Pieces(Struct, frozen=True):
    """The pieces of all steps' paths, each step's from its end to its beginning."""

    what: Ints
    """`HOST`, `CALL`, …"""
    at: Ints
    """Position of the call or of the activity."""
    ns: Ints
    """How long the piece takes in the replay; 0 where only the recording has time for it."""
    step: Ints
    """Position of the step among those that were replayed."""
    start: Ints
    """When the piece begins in the recording, ns on the trace's clock."""
    end: Ints
    """When it ends there: where the piece after it begins."""


@latest
def pieces(model: Model) -> Pieces:
    """Follows what each step waited for, back from the end of its last GPU work to that of the step before.

    The path is that of the model's first end. A piece lies between two events, and so has its place in the recording
    too, where it may take longer: with clean steps the replay is of the program without its profiler.
    """
    return _pieces(model.graph, model.times())


def _pieces(graph: Graph, times: Times) -> Pieces:
    work, calls = graph.work, graph.calls
    step = work.step if graph.steps.height else np.zeros(work.start.size, np.int64)
    in_step = np.flatnonzero((step != NONE) & (work.call != NONE))
    lasts: dict[int, int] = {}
    work_end = times.work_end.tolist()
    for item, number in zip(in_step.tolist(), step[in_step].tolist(), strict=True):
        if number not in lasts or work_end[item] > work_end[lasts[number]]:
            lasts[number] = item
    work_start, followed, released = times.work_start.tolist(), times.followed.tolist(), times.released.tolist()
    call_start, call_end = times.call_start.tolist(), times.call_end.tolist()
    launch, before, own = work.call.tolist(), calls.before.tolist(), calls.own.tolist()
    began, ended, called, returned = work.start.tolist(), work.end.tolist(), calls.start.tolist(), calls.end.tolist()
    ends = [work_end[lasts[number]] for number in sorted(lasts)]
    recorded = [ended[lasts[number]] for number in sorted(lasts)]
    begins, firsts = [0, *ends[:-1]], [0, *recorded[:-1]]
    if len(ends) == 1:
        begins = [min(work_start[item] for item in in_step.tolist()) if graph.begin is None else graph.begin]
        firsts = [min(began[item] for item in in_step.tolist()) if graph.begin is None else graph.begin]
    found: list[tuple[int, int, int, int, int, int]] = []
    # where the step begins in the replay and in the recording, and where the walk is in both
    begin = begun = upto = reached = place = 0

    def back(what: int, at: int, start: int, recorded: int) -> None:
        """Adds the part of a piece that lies in the step, given when it begins on both clocks, and goes there."""
        nonlocal upto, reached
        # max and min as comparisons, since this runs for each piece
        low = start if start > begin else begin
        first = recorded if recorded < reached else reached
        if first < begun:
            first = begun
        lasting = upto > low
        if lasting or reached > first:
            found.append((what, at, upto - low if lasting else 0, place, first, reached))
        if lasting:
            upto = low
        reached = first

    for place, number in enumerate(sorted(lasts)):
        if len(ends) > 1 and not place:  # when the first of several began is not known
            continue
        item, call = lasts[number], NONE
        begin, begun, upto, reached = begins[place], firsts[place], ends[place], recorded[place]
        while upto > begin:
            if item != NONE:
                back(WORK, item, work_start[item], began[item])
                cause = followed[item]
                if cause != NONE:
                    back(GAP, item, work_end[cause], ended[cause])
                    item = cause
                    continue
                call = launch[item]
                if call == NONE:
                    break
                back(LATENCY, item, call_start[call], called[call])
                item = NONE
                continue
            earlier = before[call]
            if own[call] != NONE and (earlier == NONE or call_end[own[call]] > call_end[earlier]):
                earlier = own[call]
            if earlier == NONE:
                back(HOST, call, begin, begun)
                break
            back(HOST, call, call_end[earlier], returned[earlier])
            call = earlier
            if released[call] != NONE:
                item = released[call]
                back(RETURN, call, work_end[item], ended[item])
            else:
                back(CALL, call, call_start[call], called[call])
    columns = np.array(found, np.int64).reshape(-1, 6)
    return Pieces(*(columns[:, number] for number in range(6)))


def work_resources(device: pl.DataFrame, graph: Graph, at: Ints, what: Ints) -> Codes:
    """The place in `RESOURCES` of activities, of the gaps before them and of the ways of their launches.

    Args:
        device: the device frame.
        graph: what was replayed.
        at: positions of the activities.
        what: `WORK`, `GAP` or `LATENCY` for each.
    """
    row = graph.work.row[at]
    kinds = np.array([RESOURCE[_OF_DEVICE.get(kind, "kernel")] for kind in schema.DEVICE_KINDS], np.uint8)
    resource: Codes = kinds[device["kind"].to_physical().to_numpy()[row]]
    collective = matching(device["name"].gather(row), is_collective_kernel) & (resource == RESOURCE["kernel"])
    resource[collective] = RESOURCE["communication"]
    resource[what == GAP], resource[what == LATENCY] = RESOURCE["gap"], RESOURCE["launch"]
    return resource


def call_resources(graph: Graph, at: Ints, what: Ints) -> Codes:
    """The place in `RESOURCES` of API calls, and of the returns of those that waited."""
    resource = np.where(graph.calls.kind[at] == LOST, RESOURCE["wait"], RESOURCE["api"]).astype(np.uint8)
    resource[what == RETURN] = RESOURCE["return"]
    return resource


class Inner(Struct, frozen=True):
    """Pieces of host time, cut where the innermost call changes."""

    owner: Ints
    """The piece that each is a part of."""
    start: Ints
    stop: Ints
    row: Ints
    """Host row of the innermost call, or -1."""


def inner_calls(host: pl.DataFrame, graph: Graph, layers: HostLayers, at: Ints, begin: Ints, end: Ints) -> Inner:
    """Divides host time before calls among the innermost calls in it, as they were recorded.

    Args:
        host: the host frame.
        graph: what was replayed.
        layers: the innermost call at each moment.
        at: positions of the calls, each of which names the thread.
        begin: of each piece, on the trace's clock. Pieces of one thread do not overlap.
        end: of each piece.
    """
    thread = launching_threads(host, graph.calls.row)[graph.calls.row[at]]
    ordered = np.lexsort((begin, thread))
    thread, begin, end = thread[ordered], begin[ordered], end[ordered]
    lanes = max(int(thread.max(initial=-1)), int(layers.thread.max(initial=-1))) + 1
    clock = LaneClock(lanes, layers.time, begin, end)
    layer_key, begin_key, end_key = (
        clock.key(of, time) for of, time in ((layers.thread, layers.time), (thread, begin), (thread, end))
    )
    # from the layer that a piece begins in to the last one that begins before its end
    first = np.searchsorted(layer_key, begin_key, side="right") - 1
    parts = np.maximum(np.searchsorted(layer_key, end_key) - first, 0)
    owner, ends = np.repeat(np.arange(begin.size), parts), np.cumsum(parts)
    place = np.arange(owner.size) + np.repeat(first - ends + parts, parts)
    moment, some = np.append(layers.time, 0), parts > 0
    start, stop = moment[place], moment[place + 1]
    start[(ends - parts)[some]], stop[(ends - 1)[some]] = begin[some], end[some]
    row = np.append(layers.row, NONE)[place]
    row[(place < 0) | (np.append(layers.thread, NONE)[place] != thread[owner])] = NONE
    lasting = start < stop
    return Inner(ordered[owner[lasting]], start[lasting], stop[lasting], row[lasting])


def resources_of(inner: Inner, layers: HostLayers) -> Codes:
    """What each stretch runs through, as its place in `RESOURCES`."""
    resource: Codes = np.append(_OF_HOST, np.uint8(RESOURCE["host"]))[np.append(layers.kind, len(_OF_HOST))[inner.row]]
    if layers.loading[0].size:
        resource[covered(layers.loading, inner.start, inner.stop) > 0] = RESOURCE["loader"]
    return resource


RESOURCE = {name: number for number, name in enumerate(RESOURCES)}
"""The place of each in `RESOURCES`."""
_OF_DEVICE = {"memcpy": "memcpy", "memset": "memset"}
_OF_HOST = np.array(
    [
        RESOURCE[next((name for name, kinds in _HOST_KINDS.items() if kind in kinds), "host")]
        for kind in schema.HOST_KINDS
    ],
    np.uint8,
)
"""The resource of each kind of host event."""


__all__ = ["GPU_RESOURCES", "HOST_RESOURCES", "RESOURCES", "CriticalPath", "critical_path"]


class CriticalPath(Struct, frozen=True):
    """The critical path of a selection's steps."""

    resources: pl.DataFrame
    """resource, ns (per step), percent (of the path), pieces, longest_ns: in the order of `RESOURCES`."""
    stretches: pl.DataFrame
    """resource, name, ns (per step), percent, pieces, longest_ns, start (of the longest, on the trace's clock), row and
    frame (``host`` or ``device``) of the longest: the most time first."""
    steps: int
    """How many steps it is the mean of."""
    step_ns: float
    """The mean length of the path."""

    def share(self, *resources: str) -> float:
        """Percent of the path that runs through these resources."""
        return float(self.resources.filter(pl.col("resource").is_in(resources))["percent"].sum())


@latest
def critical_path(sel: Selection, model: Model) -> CriticalPath:
    """Follows what each step waited for, from the end of its last GPU work back to that of the step before.

    The path is that of the model's first end: of the clean step where that is known, else of the recorded one.
    """
    graph, walked = model.graph, pieces(model)
    chosen = _typical(graph, walked)
    steps = max(len(np.unique(walked.step[chosen])), 1)
    parts = [_of_work(sel, graph, walked, chosen), _of_calls(sel, graph, walked, chosen), _of_host(sel, model, chosen)]
    stretches = pl.concat(parts)
    total = int(stretches["sum"].sum())
    shown = (
        (pl.col("sum") / steps).alias("ns"),
        (100 * pl.col("sum") / total if total else pl.lit(None, pl.Float64)).alias("percent"),
    )
    sums = pl.col("sum", "pieces").sum(), pl.col("longest_ns").max()
    resources = stretches.group_by("resource").agg(*sums).with_columns(*shown).drop("sum")
    resources = resources.sort(pl.col("resource").cast(pl.Enum(RESOURCES)))
    # a call that two threads make is named twice
    longest = pl.col("start", "row", "frame").get(pl.col("longest_ns").arg_max())
    stretches = stretches.group_by("resource", "name").agg(longest, *sums).with_columns(*shown).drop("sum")
    stretches = stretches.sort("ns", "resource", "name", descending=[True, False, False])
    return CriticalPath(
        resources.select(_SUMS), stretches.select(_SUMS[0], "name", *_SUMS[1:], *_LONGEST), steps, total / steps
    )


def _typical(graph: Graph, pieces: Pieces) -> Bools:
    """Which pieces are of typical steps: a mean over unlike steps is of none."""
    work, every = graph.work, np.ones(pieces.step.size, np.bool_)
    if graph.typical is None:
        return every
    chosen = graph.typical[np.unique(work.step[(work.step != NONE) & (work.call != NONE)])][pieces.step]
    return chosen if chosen.any() else every


_SUMS = ("resource", "ns", "percent", "pieces", "longest_ns")
_LONGEST = ("start", "row", "frame")


def _grouped(events: pl.DataFrame, frame: str, resource: Codes, ns: Ints, start: Ints, row: Ints) -> pl.DataFrame:
    """Pieces by resource and by the name of their host or device row, with the longest of each.

    Args:
        events: the host or device frame.
        frame: what it is called.
        resource: of each piece, its place in `RESOURCES`.
        ns: how long it takes.
        start: when it begins in the recording.
        row: its row; -1 for none.
    """
    lasting = np.flatnonzero(ns > 0)
    ns, row = ns[lasting], row[lasting]
    name = events["name"].to_physical().to_numpy()
    nameless = int(name.max(initial=0)) + 1
    code = np.append(name, np.uint32(nameless))[row].astype(np.int64)
    group, distinct = dense(code * len(RESOURCES) + resource[lasting])
    longest_ns = np.zeros(distinct.size, np.int64)
    np.maximum.at(longest_ns, group, ns)
    longest = np.flatnonzero(ns == longest_ns[group])[::-1]
    first = np.zeros(distinct.size, np.int64)
    first[group[longest]] = longest  # the first one of each is written last
    named = events["name"].gather(np.maximum(row[first], 0)).cast(pl.String) if events.height else pl.lit(None)
    return pl.DataFrame(
        {
            "resource": np.array(RESOURCES)[distinct % len(RESOURCES)],
            "sum": add_up(group, ns, distinct.size),
            "pieces": count(group, distinct.size),
            "longest_ns": longest_ns,
            "start": start[lasting][first],
            "row": row[first],
        }
    ).with_columns(
        name=pl.when(pl.col("row") >= 0).then(named).otherwise(pl.lit("no call recorded")), frame=pl.lit(frame)
    )


def _of_work(sel: Selection, graph: Graph, pieces: Pieces, chosen: Bools) -> pl.DataFrame:
    """Activities, the gaps between them and the ways of launches, named by the activity."""
    chosen = chosen & np.isin(pieces.what, (WORK, GAP, LATENCY))
    at, what = pieces.at[chosen], pieces.what[chosen]
    device = sel.trace.device
    resource = work_resources(device, graph, at, what)
    return _grouped(device, "device", resource, pieces.ns[chosen], graph.work.start[at], graph.work.row[at])


def _of_calls(sel: Selection, graph: Graph, pieces: Pieces, chosen: Bools) -> pl.DataFrame:
    """API calls, and the returns of those that waited."""
    chosen = chosen & np.isin(pieces.what, (CALL, RETURN))
    at = pieces.at[chosen]
    resource = call_resources(graph, at, pieces.what[chosen])
    return _grouped(sel.trace.host, "host", resource, pieces.ns[chosen], graph.calls.start[at], graph.calls.row[at])


@latest
def host_time(sel: Selection, model: Model) -> tuple[Inner, Ints]:
    """The host's pieces of the path, cut where the innermost call changes; how long each takes in the replay."""
    graph, walked = model.graph, pieces(model)
    host, calls = walked.what == HOST, graph.calls
    at, end = walked.at[host], calls.start[walked.at[host]]
    inner = inner_calls(sel.trace.host, graph, host_layers(sel, graph), at, end - calls.stretch[at], end)
    scale = walked.ns[host] / np.maximum(calls.stretch[at], 1)
    return inner, np.rint((inner.stop - inner.start) * scale[inner.owner]).astype(np.int64)


def _of_host(sel: Selection, model: Model, chosen: Bools) -> pl.DataFrame:
    """Host time between calls, named by the innermost call."""
    inner, ns = host_time(sel, model)
    if not chosen.all():
        inside = chosen[pieces(model).what == HOST][inner.owner]
        inner, ns = Inner(*(getattr(inner, name)[inside] for name in Inner.__struct_fields__)), ns[inside]
    resource = resources_of(inner, host_layers(sel, model.graph))
    return _grouped(sel.trace.host, "host", resource, ns, inner.start, inner.row)


UNKNOWN = -1
"""The slack of work that no step launched."""
_NEVER = 1 << 62


@latest
def slack(model: Model) -> dict[int, int]:
    """The slack of the replayed GPU work by device row, ns, at the model's first end; work of no step is left out."""
    graph, end = model.graph, model.ends[0]
    spare = slacks(graph, end.costs, end.times)
    has_slack = np.flatnonzero(spare != UNKNOWN)
    return dict(zip(graph.work.row[has_slack].tolist(), spare[has_slack].tolist(), strict=True))


def slacks(graph: Graph, costs: Costs, times: Times) -> Ints:
    """The slack of each piece of work: the longest that it may take more without a later end of any step.

    Every beginning in a replay is the latest of some ends plus a constant, so the latest end that changes no step
    follows exactly, from the last call back to the first. Work that takes longer than its slack by some time puts off
    the end of a step by just that time.

    Args:
        graph: what was replayed.
        costs: at which it was.
        times: when everything happened.

    Returns:
        ns; `UNKNOWN` for work that no step launched.
    """
    calls, work = graph.calls, graph.work
    counted = _deadlines(graph, times)
    latest_end = counted.tolist()
    call_latest = [_NEVER] * calls.start.size
    durations, gaps, lengths = costs.work.tolist(), costs.gap.tolist(), costs.call.tolist()
    stretches, kinds = costs.stretch.tolist(), calls.kind.tolist()
    queued, after, launch = work.queued.tolist(), work.after.tolist(), work.call.tolist()
    before, own, first = calls.before.tolist(), calls.own.tolist(), graph.first.tolist()
    wait_from, waited = calls.wait_from.tolist(), calls.waited.tolist()
    latency, back = costs.latency_ns, graph.return_ns
    anchor, _, lag = anchored(graph, costs)
    for position in range(calls.start.size - 1, -1, -1):
        limit = call_latest[position]
        if kinds[position] == WAIT and position not in costs.no_wait:
            for item in waited[wait_from[position] : wait_from[position + 1]]:
                if launch[item] <= position:
                    latest_end[item] = min(latest_end[item], limit - back)
        limit -= lengths[position]
        way = max(latency, lag) if position == anchor else latency
        for item in range(first[position + 1] - 1, first[position] - 1, -1):
            begin = latest_end[item] - durations[item]
            limit = min(limit, begin - way)
            if (previous := queued[item]) >= 0:
                latest_end[previous] = min(latest_end[previous], begin - gaps[item])
            if (other := after[item]) >= 0:
                latest_end[other] = min(latest_end[other], begin)
        if (earlier := before[position]) >= 0:
            call_latest[earlier] = min(call_latest[earlier], limit - stretches[position])
        if (earlier := own[position]) >= 0:
            call_latest[earlier] = min(call_latest[earlier], limit)
    spare = np.array(latest_end, np.int64) - times.work_end
    # what no step waits for could take for ever; of what was launched by none, nothing is known
    return np.where(counted < _NEVER, spare, UNKNOWN)


def _deadlines(graph: Graph, times: Times) -> Ints:
    """For each piece of work the end of its step in the replay, as `costs.step_times` counts it."""
    in_step, place, ends = step_ends(graph, times.work_end)
    deadline = np.full(in_step.size, _NEVER, np.int64)
    deadline[in_step] = ends[place]
    return deadline


PATH: dict[str, pl.DataType] = {
    "start": pl.Int64(),
    "duration": pl.Int64(),
    "resource": pl.Enum(RESOURCES),
    "name": pl.String(),
    "frame": pl.String(),
    "row": pl.UInt32(),
}


def path_lane(sel: Selection, model: Model) -> pl.DataFrame:
    """The critical paths of all steps, in the order of time; no piece overlaps another.

    Args:
        sel: the recording that the model is of.
        model: its replay.

    Returns:
        start (ns on the trace's clock), duration, resource (one of `RESOURCES`), name (of the innermost call, or of the
        GPU work; null where the host recorded nothing), frame and row (``host`` or ``device``, and the row there; null
        with the name).
    """
    graph, walked = model.graph, pieces(model)
    lasting = walked.end > walked.start
    host = lasting & (walked.what == HOST)
    call = lasting & np.isin(walked.what, (CALL, RETURN))
    work = lasting & ~host & ~call
    layers = host_layers(sel, graph)
    inner = inner_calls(sel.trace.host, graph, layers, walked.at[host], walked.start[host], walked.end[host])
    parts = [
        ("host", inner.start, inner.stop, resources_of(inner, layers), inner.row),
        ("host", walked.start[call], walked.end[call], call_resources(graph, walked.at[call], walked.what[call]),
         graph.calls.row[walked.at[call]]),
        ("device", walked.start[work], walked.end[work],
         work_resources(sel.trace.device, graph, walked.at[work], walked.what[work]), graph.work.row[walked.at[work]]),
    ]  # fmt: skip
    frames = []
    for source, start, end, resource, row in parts:
        names = sel.trace.host["name"] if source == "host" else sel.trace.device["name"]
        frames.append(
            pl.DataFrame(
                {
                    "start": start,
                    "duration": end - start,
                    "resource": pl.Series(resource, dtype=pl.UInt8).cat.to(pl.Enum(RESOURCES)),
                    "name": names.gather(np.maximum(row, 0)).cast(pl.String) if row.size else [],
                    "frame": [source] * row.size,
                    "row": np.maximum(row, 0),
                },
                schema=PATH,
            ).with_columns(pl.when(pl.lit(pl.Series(row != NONE))).then(pl.col("name", "frame", "row")))
        )
    return pl.concat(frames).sort("start", maintain_order=True)


def path_within(path: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """What the path runs through in a stretch of time: resource, name and ns, the most first.

    Args:
        path: as of `path_lane`.
        start: of the stretch, ns on the trace's clock.
        end: its end, exclusive.
    """
    time = path["start"].to_numpy()
    low = max(int(np.searchsorted(time, start, side="right")) - 1, 0)
    part = path.slice(low, int(np.searchsorted(time, end)) - low)
    begin = part["start"].to_numpy()
    inside = np.minimum(begin + part["duration"].to_numpy(), end) - np.maximum(begin, start)
    return (
        part.select(pl.col("resource").cast(pl.String), "name", ns=pl.Series(np.maximum(inside, 0)))
        .group_by("resource", "name")
        .agg(pl.col("ns").sum())
        .filter(pl.col("ns") > 0)
        .sort("ns", "resource", "name", descending=[True, False, False])
    )
