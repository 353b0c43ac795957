"""One pass over the graph in order of time: when each call and each piece of GPU work would begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.waits import WAIT

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.graph import Graph

WAIT_NS, FULL_NS = 2_000, 5_000
"""What a waiting call, and a launch into a queue that has room, cost the host at most."""
LEAST_CALLS = 40
"""With so many calls to each stream of a block on the mean, running sums are faster than one call after the other."""
_EVER, _LONG_AGO = np.iinfo(np.int64).max, np.iinfo(np.int64).min // 4
RAN = -1
"""The work's launch decided when it began; otherwise the position of the work that it followed."""


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


_LATEST = 1 << 62
"""ns: later than any clock shows."""


def walk(graph: Graph, costs: Costs) -> Times:
    """Replays the graph.

    A call begins after the host's stretch before it; its work begins when the launch has reached the GPU, the stream is
    free and the work that it waits for is done; a waiting call returns when what it waited for has ended.
    """
    found = blocks(graph)
    if found is not None and _runs(graph, found) < graph.calls.start.size / LEAST_CALLS:
        return by_blocks(graph, costs, found)
    return one_by_one(graph, costs)


def _runs(graph: Graph, found: Ints) -> int:
    """How many pieces the fast form takes one after the other: blocks, and their streams where there are several."""
    blocks, streams = found.size - 1, int(graph.work.stream.max(initial=0)) + 1
    if streams == 1 or blocks >= graph.calls.start.size / LEAST_CALLS:
        return blocks
    block = np.searchsorted(found, graph.work.call, side="right")
    return max(blocks, int(np.unique(block * streams + graph.work.stream).size))


def one_by_one(graph: Graph, costs: Costs) -> Times:
    """`walk` call by call."""
    calls = graph.calls
    call_start, call_end = [0] * calls.start.size, [0] * calls.start.size
    plain = _lists(graph)
    work_start, work_end = plain.start.copy(), plain.end.copy()
    followed, released = [RAN] * len(work_start), [-1] * len(call_start)
    durations, gaps, queued, after = costs.work.tolist(), costs.gap.tolist(), plain.queued, plain.after
    first, latency, back = plain.first, costs.latency_ns, graph.return_ns
    wait_from, waited = plain.wait_from, plain.waited
    anchor, earliest, lag = anchored(graph, costs)
    held, stream = plain.held, plain.stream
    rows = zip(
        plain.before,
        costs.stretch.tolist(),
        plain.own,
        plain.kind,
        costs.call.tolist(),
        plain.recorded,
        first,
        first[1:],
        strict=False,  # the last entry of `first` is the end of the work
    )
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


@dataclass(frozen=True)
class _Lists:
    """What `one_by_one` reads of a graph, as Python's own numbers."""

    start: list[int]
    end: list[int]
    queued: list[int]
    after: list[int]
    first: list[int]
    wait_from: list[int]
    waited: list[int]
    before: list[int]
    own: list[int]
    kind: list[int]
    recorded: list[int]
    stream: list[int]
    held: list[int]


@latest
def _lists(graph: Graph) -> _Lists:
    """A graph is replayed at several costs; only the last one's lists are kept."""
    calls, work = graph.calls, graph.work
    return _Lists(
        start=work.start.tolist(),
        end=work.end.tolist(),
        queued=work.queued.tolist(),
        after=work.after.tolist(),
        first=graph.first.tolist(),
        wait_from=calls.wait_from.tolist(),
        waited=calls.waited.tolist(),
        before=calls.before.tolist(),
        own=calls.own.tolist(),
        kind=calls.kind.tolist(),
        recorded=(calls.start - calls.stretch).tolist(),
        stream=work.stream.tolist(),
        held=graph.held.tolist(),
    )


def _anchor(graph: Graph) -> int:
    """The first launching call, or -1: it also loads what it runs."""
    item = int(graph.first[0])
    return int(graph.work.call[item]) if item < graph.work.call.size else -1


def anchored(graph: Graph, costs: Costs) -> tuple[int, int, int]:
    """The first launching call, when its work begins at the earliest, and how long after the call.

    It is taken as it was. Where a step begins with its host, that is as long after the call as in the recording: what
    the host did before it may take less. What the call itself takes less comes off too.
    """
    anchor = _anchor(graph)
    if anchor < 0:
        return anchor, _LONG_AGO, 0
    began, called = int(graph.work.start[graph.first[0]]), int(graph.calls.start[anchor])
    if graph.begin is None:
        return anchor, began, 0
    lasted = min(int(graph.calls.end[anchor]) - called, (_EVER, WAIT_NS, FULL_NS, _EVER)[graph.calls.kind[anchor]])
    spared = lasted - int(costs.call[anchor])
    return anchor, _LONG_AGO, max(began - called - max(spared, 0), min(began - called, costs.latency_ns))


def blocks(graph: Graph) -> Ints | None:
    """Cuts the calls where something else than the host's own time may decide when the next one begins.

    Within a block each call follows the one before it, and only the last one waits; work that waits for another stream
    stands in a block's first call. So a block's times are running sums and maxima.

    Returns:
        Where the blocks begin, and the number of calls; None for work that does not run in the order of its launches.
    """
    calls, work = graph.calls, graph.work
    size = calls.start.size
    order = np.argsort(work.stream, kind="stable")
    before = np.full(work.stream.size, RAN, np.int64)
    same = work.stream[order[1:]] == work.stream[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    launched = work.call >= 0
    if (before[launched] != work.queued[launched]).any():
        return None
    cut = np.zeros(size + 1, np.bool_)
    cut[0] = cut[size] = True
    cut[1:size] |= calls.before[1:] != np.arange(size - 1)
    cut[:size] |= calls.own >= 0
    cut[1 : size + 1] |= calls.kind == WAIT
    waits = work.call[(work.after >= 0) & launched]
    cut[waits] = cut[waits + 1] = True
    anchor = _anchor(graph)
    cut[anchor] = cut[anchor + 1] = True
    return np.flatnonzero(cut)


def by_blocks(graph: Graph, costs: Costs, found: Ints) -> Times:
    """`walk` block by block."""
    calls, work = graph.calls, graph.work
    call_start, call_end = np.empty_like(calls.start), np.empty_like(calls.start)
    work_start, work_end = work.start.copy(), work.end.copy()
    followed, released = np.full(work.start.size, RAN, np.int64), np.full(calls.start.size, RAN, np.int64)
    many_streams = bool(work.stream.size and work.stream.max() > 0)
    spent = np.cumsum(costs.stretch + costs.call)
    anchor, earliest, lag = anchored(graph, costs)
    edges, first = found.tolist(), graph.first[found].tolist()
    heads = zip(*(values[found[:-1]].tolist() for values in (calls.before, calls.own, costs.stretch)), strict=True)
    waits = (calls.kind[found[1:] - 1] == WAIT).tolist()
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
    done = np.append(work_end[before] if before >= 0 else _LONG_AGO, ends[:-1]) + gap
    work_end[chosen] = ends
    begin = ends - lasting
    followed[chosen] = np.where(
        begin <= arrives, RAN, np.where(known & (other > np.maximum(arrives, done)), after, queued)
    )
