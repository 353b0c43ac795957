"""The host's part of the critical path, by the innermost call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.critical_path import CALL, HOST, inner_calls, pieces
from tracetui.analysis.dependencies.host_layers import host_layers

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.model import Model
    from tracetui.analysis.selection import Selection


class HostPath(Struct, frozen=True, eq=False, weakref=True):
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


@latest
def host_path(sel: Selection, model: Model) -> HostPath:
    """The host's part of the critical path of the recording that has names."""
    graph, walked = model.graph, pieces(model)
    calls, host, call = graph.calls, walked.what == HOST, walked.what == CALL
    at, end = walked.at[host], calls.start[walked.at[host]]
    inner = inner_calls(sel.trace.host, graph, host_layers(sel, graph), at, end - calls.stretch[at], end)
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
