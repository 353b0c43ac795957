"""What everything costs in a replay of the graph, when everything happens at those costs, and how long steps take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.dependencies.waits import LEAST_ENDS, NONE, WAIT
from tracetui.parsers.arrays import Bools, Ints

if TYPE_CHECKING:
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Trace


WAIT_NS, FULL_NS = 2_000, 5_000
"""What a waiting call, and a launch into a queue that has room, cost the host at most."""
RAN = -1
"""The work's launch decided when it began; otherwise the position of the work that it followed."""
LONG_AGO = np.iinfo(np.int64).min // 4
_EVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Costs:
    """What everything takes in a replay, ns."""

    stretch: Ints
    """Host time before each call."""
    call: Ints
    """What each call takes of the host, without its waiting."""
    work: Ints
    """The duration of each activity."""
    gap: Ints
    """Time between each activity and the one before it on its stream."""
    latency_ns: int
    no_wait: frozenset[int] = frozenset()
    """Calls that no longer wait."""


@dataclass(frozen=True)
class Times:
    """When everything happens in a replay."""

    call_start: Ints
    call_end: Ints
    work_start: Ints
    work_end: Ints
    followed: Ints
    """For each activity the one that it had to wait for, or `RAN` where its launch decided."""
    released: Ints
    """For each call the activity whose end let it return, or -1."""


def as_recorded(graph: Graph) -> Costs:
    """The costs that the recording has."""
    calls, work = graph.calls, graph.work
    within = np.append(False, (work.call[1:] == work.call[:-1]) & (work.call[1:] >= 0))[: work.call.size]
    return Costs(
        calls.stretch,
        np.minimum(calls.end - calls.start, np.array((_EVER, WAIT_NS, FULL_NS, _EVER))[calls.kind]),
        work.end - work.start,
        np.where(within, graph.inner_gap_ns, graph.gap_ns),
        graph.latency_ns,
    )


def anchor_of(graph: Graph) -> int:
    """The first launching call, or -1: it also loads what it runs."""
    item = int(graph.first[0])
    return int(graph.work.call[item]) if item < graph.work.call.size else -1


def anchored(graph: Graph, costs: Costs) -> tuple[int, int, int]:
    """The first launching call, when its work begins at the earliest, and how long after the call.

    It is taken as it was. Where a step begins with its host, that is as long after the call as in the recording: what
    the host did before it may take less. What the call itself takes less comes off too.
    """
    anchor = anchor_of(graph)
    if anchor < 0:
        return anchor, LONG_AGO, 0
    began, called = int(graph.work.start[graph.first[0]]), int(graph.calls.start[anchor])
    if graph.begin is None:
        return anchor, began, 0
    lasted = min(int(graph.calls.end[anchor]) - called, (_EVER, WAIT_NS, FULL_NS, _EVER)[graph.calls.kind[anchor]])
    spared = lasted - int(costs.call[anchor])
    return anchor, LONG_AGO, max(began - called - max(spared, 0), min(began - called, costs.latency_ns))


def recorded_steps(graph: Graph) -> Ints:
    """How long each step took in the recording, as `step_times` measures it, ns."""
    taken = np.diff(step_edges(graph, graph.work.start, graph.work.end))
    return taken[that_count(graph, taken.size)]


def step_times(graph: Graph, times: Times) -> Ints:
    """How long each step takes, from the end of the GPU work of the step before to the end of its own, ns.

    The first of one or two steps counts from its own beginning in the recording (`Graph.begin`); of three and more the
    first one is left out. Without steps, all the work is one step. Of steps that are not alike the typical ones count.
    """
    taken = np.diff(step_edges(graph, times.work_start, times.work_end))
    return taken[that_count(graph, taken.size)]


def step_edges(graph: Graph, work_start: Ints, work_end: Ints) -> Ints:
    """When the first of the steps that count begins, and when each of them ends, which is when the next one begins."""
    in_step, place, ends = step_ends(graph, work_end)
    if not 0 < ends.size < LEAST_ENDS:
        return ends
    begin = work_start[in_step][place == 0].min() if graph.begin is None else graph.begin
    return np.concatenate(([begin], ends))


def that_count(graph: Graph, number: int) -> Bools:
    """Which of the last so many steps with GPU work count: the typical ones; all where none of these is typical."""
    if graph.typical is None:
        return np.ones(number, np.bool_)
    work = graph.work
    steps = np.unique(work.step[(work.step != NONE) & (work.call != NONE)])
    typical: Bools = graph.typical[steps][steps.size - number :]
    return typical if typical.any() else ~typical


