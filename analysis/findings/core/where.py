"""Where in the program a finding's GPU work is launched, or where the host's time goes that it would spare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from tracetui.analysis.attribution.place import innermost_units, launching_rows, places
from tracetui.analysis.base import intervals
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.dependencies.critical_path import CALL, HOST, inner_calls, pieces
from tracetui.analysis.dependencies.host_layers import host_layers

if TYPE_CHECKING:
    from tracetui.analysis.attribution.place import Place
    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.finding import Finding


def on_gpu(facts: Facts, rows: Ints) -> list[Place]:
    """The places that launch these device rows, the most GPU time first."""
    from tracetui.analysis.kernels import range_names

    device = facts.trace.device[rows]
    durations = device["duration"] if facts.sel.work_times is None else facts.sel.work_times.duration.gather(rows)
    ranges = range_names(facts.sel, device)
    spent = durations.fill_null(0).to_numpy()
    return places(facts.trace, launching_rows(device), spent, facts.step_count, ranges=ranges, on_gpu=True)


def on_host(facts: Facts, when: Intervals) -> list[Place]:
    """The places in which the host is in these intervals, as far as they lie on the critical path.

    Where none of them does, as of waits, which are the GPU's time there: what the program calls in them, as recorded.
    """
    path = host_path(facts)
    if path is None:
        return []
    inside = intervals.covered(when, path.start, path.end)
    part = np.rint(path.ns * (inside / np.maximum(path.end - path.start, 1))).astype(np.int64)
    chosen = part > 0
    if chosen.any():
        on_path = path.row[chosen], part[chosen]
        return places(facts.trace, *on_path, path.steps, on_gpu=False, when=path.start[chosen])
    host = facts.trace.host
    rows = innermost_units(facts.trace)
    if not rows.size:
        rows = np.flatnonzero(of_kinds(host["kind"], "runtime", "driver"))
    start = host["start"].to_numpy()[rows]
    lasting = intervals.covered(when, start, start + host["duration"].to_numpy()[rows])
    chosen = lasting > 0
    return places(facts.trace, rows[chosen], lasting[chosen], facts.step_count, on_gpu=False)


def of_finding(facts: Facts, finding: Finding) -> tuple[Place, ...]:
    """Where its time goes: the host's that it would spare, or that of its GPU work if that is more."""
    host = on_host(facts, finding.host) if finding.host is not None else []
    gpu = on_gpu(facts, finding.work) if finding.work is not None else []
    return tuple(max(host, gpu, key=lambda of: sum(place.ns for place in of)))


class HostPath(Struct, frozen=True):
    """The host's pieces of the critical path, cut where the innermost call changes."""

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


@kept
def host_path(facts: Facts) -> HostPath | None:
    """The host's part of the critical path of the recording that has names; None without one."""
    model = facts.host_model
    if model is None:
        return None
    graph, walked = model.graph, pieces(model)
    calls, host, call = graph.calls, walked.what == HOST, walked.what == CALL
    at, end = walked.at[host], calls.start[walked.at[host]]
    inner = inner_calls(facts.trace.host, graph, host_layers(facts.sel, graph), at, end - calls.stretch[at], end)
    scale = walked.ns[host] / np.maximum(calls.stretch[at], 1)
    spent = np.rint((inner.stop - inner.start) * scale[inner.owner]).astype(np.int64)
    called = walked.at[call]
    return HostPath(
        np.append(inner.row, calls.row[called]),
        np.append(inner.start, calls.start[called]),
        np.append(inner.stop, calls.end[called]),
        np.append(spent, walked.ns[call]),
        max(len(np.unique(walked.step)), 1),
        int(walked.ns.sum()),
    )
