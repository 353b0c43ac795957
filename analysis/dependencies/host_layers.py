"""What the host does at each moment: the innermost call of a thread, as a step function of time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.attribution.calltree import parents_of
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.graph import launching_threads
from tracetui.analysis.dependencies.loading import loading_time
from tracetui.parsers import schema
from tracetui.parsers.nesting import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.selection import Selection

LOADER, RANGE = schema.HOST_KINDS.index("dataloader"), schema.HOST_KINDS.index("annotation")
_OUTSIDE = (LOADER, RANGE, schema.HOST_KINDS.index("os"))
"""Kinds of host events that are no calls, and calls that a tracer saw in threads of its own."""


@dataclass(frozen=True)
class Layer:
    """One thread's time, cut where its innermost call changes."""

    time: Ints
    """Where each piece begins; it ends where the next begins."""
    row: Ints
    """Host row of the innermost call in each piece, or -1."""


@dataclass(frozen=True)
class HostLayers:
    """The innermost calls of several threads."""

    layers: tuple[Layer, ...]
    """Per thread, as `Calls.thread` counts them; empty for threads that were not asked for."""
    kind: NDArray[np.uint8]
    """Of every host row, as in `schema.HOST_KINDS`."""
    loading: Intervals
    """When any thread waits for the next batch."""

    def spent(self, thread: int, begin: Ints, end: Ints, kind: int) -> Ints:
        """How long a call of this kind is the innermost one of the thread, within each interval, ns."""
        time, running = self._sums[thread, kind]
        if time.size < 2:
            return np.zeros(begin.size, np.int64)
        found: Ints = _at(time, running, end) - _at(time, running, begin)
        return found

    @cached_property
    def _sums(self) -> _Sums:
        return _Sums(self)


class _Sums(dict[tuple[int, int], tuple["Ints", "Ints"]]):
    """Running sums of each thread's time by kind, made when first asked for."""

    def __init__(self, layers: HostLayers) -> None:
        self._layers = layers

    def __missing__(self, key: tuple[int, int]) -> tuple[Ints, Ints]:
        thread, kind = key
        layer = self._layers.layers[thread]
        kinds = np.append(self._layers.kind, np.uint8(255))[layer.row]
        lasting = np.diff(layer.time, append=layer.time[-1:] if layer.time.size else 0)
        running = np.concatenate(([0], np.cumsum(np.where(kinds == kind, lasting, 0))))
        self[key] = layer.time, running
        return self[key]


def _at(time: Ints, running: Ints, when: Ints) -> Ints:
    """The running sum at any moment: within a piece it grows with time if the piece counts."""
    place = np.searchsorted(time, when, side="right") - 1
    inside = place >= 0
    place = np.maximum(place, 0)
    grown = running[place + 1] - running[place]
    found: Ints = running[place] + np.minimum(np.maximum(when - time[place], 0), grown)
    return np.where(inside, found, 0)


@latest
def host_layers(sel: Selection, graph: Graph) -> HostLayers:
    """Cuts the time of the threads that make the graph's calls, from its first stretch to its last call."""
    host = sel.trace.host
    threads = launching_threads(host, graph.calls.row)
    begin, end = int((graph.calls.start - graph.calls.stretch).min()), int(graph.calls.end.max())
    kind = host["kind"].to_physical().to_numpy()
    starts = host["start"].to_numpy()
    ends = starts + host["duration"].to_numpy()
    calls = (threads >= 0) & (ends > starts) & (ends > begin) & (starts < end) & ~np.isin(kind, _OUTSIDE)
    above = parents_of(host)
    layers = []
    for thread in range(int(threads.max(initial=-1)) + 1):
        rows = np.flatnonzero(calls & (threads == thread))
        layers.append(_cut(rows, starts[rows], ends[rows], nearest(above, calls, above[rows])))
    return HostLayers(tuple(layers), kind, loading_time(sel.trace))


def _cut(rows: Ints, start: Ints, end: Ints, parent: Ints) -> Layer:
    """Where a call begins it becomes the innermost; where it ends, the one around it does."""
    time = np.concatenate((start, end))
    value = np.concatenate((rows, parent))
    ends = np.repeat((1, 0), rows.size)
    depth = np.concatenate((np.arange(rows.size), -np.arange(rows.size)))  # at one moment inner calls end first
    order = np.lexsort((depth, ends, time))
    return Layer(time[order], value[order])