def step_ends(graph: Graph, work_end: Ints) -> tuple[Bools, Ints, Ints]:
    """Which activities a step launched, the place of its step among those that launched any, and when these end.

    A step ends with the last of its own work and of the work of steps before it.
    """
    work = graph.work
    step = work.step if graph.steps.height else np.zeros(work.start.size, np.int64)
    in_step = (step != NONE) & (work.call != NONE)
    numbers, place = np.unique(step[in_step], return_inverse=True)
    ends = np.full(numbers.size, np.iinfo(np.int64).min)
    np.maximum.at(ends, place, work_end[in_step])
    return in_step, place, np.maximum.accumulate(ends)


_SAME = ("kind", "group", "bytes")
_OUT_OF_STEPS = -1


def transfers(sel: Selection, described: Trace | None = None) -> Ints | None:
    """The most that each activity takes without waiting for other ranks, ns, by device row; -1 for all else.

    A collective's kernel runs from its rank's arrival on, so the shortest one holds the least waiting. More bytes take
    no less time: the bound is the shortest of the same kind and group with as many bytes or more, and where sizes are
    not known, of the same place in any step.

    Args:
        sel: the recording; collectives outside its scope tell nothing.
        described: another recording of the same program that knows kinds and sizes, where this one doesn't; told by
            the place in the step, if all steps of both have as many.

    Returns:
        None where no collectives ran on the GPU.
    """
    trace = sel.trace
    own = _collectives(trace)
    if own.height:
        own = own.filter(pl.col("row").is_in(sel.device["row"].cast(pl.Int64).implode()))
    if not own.height:
        return None
    pool = own
    if described is not None and described is not trace:
        own = _described(own, by_rich := _collectives(described))
        pool = pl.concat([own, by_rich])
    sizes = pool.drop_nulls("bytes").group_by(_SAME).agg(pl.col("duration").min())
    sizes = sizes.sort("bytes", descending=True)
    sizes = sizes.with_columns(bound=pl.col("duration").cum_min().over("kind", "group"))
    sized = own.join(sizes.drop("duration"), on=_SAME, how="left", nulls_equal=True, maintain_order="left")
    same_place = pl.col("duration").min().over("name", "place")
    bound = sized.select(pl.coalesce("bound", pl.when(pl.col("step") >= 0).then(same_place), "duration")).to_series()
    by_row = np.full(trace.device.height, -1, np.int64)
    by_row[sized["row"].to_numpy()] = np.minimum(bound.to_numpy(), sized["duration"].to_numpy())
    return by_row


@kept
def _collectives(trace: Trace) -> pl.DataFrame:
    """Row (of the device frame), step, place (in its step, by launch), duration, name, kind, group, bytes (or null)."""
    frame = trace.collectives
    frame = frame.filter(pl.col("device").is_not_null() & pl.col("part_of").is_null())
    row = frame["device"]
    device = trace.device.select("start", "duration", "step", "launch", "name")[row]
    launched = trace.host["start"].gather(device["launch"])
    return (
        frame.select(
            row.cast(pl.Int64).alias("row"),
            device["step"].cast(pl.Int64).fill_null(_OUT_OF_STEPS).alias("step"),
            launched.fill_null(device["start"]).alias("launched"),
            device["duration"].fill_null(0),
            device["name"].cast(pl.String),
            pl.col("kind").cast(pl.String),
            pl.col("group").cast(pl.String),
            pl.max_horizontal("bytes_in", "bytes_out").alias("bytes"),
        )
        .sort("launched", "row")
        .with_columns(place=pl.int_range(pl.len()).over("step"))
        .drop("launched")
    )


def _described(own: pl.DataFrame, by_rich: pl.DataFrame) -> pl.DataFrame:
    """The collectives with kind, group and size of those at the same place of a step in the other recording."""
    inside = by_rich.filter(pl.col("step") >= 0)
    places = inside.group_by("place").agg(
        pl.col(*_SAME, "name").first(),
        alike=pl.struct(*_SAME, "name").n_unique() == 1,
        steps=pl.col("step").n_unique(),
    )
    counts = pl.concat([each.filter(pl.col("step") >= 0).group_by("step").len()["len"] for each in (own, by_rich)])
    if counts.n_unique() != 1 or not places["alike"].all():
        return own
    named = own.join(places.select("place", "name", *_SAME), on=["place", "name"], how="left", suffix="_told")
    outside = pl.col("step") == _OUT_OF_STEPS
    return named.select(
        pl.when(outside).then(pl.col(name)).otherwise(pl.coalesce(f"{name}_told", name)).alias(name)
        if name in _SAME
        else pl.col(name)
        for name in own.columns
    )


