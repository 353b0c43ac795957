"""What recording itself costs the host: how much of each stretch of host time may be the profiler's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.graph import launching_threads
from tracetui.analysis.dependencies.host_layers import host_layers
from tracetui.parsers import schema

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.selection import Selection

MOST_PYTHON_NS = 25_000
"""The most that a Python event can cost: the tracer looks up the line that runs, which takes long in the one long
function that torch.compile generates."""


CALL, OPERATOR, PYTHON = 17_500, 5_200, 2_600
PRICES = {
    "operator": OPERATOR,
    "annotation": OPERATOR,
    "dataloader": OPERATOR,
    "runtime": CALL,
    "driver": CALL,
    "python": PYTHON,
    "module": PYTHON,
}
"""The most that recording one event costs the host, ns, by kind of host event.

At least nine of ten programs whose steps were timed without a profiler too stayed below (docs/metrics.md has the fit).
"""
_PYTHON = ("python", "module")


class RecordingCost(Struct, frozen=True):
    """The most that is the profiler's of each stretch of host time before a call, with the call itself, ns."""

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
    inside = (threads >= 0) & (start >= begin.min()) & (start < end.max())
    start, kind_of = start[inside], layers.kind[inside]
    size = calls.row.size
    most = np.zeros(size, np.int64)
    counted, python, spent = {}, np.zeros(size, np.int64), np.zeros(size, np.int64)
    for kind, price in PRICES.items():
        mine = np.sort(start[kind_of == schema.HOST_KINDS.index(kind)])
        number = np.searchsorted(mine, end, side="left") - np.searchsorted(mine, begin, side="left")
        counted[kind] = int(number.sum())
        if kind not in _PYTHON:
            most += number * price
            continue
        python += number
        spent += layers.spent(begin, end, schema.HOST_KINDS.index(kind))
    most += np.maximum(python * PYTHON, np.minimum(spent, python * MOST_PYTHON_NS))
    whole = calls.stretch + (calls.end - calls.start)
    return RecordingCost(np.minimum(most, whole), counted)
