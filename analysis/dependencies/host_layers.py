"""What the host does at each moment: the innermost call of a thread, as a step function; waits for the next batch."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.analysis.attribution.calltree import parents_of
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.dependencies.graph import Graph, launching_threads
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Ints
from tracetui.parsers.nesting import LaneClock, nearest

LOADING = re.compile(
    r"(?<![a-z])(data[ _]?(load(er|ing)?|fetch|wait)|(load(ing)?|next|get|fetch)[ _]?(batch|data))(?![a-z])",
    re.IGNORECASE,
)
"""Names that people give to ranges around ``next(loader)``."""


@kept
def loading_rows(trace: Trace) -> pl.DataFrame:
    """The loader's own events, else ranges named like `LOADING`: rows of `schema.HOST`."""
    rows = trace.host.filter(pl.col("kind") == "dataloader")
    if rows.height:
        return rows
    named = names.matching(trace.host["name"], lambda name: LOADING.search(name) is not None)
    return trace.host.filter(pl.Series(named) & (pl.col("kind") == "annotation"))


@kept
def loading_time(trace: Trace) -> Intervals:
    """When the host waits for the next batch."""
    rows = loading_rows(trace)
    start = rows["start"].to_numpy()
    return intervals.union(start, start + rows["duration"].to_numpy())


LOADER, RANGE = schema.HOST_KINDS.index("dataloader"), schema.HOST_KINDS.index("annotation")
_OUTSIDE = (LOADER, RANGE, schema.HOST_KINDS.index("os"))
"""Kinds of host events that are no calls, and calls that a tracer saw in threads of its own."""


class HostLayers(Struct, frozen=True):
    """The time of several threads, each cut where its innermost call changes: pieces by thread, then by time."""

    thread: Ints
    """Of each piece, as `launching_threads` counts them."""
    time: Ints
    """Where each piece begins; it ends where the thread's next one begins, and the thread's last one is empty."""
    row: Ints
    """Host row of the innermost call in each piece, or -1."""
    kind: NDArray[np.uint8]
    """Of every host row, as in `schema.HOST_KINDS`."""
    loading: Intervals
    """When any thread waits for the next batch."""

    def spent(self, begin: Ints, end: Ints, kind: int) -> Ints:
        """How long a call of this kind is the innermost one within each interval, summed over the threads, ns."""
        if self.time.size < 2:
            return np.zeros(begin.size, np.int64)
        kinds = np.append(self.kind, np.uint8(255))[self.row[:-1]]
        lasting = (kinds == kind) & (self.thread[1:] == self.thread[:-1])
        begun, ended = _Before(self.time[:-1][lasting]), _Before(self.time[1:][lasting])
        found: Ints = (begun.gone(end) - ended.gone(end)) - (begun.gone(begin) - ended.gone(begin))
        return found


class _Before:
    """Adds up how long ago moments were. Sums may wrap around; their differences, which are short, come out right."""

    def __init__(self, moments: Ints) -> None:
        self._moments = np.sort(moments)
        self._sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._moments)))

    def gone(self, when: Ints) -> Ints:
        """For each time, how long ago all moments up to it were, in sum."""
        passed = np.searchsorted(self._moments, when, side="right")
        found: Ints = passed * when - self._sums[passed]
        return found


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
    rows = np.flatnonzero(calls)
    parent = nearest(parents_of(host), calls, parents_of(host)[rows])
    return HostLayers(*_cut(rows, threads[rows], starts[rows], ends[rows], parent), kind, loading_time(sel.trace))


def _cut(rows: Ints, thread: Ints, start: Ints, end: Ints, parent: Ints) -> tuple[Ints, Ints, Ints]:
    """Where a call begins it becomes the innermost; where it ends, the one around it does: thread, time and row."""
    # at one moment inner calls end first, then outer ones, then calls begin: a stable sort leaves them so
    time, value = np.concatenate((end[::-1], start)), np.concatenate((parent[::-1], rows))
    threads = int(thread.max(initial=-1)) + 1
    order = np.argsort(LaneClock(threads, time).key(np.concatenate((thread[::-1], thread)), time), kind="stable")
    return np.repeat(np.arange(threads), 2 * np.bincount(thread, minlength=threads)), time[order], value[order]