_LATEST = 1 << 62
"""ns: later than any clock shows."""


def walk(graph: Graph, costs: Costs) -> Times:
    """Replays the graph.

    A call begins after the host's stretch before it; its work begins when the launch has reached the GPU, the stream is
    free and the work that it waits for is done; a waiting call returns when what it waited for has ended.
    """
    return by_segments(graph, costs) if _segments(graph) and _fits(graph, costs) else one_by_one(graph, costs)


def _fits(graph: Graph, costs: Costs) -> bool:
    """Whether no sum of these costs can leave the range of 64 bits, as absurd durations may."""
    calls, work = graph.calls, graph.work
    ends = (int(abs(times).max(initial=0)) for times in (calls.start, calls.end, work.start, work.end, graph.held))
    spent = (float(part.sum(dtype=np.float64)) for part in (costs.stretch, costs.call, costs.work, costs.gap))
    return max(ends) + sum(spent) + costs.latency_ns + graph.return_ns * calls.start.size < _LATEST


def one_by_one(graph: Graph, costs: Costs) -> Times:
    """`walk` call by call, in plain numbers of any size: the form that the others are held to."""
    calls, work = graph.calls, graph.work
    call_start, call_end = [0] * calls.start.size, [0] * calls.start.size
    work_start, work_end = work.start.tolist(), work.end.tolist()
    followed, released = [RAN] * len(work_start), [-1] * len(call_start)
    durations, gaps, queued, after = (of.tolist() for of in (costs.work, costs.gap, work.queued, work.after))
    first, latency, back = graph.first.tolist(), costs.latency_ns, graph.return_ns
    wait_from, waited = calls.wait_from.tolist(), calls.waited.tolist()
    anchor, earliest, lag = anchored(graph, costs)
    held, stream = graph.held.tolist(), work.stream.tolist()
    columns = calls.before, costs.stretch, calls.own, calls.kind, costs.call, calls.start - calls.stretch
    # the last entry of `first` is the end of the work
    rows = zip(*(column.tolist() for column in columns), first, first[1:], strict=False)
    for position, (before, stretch, own, kind, length, recorded, item, stop) in enumerate(rows):
        now = call_end[before] + stretch if before >= 0 else recorded + stretch
        if own >= 0 and call_end[own] > now:
            now = call_end[own]
        call_start[position] = now
        arrives = now + latency
        if position == anchor:
            arrives = max(arrives, earliest, now + lag)
        while item < stop:
            begin, cause, previous = arrives, RAN, queued[item]
            if previous >= 0:
                ready = work_end[previous] + gaps[item]
                if ready > begin:
                    begin, cause = ready, previous
            elif held[stream[item]] > begin:
                begin = held[stream[item]]
            other = after[item]
            if other >= 0 and work_end[other] > begin:
                begin, cause = work_end[other], other
            work_start[item] = begin
            work_end[item] = begin + durations[item]
            followed[item] = cause
            item += 1
        now += length
        if kind == WAIT and position not in costs.no_wait:
            for place in range(wait_from[position], wait_from[position + 1]):
                item = waited[place]
                if work_end[item] + back > now:
                    now, released[position] = work_end[item] + back, item
        call_end[position] = now
    return Times(*map(_whole, (call_start, call_end, work_start, work_end, followed, released)))


