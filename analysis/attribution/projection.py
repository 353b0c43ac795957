"""Ranges of the host projected on the GPU: which launches a range contains, and when their work ran.

A range contains a launch if the launching API call lies wholly inside it, on the range's own thread (as
`nvtx_gpu_proj_sum` of nsys has it). The launches of a thread are in order, so a range contains a slice of them, and
ranges that overlap without nesting need no special case.

PyTorch's autograd launches a backward pass from a thread of its own, which has no ranges: ``backward_pass`` on the main
thread then contains next to nothing, though its thread waits for that work. Counted by time (`launched_meanwhile`), as
`captures` does, a range holds what any thread of its process launched between its start and its end.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import NONE, lanes_of, row_ids
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.base import intervals
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.links import lookup
from tracetui.parsers.nesting import LaneClock, latest_open, nest

NEVER, EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Projection(Struct, frozen=True):
    """Ranges and what was launched inside them; one entry per range, in the order they were given."""

    begin: Ints
    """Where the range's slice of `work` begins."""
    end: Ints
    """Where it ends."""
    launches: Ints
    """How many launching calls it contains."""
    start_ns: Ints
    """Start of its first work on the device; meaningless where `launches` is 0."""
    end_ns: Ints
    """End of its last work on the device."""
    work: Ints
    """Positions of the device rows that have a launch, in the order of their launches."""


def project(host: pl.DataFrame, ranges: Ints, device: pl.DataFrame) -> Projection:
    """Finds the launches inside each range.

    Args:
        host: the whole host frame (`schema.HOST`).
        ranges: host rows.
        device: the work to look for: ``launch`` (a host row), ``start`` and ``duration``.
    """
    launch = row_ids(device["launch"])
    work = np.flatnonzero(launch >= 0)
    work = work[np.argsort(launch[work], kind="stable")]
    calls, first = np.unique(launch[work], return_index=True)
    start, duration = host["start"].to_numpy(), host["duration"].to_numpy()
    lane = lanes_of(host)
    count = int(lane[-1]) + 1 if lane.size else 0
    range_start, range_end = start[ranges], start[ranges] + duration[ranges]
    call_start, call_end = start[calls], start[calls] + duration[calls]
    clock = LaneClock(count, call_start, call_end, range_start, range_end)

    # A call around another is taken to end where the inner one does: a range of this thread that begins before the
    # outer call cannot end within it.
    ends = np.minimum.accumulate(clock.key(lane[calls], call_end)[::-1])[::-1]
    low = np.searchsorted(clock.key(lane[calls], call_start), clock.key(lane[ranges], range_start), side="left")
    high = np.maximum(np.searchsorted(ends, clock.key(lane[ranges], range_end), side="right"), low)

    device_start = device["start"].fill_null(0).to_numpy()[work]
    device_end = device_start + device["duration"].fill_null(0).to_numpy()[work]
    edges = np.append(first, work.size)
    return Projection(
        begin=edges[low],
        end=edges[high],
        launches=high - low,
        start_ns=over_slices(np.minimum, device_start, edges[low], edges[high], EVER),
        end_ns=over_slices(np.maximum, device_end, edges[low], edges[high], NEVER),
        work=work,
    )


def projected_ns(found: Projection) -> Ints:
    """For each range the time from the start of its first work to the end of its last, 0 without work."""
    filled = found.launches > 0
    return np.where(filled, found.end_ns, 0) - np.where(filled, found.start_ns, 0)


def innermost(host: pl.DataFrame, ranges: Ints, device: pl.DataFrame) -> Ints:
    """The host row of the shortest range around each device row's launch, or -1.

    Args:
        host: the whole host frame (`schema.HOST`).
        ranges: host rows.
        device: ``launch``, ``range``, ``start`` and ``duration`` of each activity (`schema.DEVICE`); ``range`` names
            the innermost nesting range, or another one only where no nesting range is around.
    """
    found = row_ids(device["range"])
    loose = ranges[(host["style"] == "start_end").fill_null(value=False).to_numpy()[ranges]]
    if not loose.size:
        return found
    spent = np.append(host["duration"].to_numpy(), EVER)  # no range, -1, reads the spare entry at the end
    around = project(host, loose, device)
    shortest = np.full(found.size, NONE, np.int64)
    for number in np.argsort(-spent[loose], kind="stable").tolist():  # the shorter ones overwrite the longer ones
        shortest[around.work[around.begin[number] : around.end[number]]] = loose[number]
    return np.where(spent[shortest] < spent[found], shortest, found)


def walk(host: pl.DataFrame, rows: Ints) -> Ints:
    """Host rows by thread, start, then the longer first; a frame has calls and ranges of a thread one after another."""
    lane = lanes_of(host)[rows]
    start, duration = host["start"].to_numpy()[rows], host["duration"].to_numpy()[rows]
    return rows[np.lexsort((-duration, start, lane))]


