"""How long each step takes in a replay of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.dependencies.nodes import LEAST_ENDS, NONE

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.costs import Times
    from tracetui.analysis.dependencies.graph import Graph


def recorded_steps(graph: Graph) -> Ints:
    """How long each step took in the recording, as `step_times` measures it, ns."""
    return _between(graph, graph.work.start, graph.work.end)


def step_times(graph: Graph, times: Times) -> Ints:
    """How long each step takes, from the end of the GPU work of the step before to the end of its own, ns.

    The first of one or two steps counts from its own beginning in the recording (`Graph.begin`); of three and more the
    first one is left out. Without steps, all the work is one step.
    """
    return _between(graph, times.work_start, times.work_end)


def _between(graph: Graph, work_start: Ints, work_end: Ints) -> Ints:
    work = graph.work
    step = work.step if graph.steps.height else np.zeros(work.start.size, np.int64)
    known = (step != NONE) & (work.call != NONE)
    if not known.any():
        return np.empty(0, np.int64)
    numbers, place = np.unique(step[known], return_inverse=True)
    ends = np.full(numbers.size, np.iinfo(np.int64).min)
    np.maximum.at(ends, place, work_end[known])
    ends = np.maximum.accumulate(ends)
    taken = np.diff(ends)
    if numbers.size >= LEAST_ENDS:
        return taken
    begin = work_start[known][place == 0].min() if graph.begin is None else graph.begin
    return np.concatenate(([ends[0] - begin], taken))
