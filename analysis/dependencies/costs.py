"""What everything costs in a replay of the graph, when everything happens at those costs, and how long steps take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.dependencies.waits import LEAST_ENDS, NONE, WAIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Trace

    Bools = NDArray[np.bool_]

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


LEAST_CALLS = 40
"""With so many calls to each stream of a block on the mean, running sums are faster than one call after the other."""
_LATEST = 1 << 62
"""ns: later than any clock shows."""


def walk(graph: Graph, costs: Costs) -> Times:
    """Replays the graph.

    A call begins after the host's stretch before it; its work begins when the launch has reached the GPU, the stream is
    free and the work that it waits for is done; a waiting call returns when what it waited for has ended.
    """
    bounds = _few_blocks(graph)
    if bounds is not None:
        return by_blocks(graph, costs, bounds)
    return by_items(graph, costs) if _fits(graph, costs) else one_by_one(graph, costs)


@latest
def _few_blocks(graph: Graph) -> Ints | None:
    """`blocks`, if they are so few that running sums are fast."""
    bounds = blocks(graph)
    return bounds if bounds is not None and _runs(graph, bounds) < graph.calls.start.size / LEAST_CALLS else None


def _runs(graph: Graph, bounds: Ints) -> int:
    """How many pieces the fast form takes one after the other: blocks, and their streams where there are several."""
    blocks, streams = bounds.size - 1, int(graph.work.stream.max(initial=0)) + 1
    if streams == 1 or blocks >= graph.calls.start.size / LEAST_CALLS:
        return blocks
    block = np.searchsorted(bounds, graph.work.call, side="right")
    return max(blocks, int(np.unique(block * streams + graph.work.stream).size))


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


def by_items(graph: Graph, costs: Costs) -> Times:
    """`walk` activity by activity: within a stretch of calls the host's time is a running sum, and only its end waits.

    Sums of the costs must fit 64 bits (`_fits`).
    """
    calls, work = graph.calls, graph.work
    spent = np.cumsum(costs.stretch + costs.call)
    before_call = spent - costs.call
    shared = _stretches(graph)
    edges = shared.edges
    unlaunched = int(graph.first[0])
    ends: list[int] = work.end[:unlaunched].tolist()
    followed = [RAN] * unlaunched
    released: dict[int, int] = {}
    items = zip(
        (before_call[work.call[unlaunched:]] + costs.latency_ns).tolist(),
        shared.queued,
        np.where(work.queued >= 0, costs.gap, graph.held[work.stream])[unlaunched:].tolist(),
        shared.after,
        costs.work[unlaunched:].tolist(),
        strict=True,
    )
    anchor, earliest, lag = anchored(graph, costs)
    heads, tails = edges[:-1], edges[1:] - 1
    rows = zip(
        heads.tolist(),
        before_call[heads].tolist(),
        spent[tails].tolist(),
        costs.stretch[heads].tolist(),
        shared.recorded,
        *_ends_of(calls.before[heads], shared.stretch, tails, spent),
        *_ends_of(calls.own[heads], shared.stretch, tails, spent),
        shared.number,
        shared.waiting,
        strict=True,
    )
    bases: list[int] = []
    last: list[int] = []
    """When each stretch ends, with its waiting."""
    back, no_wait = graph.return_ns, costs.no_wait
    for head, ahead, total, stretch, recorded, before, before_spent, own, own_spent, number, waited in rows:
        if before < 0:
            now = recorded + stretch
        else:
            now = (last[before] if before_spent is None else bases[before] + before_spent) + stretch
        if own >= 0:
            returned = last[own] if own_spent is None else bases[own] + own_spent
            if returned > now:
                now = returned
        base = now - ahead
        bases.append(base)
        if head == anchor:
            base += max(earliest - now - costs.latency_ns, lag - costs.latency_ns, 0)
        for arrives, previous, gap, other, lasting in islice(items, number):
            begin, cause = base + arrives, RAN
            if previous >= 0:
                ready = ends[previous] + gap
                if ready > begin:
                    begin, cause = ready, previous
            elif gap > begin:  # here until when the stream was held
                begin = gap
            if other >= 0:
                ready = ends[other]
                if ready > begin:
                    begin, cause = ready, other
            ends.append(begin + lasting)
            followed.append(cause)
        end = now - ahead + total
        if waited is not None and (position := waited[0]) not in no_wait:
            for item in waited[1]:
                if ends[item] + back > end:
                    end, released[position] = ends[item] + back, item
        last.append(end)
    call_end = np.repeat(np.array(bases, np.int64), np.diff(edges)) + spent
    call_start = call_end - costs.call
    call_end[tails] = last
    work_end = np.array(ends, np.int64)
    work_start = work_end - costs.work
    work_start[:unlaunched] = work.start[:unlaunched]
    returns = np.full(calls.start.size, -1, np.int64)
    returns[list(released)] = list(released.values())
    return Times(call_start, call_end, work_start, work_end, np.array(followed, np.int64), returns)


@dataclass(frozen=True)
class _Stretches:
    """What `by_items` reads of a graph, as Python's own numbers.

    Within a stretch each call follows the one before it, and only the last one waits.
    """

    edges: Ints
    """Where the stretches begin, and the number of calls."""
    stretch: Ints
    """The stretch of each call."""
    recorded: list[int]
    """When the host's time before each stretch began."""
    number: list[int]
    """How many activities each stretch launches."""
    waiting: list[tuple[int, list[int]] | None]
    """The waiting call at the end of each stretch, with what it waited for; None where the last call does not wait."""
    queued: list[int]
    after: list[int]