def over_slices(ufunc: np.ufunc, values: Ints, begin: Ints, end: Ints, nothing: int) -> Ints:
    """`ufunc` reduced over ``values[begin:end]`` of each pair; `nothing` where the slice is empty."""
    found = np.full(begin.size, nothing, np.int64)
    filled = np.flatnonzero(end > begin)
    if filled.size:
        edges = np.column_stack((begin[filled], end[filled])).ravel()
        found[filled] = ufunc.reduceat(np.append(values, nothing), edges)[::2]
    return found


def enclosing(lane: Ints, start: Ints, end: Ints) -> Ints:
    """For each range, the position of the shortest range of its lane that contains all of it, or -1.

    Ranges come ordered by lane, start, then the longer first. They may overlap without nesting.
    """
    count = int(lane[-1]) + 1 if lane.size else 0
    nesting = nest(lane, start, end - start, LaneClock(count, start, end))
    parent = nesting.parent
    if nesting.cut.size:
        parent = parent.copy()
        for torn in np.unique(lane[nesting.cut]).tolist():
            rows = np.flatnonzero(lane == torn)
            parent[rows] = _enclosing_of_torn(rows, start[rows].tolist(), end[rows].tolist())
    return parent


def _enclosing_of_torn(rows: Ints, starts: list[int], ends: list[int]) -> Ints:
    """`enclosing` for one lane whose ranges overlap without nesting."""
    found = np.full(rows.size, NONE, np.int64)
    under_way: list[int] = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        under_way = [other for other in under_way if ends[other] > start]
        around = [other for other in under_way if ends[other] >= end]
        if around:
            found[number] = rows[min(around, key=lambda other: (ends[other] - starts[other], -other))]
        under_way.append(number)
    return found


def launched_meanwhile(sel: Selection, rows: Ints, number: Ints, size: int) -> tuple[Ints, Ints]:
    """GPU time (ns) and number of the kernels, copies, fills and whole graphs launched while ranges of a set were open.

    A launch counts for a set if its call begins while a range of the set is open, and only once however many are open.

    Args:
        sel: the selection whose work is counted.
        rows: host rows of ranges.
        number: the set of each range, from 0.
        size: how many sets there are.
    """
    spent, ops = np.zeros(size, np.int64), np.zeros(size, np.int64)
    work = device_work(sel)
    process, time = _launches(sel, work)
    duration = work["duration"].fill_null(0).to_numpy()
    host = sel.trace.host
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(size + 1))
    of_range = host["process"].fill_null(NONE).to_numpy()[rows]
    start = host["start"].to_numpy()[rows]
    end = start + host["duration"].to_numpy()[rows]
    for one in np.unique(process[process != UNKNOWN]).tolist():
        launched = np.flatnonzero(process == one)
        launched = launched[np.argsort(time[launched], kind="stable")]
        times = time[launched]
        running = np.concatenate(([0], np.cumsum(duration[launched])))
        for at in range(size):
            mine = order[edges[at] : edges[at + 1]]
            mine = mine[of_range[mine] == one]
            if not mine.size:
                continue
            opened, closed = intervals.union(start[mine], end[mine])
            low, high = np.searchsorted(times, opened), np.searchsorted(times, closed)
            spent[at] += int((running[high] - running[low]).sum())
            ops[at] += int((high - low).sum())
    return spent, ops


def in_ranges(sel: Selection, rows: Ints, device: pl.DataFrame) -> Bools:
    """Which device rows were launched while any of these ranges of their process was open."""
    process, time = _launches(sel, device)
    host = sel.trace.host
    of_range = host["process"].fill_null(NONE).to_numpy()[rows]
    start = host["start"].to_numpy()[rows]
    end = start + host["duration"].to_numpy()[rows]
    found = np.zeros(device.height, np.bool_)
    for one in np.unique(of_range).tolist():
        covered = intervals.union(start[of_range == one], end[of_range == one])
        found |= (process == one) & intervals.contains(covered, time)
    return found


def open_elsewhere(sel: Selection, rows: Ints, device: pl.DataFrame) -> Ints:
    """The host row of the range that began last among those open when each device row was launched; -1 for none.

    Of ranges inside each other that is the innermost; of several threads' ranges, the latest.
    """
    process, time = _launches(sel, device)
    host = sel.trace.host
    processes, lane = np.unique(host["process"].fill_null(NONE).to_numpy()[rows], return_inverse=True)
    start, duration = host["start"].to_numpy()[rows], host["duration"].to_numpy()[rows]
    return np.append(rows, NONE)[latest_open(lane, start, duration, lookup(processes, process), time)]


UNKNOWN = np.iinfo(np.int64).min
"""Stands for the process of work whose launch is not known."""


def _launches(sel: Selection, device: pl.DataFrame) -> tuple[Ints, Ints]:
    """Process and time of the call that launched each device row."""
    launch = row_ids(device["launch"])
    host = sel.trace.host
    if not host.height:
        return np.full(launch.size, UNKNOWN), np.zeros(launch.size, np.int64)
    process = np.where(launch >= 0, host["process"].fill_null(NONE).to_numpy()[launch], UNKNOWN)
    return process, host["start"].to_numpy()[launch]
