"""What recording itself costs the host: how much of each stretch of host time may be the profiler's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.graph import launching_threads
from tracetui.analysis.dependencies.host_layers import host_layers
from tracetui.parsers import schema

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.selection import Selection

CALL_NS, OPERATOR_NS, PYTHON_NS = 8_000, 4_000, 1_300
"""What recording an API call, an operator or range, and a Python function costs the host, ns: fitted to programs whose
steps were timed without a profiler too (docs/metrics.md has them and their spread)."""
MOST = 1.3
"""The largest factor by which nine of ten of these programs were slowed down more than by these costs."""
MOST_PYTHON_NS = 25_000
"""The most that a Python event can cost: the tracer looks up the line that runs, which takes long in the one long
function that torch.compile generates."""
_COST_OF = {
    "operator": OPERATOR_NS,
    "annotation": OPERATOR_NS,
    "dataloader": OPERATOR_NS,
    "runtime": CALL_NS,
    "driver": CALL_NS,
    "python": PYTHON_NS,
    "module": PYTHON_NS,
}
_PYTHON = ("python", "module")


@dataclass(frozen=True)
class RecordingCost:
    """The profiler's part of each stretch of host time before a call, with the call itself, ns; never more than it."""

    likely: Ints
    most: Ints
    events: dict[str, int]
    """How many host events of each kind were recorded on the threads that launch, within the graph."""


@latest
def recording_cost(sel: Selection, graph: Graph) -> RecordingCost:
    """Counts what was recorded in each stretch, and prices it.

    Where stacks were recorded, at most all the time in which a Python function was the innermost call counts as the
    profiler's.
    """
    calls = graph.calls
    host = sel.trace.host
    threads = launching_threads(host, calls.row)
    begin, end = calls.start - calls.stretch, calls.end
    layers = host_layers(sel, graph)
    start = host["start"].to_numpy()
    likely = np.zeros(calls.row.size)
    sure = np.zeros(calls.row.size)
    counted, python, spent = {}, np.zeros(calls.row.size, np.int64), np.zeros(calls.row.size, np.int64)
    of_interest = threads >= 0
    for kind, cost in _COST_OF.items():
        mine = np.sort(start[of_interest & (layers.kind == schema.HOST_KINDS.index(kind))])
        number = np.searchsorted(mine, end, side="left") - np.searchsorted(mine, begin, side="left")
        likely += number * cost
        counted[kind] = int(number.sum())
        if kind in _PYTHON:
            python += number
            sure += number * cost * MOST
            for thread in range(int(threads.max()) + 1):
                spent += layers.spent(thread, begin, end, schema.HOST_KINDS.index(kind))
        else:
            sure += number * cost * MOST
    whole = calls.stretch + (calls.end - calls.start)
    traced = np.minimum(spent, python * MOST_PYTHON_NS)
    rest = sure - python * PYTHON_NS * MOST
    most = np.maximum(sure, rest + traced)
    return RecordingCost(
        np.minimum(np.rint(likely).astype(np.int64), whole), np.minimum(np.rint(most).astype(np.int64), whole), counted
    )