@latest
def _stretches(graph: Graph) -> _Stretches:
    calls, work = graph.calls, graph.work
    found = np.flatnonzero(_cuts(graph))
    heads, tails, unlaunched = found[:-1], found[1:] - 1, int(graph.first[0])
    waiting = [
        (tail, calls.waited[low:high].tolist()) if waits else None
        for tail, waits, low, high in zip(
            tails.tolist(),
            (calls.kind[tails] == WAIT).tolist(),
            calls.wait_from[tails].tolist(),
            calls.wait_from[tails + 1].tolist(),
            strict=True,
        )
    ]
    return _Stretches(
        found,
        np.repeat(np.arange(heads.size), np.diff(found)),
        (calls.start[heads] - calls.stretch[heads]).tolist(),
        np.diff(graph.first[found]).tolist(),
        waiting,
        work.queued[unlaunched:].tolist(),
        work.after[unlaunched:].tolist(),
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


def blocks(graph: Graph) -> Ints | None:
    """Cuts the calls where something else than the host's own time may decide when the next one begins.

    Within a block each call follows the one before it, and only the last one waits; work that waits for another stream
    stands in a block's first call. So a block's times are running sums and maxima.

    Returns:
        Where the blocks begin, and the number of calls; None for work that does not run in the order of its launches.
    """
    work = graph.work
    order = np.argsort(work.stream, kind="stable")
    before = np.full(work.stream.size, RAN, np.int64)
    same = work.stream[order[1:]] == work.stream[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    launched = work.call >= 0
    if (before[launched] != work.queued[launched]).any():
        return None
    cut = _cuts(graph)
    waits = work.call[(work.after >= 0) & launched]
    cut[waits] = cut[waits + 1] = True
    return np.flatnonzero(cut)


def by_blocks(graph: Graph, costs: Costs, bounds: Ints) -> Times:
    """`walk` block by block."""
    calls, work = graph.calls, graph.work
    call_start, call_end = np.empty_like(calls.start), np.empty_like(calls.start)
    work_start, work_end = work.start.copy(), work.end.copy()
    followed, released = np.full(work.start.size, RAN, np.int64), np.full(calls.start.size, RAN, np.int64)
    many_streams = bool(work.stream.size and work.stream.max() > 0)
    spent = np.cumsum(costs.stretch + costs.call)
    anchor, earliest, lag = anchored(graph, costs)
    edges, first = bounds.tolist(), graph.first[bounds].tolist()
    heads = zip(*(values[bounds[:-1]].tolist() for values in (calls.before, calls.own, costs.stretch)), strict=True)
    waits = (calls.kind[bounds[1:] - 1] == WAIT).tolist()
    for number, (before, own, stretch) in enumerate(heads):
        begin, end = edges[number], edges[number + 1]
        now = (
            int(call_end[before]) + stretch if before >= 0 else int(calls.start[begin] - calls.stretch[begin]) + stretch
        )
        if own >= 0:
            now = max(now, int(call_end[own]))
        ends = spent[begin:end] - (int(spent[begin]) - int(costs.call[begin]) - now)
        call_end[begin:end] = ends
        call_start[begin:end] = ends - costs.call[begin:end]
        items = slice(first[number], first[number + 1])
        if items.stop > items.start:
            arrives = call_start[work.call[items]] + costs.latency_ns
            if begin == anchor:
                arrives = np.maximum(arrives, max(earliest, int(call_start[begin]) + lag))
            for chosen in _by_stream(work.stream[items], items.start) if many_streams else (items,):
                _run(
                    graph,
                    costs,
                    arrives if chosen is items else arrives[chosen - items.start],
                    chosen,
                    work_end,
                    followed,
                )
            work_start[items] = work_end[items] - costs.work[items]
        if waits[number] and end - 1 not in costs.no_wait:
            waited = calls.waited[calls.wait_from[end - 1] : calls.wait_from[end]]
            if waited.size:
                last = int(waited[work_end[waited].argmax()])
                if work_end[last] + graph.return_ns > call_end[end - 1]:
                    call_end[end - 1], released[end - 1] = work_end[last] + graph.return_ns, last
    return Times(call_start, call_end, work_start, work_end, followed, released)


def _by_stream(streams: Ints, offset: int) -> list[Ints]:
    """The positions of a block's work, stream by stream."""
    order = np.argsort(streams, kind="stable")
    return np.split(order + offset, np.flatnonzero(np.diff(streams[order])) + 1)


def _run(graph: Graph, costs: Costs, arrives: Ints, chosen: slice | Ints, work_end: Ints, followed: Ints) -> None:
    """Runs work of one stream in its order: each begins when it has arrived and the one before it is done."""
    work = graph.work
    queued, after, gap, lasting = work.queued[chosen], work.after[chosen], costs.gap[chosen], costs.work[chosen]
    if queued[0] < 0:
        arrives = np.maximum(arrives, np.append(graph.held[work.stream[chosen][0]], arrives[1:]))
    known = after >= 0
    other = np.where(known, work_end[after], arrives)
    ready = np.maximum(arrives, other)
    total = np.cumsum(gap + lasting)
    reach = np.maximum.accumulate(ready + lasting - total)
    before = int(queued[0])
    if before >= 0:
        reach = np.maximum(reach, int(work_end[before]))
    ends = total + reach
    done = np.append(work_end[before] if before >= 0 else LONG_AGO, ends[:-1]) + gap
    work_end[chosen] = ends
    begin = ends - lasting
    followed[chosen] = np.where(
        begin <= arrives, RAN, np.where(known & (other > np.maximum(arrives, done)), after, queued)
    )
