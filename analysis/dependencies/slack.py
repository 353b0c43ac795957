"""Slack: how much longer each piece of GPU work could take before any step of the replay gets longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.costs import anchored
from tracetui.analysis.dependencies.waits import NONE, WAIT

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.costs import Costs, Times
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.dependencies.model import Model

UNKNOWN = -1
"""The slack of work that no step launched."""
_NEVER = 1 << 62


@latest
def slack(model: Model) -> dict[int, int]:
    """The slack of the replayed GPU work by device row, ns, at the model's first end; work of no step is left out."""
    graph, end = model.graph, model.ends[0]
    found = slacks(graph, end.costs, end.times)
    known = np.flatnonzero(found != UNKNOWN)
    return dict(zip(graph.work.row[known].tolist(), found[known].tolist(), strict=True))


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
    found = np.array(latest_end, np.int64) - times.work_end
    # what no step waits for could take for ever; of what was launched by none, nothing is known
    return np.where(counted < _NEVER, found, UNKNOWN)


def _deadlines(graph: Graph, times: Times) -> Ints:
    """For each piece of work the end of its step in the replay, as `steps.step_times` counts it."""
    work = graph.work
    step = work.step if graph.steps.height else np.zeros(work.start.size, np.int64)
    known = (step != NONE) & (work.call != NONE)
    found = np.full(work.start.size, _NEVER, np.int64)
    if known.any():
        numbers, place = np.unique(step[known], return_inverse=True)
        ends = np.full(numbers.size, np.iinfo(np.int64).min)
        np.maximum.at(ends, place, times.work_end[known])
        found[known] = np.maximum.accumulate(ends)[place]
    return found