def _whole(values: list[int]) -> Ints:
    """The values as 64-bit integers; what a sum of absurd durations comes to may not fit them, and is cut."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array([min(max(value, -_LATEST), _LATEST) for value in values], np.int64)


def by_segments(graph: Graph, costs: Costs) -> Times:
    """`walk` where work runs in the order of its launches: within a stretch of calls the host's time is a running sum.

    What a stretch launches into a stream is a segment, which ends when its launches and its work let it (`reach`), or
    so long after the segment before it (`total`). Only these ends are found one after the other. Sums of the costs must
    fit 64 bits (`_fits`).
    """
    calls, work, shared = graph.calls, graph.work, _segments(graph)
    assert shared is not None
    edges, order, first, last = shared.edges, shared.order, shared.first, shared.last
    spent = np.cumsum(costs.stretch + costs.call)
    before_call = spent - costs.call
    arrives = before_call[work.call[order]] + costs.latency_ns
    gap, lasting = costs.gap[order], costs.work[order]
    sums = np.cumsum(gap + lasting)
    own = sums[last] - sums[first] + lasting[first]
    """What the work of each segment takes from the start of its first activity on, if nothing holds it up."""
    latest_launch = np.maximum.reduceat(arrives + lasting - sums, shared.bounds) if first.size else first
    segments = zip(
        (latest_launch[shared.in_turn] + sums[last]).tolist(),
        shared.before,
        (own + np.where(shared.is_first, graph.held[work.stream[order[first]]], gap[first])).tolist(),
        shared.after,
        own.tolist(),
        strict=True,
    )
    anchor, earliest, lag = anchored(graph, costs)
    heads, tails = edges[:-1], edges[1:] - 1
    rows = zip(
        heads.tolist(),
        before_call[heads].tolist(),
        spent[tails].tolist(),
        costs.stretch[heads].tolist(),
        (calls.start[heads] - calls.stretch[heads]).tolist(),
        *_ends_of(calls.before[heads], shared.stretch, tails, spent),
        *_ends_of(calls.own[heads], shared.stretch, tails, spent),
        shared.number,
        shared.waiting,
        strict=True,
    )
    ends: list[int] = work.end[: int(graph.first[0])].tolist()
    released: dict[int, int] = {}
    bases: list[int] = []
    launched: list[int] = []
    """`bases` of what the calls launch."""
    returned: list[int] = []
    """When each stretch ends, with its waiting."""
    back, no_wait = graph.return_ns, costs.no_wait
    for head, ahead, whole, stretch, recorded, before, before_spent, of, of_spent, number, waited in rows:
        if before < 0:
            now = recorded + stretch
        else:
            now = (returned[before] if before_spent is None else bases[before] + before_spent) + stretch
        if of >= 0:
            handed = returned[of] if of_spent is None else bases[of] + of_spent
            if handed > now:
                now = handed
        base = now - ahead
        bases.append(base)
        end = base + whole
        if head == anchor:
            base += max(earliest - now - costs.latency_ns, lag - costs.latency_ns, 0)
        launched.append(base)
        for reach, previous, total, other, alone in islice(segments, number):
            done = base + reach
            ready = total if previous < 0 else ends[previous] + total
            if ready > done:
                done = ready
            if other >= 0:
                ready = ends[other] + alone
                if ready > done:
                    done = ready
            ends.append(done)
        if waited is not None and (position := waited[0]) not in no_wait:
            for segment, item in waited[1]:
                if ends[segment] + back > end:
                    end, released[position] = ends[segment] + back, item
        returned.append(end)
    call_end = np.repeat(np.array(bases, np.int64), np.diff(edges)) + spent
    call_start = call_end - costs.call
    call_end[tails] = returned
    returns = np.full(calls.start.size, -1, np.int64)
    returns[list(released)] = list(released.values())
    arrives += np.array(launched, np.int64)[shared.stretch[work.call[order]]]
    return Times(call_start, call_end, *_within(graph, costs, shared, arrives, np.array(ends, np.int64)), returns)


def _within(graph: Graph, costs: Costs, shared: _Segments, arrives: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """When each activity begins and ends, and what it followed, from when it arrives and when segments end."""
    work, order, first = graph.work, shared.order, shared.first
    gap, lasting = costs.gap[order], costs.work[order]
    before, after = (np.array(of, np.int64) for of in (shared.before, shared.after))
    done = np.where(before >= 0, ends[before] + gap[first], graph.held[work.stream[order[first]]])
    other = np.where(after >= 0, ends[after], LONG_AGO)
    arrived = np.where(shared.is_first, np.maximum(arrives[first], done), arrives[first])
    arrives[first] = arrived
    sums = np.cumsum(gap + lasting)
    reach = arrives + lasting - sums
    reach[first] += np.maximum(np.maximum(done, other) - arrived, 0)
    for low, high in zip(shared.streams[:-1], shared.streams[1:], strict=True):
        np.maximum.accumulate(reach[low:high], out=reach[low:high])
    work_start, work_end, followed = work.start.copy(), work.end.copy(), np.full(work.start.size, RAN, np.int64)
    reach += sums
    work_end[order] = reach
    work_start[order] = begin = reach - lasting
    followed[order] = np.where(begin <= arrives, RAN, work.queued[order])
    joined = order[first[other > np.maximum(arrived, done)]]
    followed[joined] = work.after[joined]
    return work_start, work_end, followed


class _Segments(Struct, frozen=True):
    """The order in which `by_segments` reads a graph. Lists hold Python's own numbers.

    Within a stretch each call follows the one before it, and only the last one waits. A segment is work of one stream
    that one stretch launches; only its first activity waits for another stream, and only its last one is waited for.
    """

    edges: Ints
    """Where the stretches begin, and the number of calls."""
    stretch: Ints
    """The stretch of each call."""
    waiting: list[tuple[int, list[tuple[int, int]]] | None]
    """The waiting call at the end of each stretch, with what it waited for (segment, activity); None where the last
    call does not wait."""
    number: list[int]
    """How many segments each stretch launches."""
    order: Ints
    """Positions in `Work` of what was launched, stream by stream."""
    streams: list[int]
    """Where the streams begin in `order`, and its length."""
    bounds: Ints
    """Where segments begin in `order`."""
    in_turn: Ints
    """The position in `bounds` of each segment; they are told in the order of their launch."""
    first: Ints
    """The position in `order` of the first activity of each segment."""
    last: Ints
    is_first: Bools
    """Whether nothing ran on the stream before it."""
    before: list[int]
    """The segment before each one on its stream, or -1. Each activity without a launch counts as one, and they are the
    first ones."""
    after: list[int]
    """The segment that its first activity waits for, or -1."""
    of: Ints
    """The segment of each activity."""


@latest
def _segments(graph: Graph) -> _Segments | None:
    """Cuts a graph into segments; None for work that does not run in the order of its launches."""
    calls, work, unlaunched = graph.calls, graph.work, int(graph.first[0])
    by_stream = np.argsort(work.stream, kind="stable")
    before = np.full(work.stream.size, NONE, np.int64)
    same = work.stream[by_stream[1:]] == work.stream[by_stream[:-1]]
    before[by_stream[1:][same]] = by_stream[:-1][same]
    if (before != work.queued)[unlaunched:].any():
        return None
    edges = np.flatnonzero(_cuts(graph))
    stretch = np.repeat(np.arange(edges.size - 1), np.diff(edges))
    order = by_stream[by_stream >= unlaunched]
    stream, of_stretch = work.stream[order], stretch[work.call[order]]
    awaited = np.zeros(work.stream.size, np.bool_)
    awaited[calls.waited] = awaited[work.after[work.after >= 0]] = True
    new_stream = stream[1:] != stream[:-1]
    cut = new_stream | (of_stretch[1:] != of_stretch[:-1]) | awaited[order[:-1]] | (work.after[order[1:]] >= 0)
    bounds = np.flatnonzero(np.concatenate(([order.size > 0], cut, [True])))
    in_turn = np.argsort(order[bounds[:-1]])
    first, last = bounds[:-1][in_turn], bounds[1:][in_turn] - 1
    of = np.arange(work.stream.size)
    of[order] = np.repeat(unlaunched + np.argsort(in_turn), np.diff(bounds))
    queued, after = work.queued[order[first]], work.after[order[first]]
    tails = edges[1:] - 1
    return _Segments(
        edges,
        stretch,
        [
            (tail, list(zip(of[items := calls.waited[low:high]].tolist(), items.tolist(), strict=True)))
            if waits
            else None
            for tail, waits, low, high in zip(
                tails.tolist(),
                (calls.kind[tails] == WAIT).tolist(),
                calls.wait_from[tails].tolist(),
                calls.wait_from[tails + 1].tolist(),
                strict=True,
            )
        ],
        np.bincount(of_stretch[first], minlength=edges.size - 1).tolist(),
        order,
        np.flatnonzero(np.concatenate(([order.size > 0], new_stream, [True]))).tolist(),
        bounds[:-1],
        in_turn,
        first,
        last,
        queued < 0,
        np.where(queued >= 0, of[queued], NONE).tolist(),
        np.where(after >= 0, of[after], NONE).tolist(),
        of,
    )


def _ends_of(followed: Ints, stretch: Ints, tails: Ints, spent: Ints) -> tuple[list[int], list[int | None]]:
    """The stretch of each call that is followed, and its own part of it; None for the last call of a stretch."""
    known = followed >= 0
    of = np.where(known, stretch[followed], RAN)
    is_last = known & (tails[of] == followed)
    parts: list[int | None] = np.where(known, spent[followed], 0).tolist()
    for place in np.flatnonzero(is_last).tolist():
        parts[place] = None
    return of.tolist(), parts


def _cuts(graph: Graph) -> Bools:
    """Marks where stretches of calls begin and the last one ends: where more than the host's own time may decide."""
    calls = graph.calls
    size = calls.start.size
    cut = np.zeros(size + 1, np.bool_)
    cut[0] = cut[size] = True
    jumps = calls.before[1:] != np.arange(size - 1)
    cut[1:size] |= jumps
    handed = calls.own >= 0
    if not (calls.end < calls.start).any():
        # a call that others followed without a jump had ended when the last of them did
        chain = np.append(0, np.cumsum(jumps))
        handed &= chain[calls.own] != chain
    cut[:size] |= handed
    cut[1 : size + 1] |= calls.kind == WAIT
    anchor = anchor_of(graph)
    cut[anchor] = cut[anchor + 1] = True
    return cut
