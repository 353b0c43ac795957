"""The host's part of the critical path, by the innermost call."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.analysis.attribution.calltree import lanes_of
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.critical_path import CALL, host_time, pieces
from tracetui.analysis.dependencies.model import Model
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Ints
from tracetui.parsers.nesting import LaneClock, nest


class HostPath(Struct, frozen=True, eq=False, weakref=True):
    """The host's pieces of the critical path, cut where the innermost call changes, by their start."""

    row: Ints
    """Of the innermost call, or -1."""
    start: Ints
    """In the recording."""
    end: Ints
    ns: Ints
    """How long each takes in the replay."""
    steps: int
    total_ns: int
    """The whole path, the GPU's pieces included."""


@latest
def host_path(sel: Selection, model: Model) -> HostPath:
    """The host's part of the critical path of the recording that has names."""
    graph, walked = model.graph, pieces(model)
    inner, spent = host_time(sel, model)
    calls, call = graph.calls, walked.what == CALL
    called = walked.at[call]
    start = np.append(inner.start, calls.start[called])
    order = np.argsort(start, kind="stable")
    return HostPath(
        np.append(inner.row, calls.row[called])[order],
        start[order],
        np.append(inner.stop, calls.end[called])[order],
        np.append(spent, walked.ns[call])[order],
        max(len(np.unique(walked.step)), 1),
        int(walked.ns.sum()),
    )


def without_gpu(sel: Selection, lane: int, scale: float) -> HostPath:
    """The same of steps without GPU work: all that one thread does in them, in calls.

    Args:
        sel: the steps.
        lane: the thread that runs the program, as of `calltree.lanes_of`.
        scale: from the recorded step to the one that is told.
    """
    host, steps = sel.trace.host, sel.steps
    begin, last = steps["start"].to_numpy(), (steps["start"] + steps["duration"]).to_numpy()
    rows = np.flatnonzero((lanes_of(host) == lane) & ~of_kinds(host["kind"], "annotation", "dataloader"))
    start = host["start"].to_numpy()[rows]
    end = start + host["duration"].to_numpy()[rows]
    calls = nest(np.zeros(rows.size, np.int64), start, end - start, LaneClock(1, start, end))
    cuts = np.unique(np.concatenate((start, end, begin, last)))
    at = calls.innermost_at(np.zeros(cuts.size - 1, np.int64), (cuts[:-1] + cuts[1:]) // 2)
    step = np.searchsorted(begin, cuts[:-1], side="right") - 1
    inside = (at >= 0) & (step >= 0) & (cuts[:-1] < last[step])
    ns = np.rint((cuts[1:] - cuts[:-1])[inside] * scale).astype(np.int64)
    return HostPath(rows[at[inside]], cuts[:-1][inside], cuts[1:][inside], ns, steps.height, int(ns.sum()))
