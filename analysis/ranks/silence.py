"""When the host did something that nothing recorded: what a profiler can't have added to a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.remembered import latest
from tracetui.parsers import schema

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals
    from tracetui.parsers import Trace

LEAST_SILENT_NS = 1_000_000
"""Shorter stretches are what a profiled program has between any two calls."""
LEAST_BLOCKING_NS = 500_000
"""From here on an API call waits rather than works."""
_OPERATOR, _DATALOADER, _RUNTIME, _DRIVER = (
    schema.HOST_KINDS.index(kind) for kind in ("operator", "dataloader", "runtime", "driver")
)
_COLLECTIVES = ("gloo:", "c10d::", "nccl:")
"""How operators are called in which the host itself waits for other ranks."""


@latest
def silent(trace: Trace) -> Intervals:
    """Stretches of over 1 ms in which no operator or API call of any thread begins or ends, from the first step on.

    An operator that encloses everything hides nothing: only its begin and end count. Calls that block, operators of
    collectives, and the wait for the data loader are no silence.
    """
    kind, start, end = _times(trace)
    told = np.isin(kind, (_OPERATOR, _DATALOADER, _RUNTIME, _DRIVER))
    begin = trace.steps["start"].to_numpy()
    ends = begin + trace.steps["duration"].to_numpy()
    # what a step does before its first call is silence, too
    points = np.sort(np.concatenate((start[told], end[told], begin[:1], ends[-1:])))
    if points.size < 2 or not told.any():
        return intervals.empty()
    long = np.flatnonzero(np.diff(points) > LEAST_SILENT_NS)
    quiet = points[long], points[long + 1]
    for known in (blocking(trace), loading(trace)):
        quiet = intervals.subtract(quiet, known)
    kept = quiet[1] - quiet[0] > LEAST_SILENT_NS
    return quiet[0][kept], quiet[1][kept]


@latest
def blocking(trace: Trace) -> Intervals:
    """When a thread was in a call that waits: API calls of at least 0.5 ms, and collectives that the host runs."""
    kind, start, end = _times(trace)
    long = end - start >= LEAST_BLOCKING_NS
    calls = long & np.isin(kind, (_RUNTIME, _DRIVER))
    operators = np.flatnonzero(long & (kind == _OPERATOR))
    waiting = operators[names.matching(trace.host["name"][operators], lambda name: name.startswith(_COLLECTIVES))]
    calls[waiting] = True
    return intervals.union(start[calls], end[calls])


@latest
def loading(trace: Trace) -> Intervals:
    """When a thread waited for the next batch."""
    kind, start, end = _times(trace)
    chosen = kind == _DATALOADER
    return intervals.union(start[chosen], end[chosen])


def _times(trace: Trace) -> tuple[np.ndarray, intervals.Ints, intervals.Ints]:
    """Kind, begin and end of each host event."""
    start = trace.host["start"].to_numpy()
    return trace.host["kind"].to_physical().to_numpy(), start, start + trace.host["duration"].to_numpy()
