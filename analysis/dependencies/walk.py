"""One pass over the graph in order of time: when each call and each piece of GPU work would begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.dependencies.waits import WAIT

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.graph import Graph

WAIT_NS, FULL_NS = 2_000, 5_000
"""What a waiting call, and a launch into a queue that has room, cost the host at most."""
_EVER = np.iinfo(np.int64).max
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


def walk(graph: Graph, costs: Costs) -> Times:
    """Replays the graph.

    A call begins after the host's stretch before it; its work begins when the launch has reached the GPU, the stream is
    free and the work that it waits for is done; a waiting call returns when what it waited for has ended.
    """
    calls, work = graph.calls, graph.work
    call_start, call_end = [0] * calls.start.size, [0] * calls.start.size
    work_start, work_end = work.start.tolist(), work.end.tolist()
    followed, released = [RAN] * len(work_start), [-1] * len(call_start)
    placed = [False] * len(work_start)
    durations, gaps, queued, after = costs.work.tolist(), costs.gap.tolist(), work.queued.tolist(), work.after.tolist()
    first, latency, back = graph.first.tolist(), costs.latency_ns, graph.return_ns
    wait_from, waited = calls.wait_from.tolist(), calls.waited.tolist()
    anchor = first[0]  # the first launch also loads what it runs, so its work begins when it did
    for item in range(anchor):
        placed[item] = True
    rows = zip(
        calls.before.tolist(), costs.stretch.tolist(), calls.own.tolist(), calls.kind.tolist(), costs.call.tolist(),
        calls.start.tolist(), strict=True,
    )  # fmt: skip
    for position, (before, stretch, own, kind, length, recorded) in enumerate(rows):
        now = call_end[before] + stretch if before >= 0 else recorded
        if own >= 0 and call_end[own] > now:
            now = call_end[own]
        call_start[position] = now
        arrives = now + latency
        if first[position] == anchor < first[position + 1]:
            arrives = max(arrives, work_start[anchor])
        for item in range(first[position], first[position + 1]):
            begin, cause = arrives, RAN
            previous = queued[item]
            if previous >= 0 and placed[previous] and work_end[previous] + gaps[item] > begin:
                begin, cause = work_end[previous] + gaps[item], previous
            other = after[item]
            if other >= 0 and placed[other] and work_end[other] > begin:
                begin, cause = work_end[other], other
            work_start[item], work_end[item] = begin, begin + durations[item]
            followed[item], placed[item] = cause, True
        now += length
        if kind == WAIT and position not in costs.no_wait:
            for place in range(wait_from[position], wait_from[position + 1]):
                item = waited[place]
                if placed[item] and work_end[item] + back > now:
                    now, released[position] = work_end[item] + back, item
        call_end[position] = now
    return Times(
        *(np.array(values, np.int64) for values in (call_start, call_end, work_start, work_end, followed, released))
    )
