"""The graph's nodes (calls, GPU work) and edges: program order, hand-over of threads, calls and streams that wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import api_names
from tracetui.analysis.base import names as name_tools
from tracetui.parsers.arrays import Bools, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.selection import Selection


LEAST_ENDS = 3
"""With so many steps the first one is left out: nothing says when the one before it ended."""
NONE = -1


class Calls(Struct, frozen=True):
    """API calls of all threads in order of their start; a call inside another one is part of it."""

    row: Ints
    """Host row."""
    start: Ints
    end: Ints
    thread: Ints
    """Which thread made it, counted from 0."""
    before: Ints
    """The call whose end this one's host work follows, or -1: of its own thread, or of the one that handed over."""
    stretch: Ints
    """Host time from the end of that call to the start of this one, ns."""
    own: Ints
    """Where another thread handed over: the thread's own previous call, or -1."""
    kind: NDArray[np.int8]
    """`waits.FREE`, `waits.WAIT` or `waits.FULL`."""
    wait_from: Ints
    """Per call and one more: its slice of `waited`."""
    waited: Ints
    """Positions in `Work` of what the waiting calls waited for."""


@dataclass(frozen=True)
class Work:
    """GPU activities in order of their launch, those of one launch in order of their start."""

    row: Ints
    """Device row."""
    start: Ints
    end: Ints
    call: Ints
    """Position in `Calls` of the launch, or -1 where the recording doesn't say."""
    queued: Ints
    """The activity before it on its stream, or -1."""
    after: Ints
    """An activity of another stream that it waits for, or -1."""
    step: Ints
    """Row of the selection's steps whose host time holds the launch, or -1."""
    stream: Ints
    """Which stream of which GPU, counted from 0."""


FREE, WAIT, FULL, LOST = 0, 1, 2, 3
"""A call that returns at once; one that returns when the GPU has done what it waits for; a launch that waited for room
in the launch queue; one that waited for long, and nothing recorded says for what."""
RETURN_NS = 4_000
"""From the end of awaited work to the call's return, for recordings without an example."""
CLOCK_SLACK_NS = 1_000
"""By how much work may end after the return of the call that waited for it: the clocks' resolution."""
LONG_CALL_NS = 100_000
"""Calls that are not waits by their name may still wait, for room in the launch queue or for a copy from pageable
memory, if they take longer than this while the GPU works."""
NEARLY_ALL = 0.9
"""A copy whose call lasts for this part of it was made piece by piece, while the call went on."""
QUEUE_DEPTH = 256
"""A launch may wait for room in the queue only while at least so many activities wait to run (CUDA's queue holds about
1,000)."""
HANDED_OVER = 3
"""A thread that made no call while another one made this many did not launch: the other one handed over to it."""
CLOSE_NS = 5_000
"""Work that begins within this time of the end of other work may have waited for it."""


def waits_by_name(calls: pl.Series) -> Bools:
    """Marks calls that wait by their name."""
    return name_tools.matching(calls, api_names.waits)


def program_order(start: Ints, end: Ints, thread: Ints) -> tuple[Ints, Ints, Ints]:
    """Which call each follows, the host time between them, and the thread's own previous call after a hand-over.

    Args:
        start: of the calls, ascending.
        end: of the calls.
        thread: of the calls, counted from 0.
    """
    size = start.size
    own = np.full(size, NONE, np.int64)
    order = np.argsort(thread, kind="stable")
    same = thread[order[1:]] == thread[order[:-1]]
    own[order[1:][same]] = order[:-1][same]
    by_end = np.argsort(end, kind="stable")
    ended = np.searchsorted(end[by_end], start, side="right")  # calls that ended before each began
    latest = np.where(ended > 0, by_end[np.maximum(ended - 1, 0)], NONE)
    latest = np.where(latest < np.arange(size), latest, own)  # a call of no length ended when it began
    own_end = np.where(own >= 0, end[own], np.iinfo(np.int64).min)
    between = ended - np.searchsorted(end[by_end], own_end, side="right")
    handed = (own < 0) | ((between >= HANDED_OVER) & (thread[latest] != thread))
    before = np.where(handed, latest, own)
    stretch = np.where(before >= 0, start - end[before], 0)
    return before, np.maximum(stretch, 0), np.where(handed & (latest != own), own, NONE)


def waiting_calls(
    sel: Selection, rows: Ints, names: pl.Series, start: Ints, end: Ints, thread: Ints, work: Work, first: Ints
) -> tuple[NDArray[np.int8], Ints, Ints, int, Bools]:
    """Which calls waited for the GPU, for which work, and the median time from that work's end to the return.

    A wait for a stream is for the last work launched on it, for an event or the device for the last work of each
    stream: as far as that work had ended when the call returned. A copy, and a fill that is not called Async, waits for
    itself if it had ended by then, or if a long call covers nearly all of it: the driver stages a copy of pageable
    memory piece by piece, and returns a moment before the last piece arrives.

    Returns:
        Kind of each call, slices of the waited work, positions of that work, the time to return, ns, and which calls
        are copies or fills that waited for themselves.
    """
    kind = np.zeros(start.size, np.int8)
    by_name = waits_by_name(names)
    copies = name_tools.matching(names, lambda name: api_names.copies(name) or api_names.fills(name))
    wide = name_tools.matching(names, api_names.waits_for_all)
    by_end = np.argsort(work.end, kind="stable")
    ends = work.end[by_end]
    done = np.searchsorted(ends, end, side="right")
    ended_before = np.searchsorted(ends, start, side="right")
    ended_inside = done > ended_before
    has_work = first[1:] > first[:-1]
    own_end = np.full(start.size, np.iinfo(np.int64).max)
    if work.end.size:
        own_end[has_work] = np.maximum.reduceat(work.end, first[:-1][has_work])
    long = end - start > LONG_CALL_NS
    own_done = has_work & copies & ((own_end <= end) | (long & _covers(start, end, own_end, first, work)))
    kind[by_name | own_done | (long & ~has_work & ended_inside)] = WAIT
    outstanding = first[:-1] - ended_before
    kind[long & has_work & ended_inside & (kind == FREE) & (outstanding >= QUEUE_DEPTH)] = FULL
    stream_of = _told_streams(sel, rows, work)
    by_stream, by_thread = _Last(work.stream), _Last(np.where(work.call >= 0, thread[work.call], NONE))
    wait_from, waited, returns = np.zeros(start.size + 1, np.int64), [], []
    for position in np.flatnonzero(kind == WAIT).tolist():
        begun, returned, launched = int(start[position]), int(end[position]), int(first[position + 1])
        if own_done[position]:
            chosen = list(range(int(first[position]), launched))
        elif wide[position]:
            chosen = by_stream.all_before(launched)
        elif (stream := stream_of.get(int(rows[position]))) is not None:
            chosen = by_stream.before(stream, launched)
        elif ended_inside[position]:
            chosen = [int(by_end[done[position] - 1])]
        else:
            chosen = by_thread.before(int(thread[position]), launched)
        # nothing waits for what was launched later, or still ran when it returned: then the clocks are wrong
        chosen = [
            item
            for item in chosen
            if item < launched and (own_done[position] or work.end[item] <= returned + CLOCK_SLACK_NS)
        ]
        latest = max((int(work.end[item]) for item in chosen), default=0)
        if latest > begun:
            returns.append(max(returned - latest, 0))
        elif returned - begun > LONG_CALL_NS:
            kind[position] = LOST
        waited += chosen
        wait_from[position + 1] = len(chosen)
    wait_from = np.cumsum(wait_from)
    back = int(np.median(returns)) if returns else RETURN_NS
    return kind, wait_from, np.array(waited, np.int64), back, own_done


def staging(start: Ints, end: Ints, own: Bools, first: Ints, work: Work, latency: int, back: int) -> tuple[Ints, Ints]:
    """How long each call copied memory itself, before its work began and after that ended, ns.

    From pageable memory and to it the driver copies through a buffer of its own, piece by piece: before the first piece
    goes to the GPU, and after the last one came. Anything shorter is the way of a launch, or of a return.

    Args:
        start: of the calls.
        end: of the calls.
        own: the calls that wait for their own work.
        first: slices of the calls' work.
        work: the GPU work.
        latency: of a launch, ns.
        back: from the end of awaited work to a call's return, ns.
    """
    before, after = np.zeros(start.size, np.int64), np.zeros(start.size, np.int64)
    calls = np.flatnonzero(own)
    if calls.size:
        head = first[calls]
        slices = np.stack((head, first[calls + 1]), 1).ravel()
        last = np.maximum.reduceat(np.append(work.end, 0), slices)[::2]
        idle = (work.queued[head] < 0) | (work.end[work.queued[head]] <= start[calls])
        ahead, behind = work.start[head] - start[calls], end[calls] - last
        before[calls] = np.where(idle & (ahead > LONG_CALL_NS), ahead - latency, 0)
        after[calls] = np.where(behind > LONG_CALL_NS, behind - back, 0)
    return np.maximum(before, 0), np.maximum(after, 0)


def _covers(start: Ints, end: Ints, own_end: Ints, first: Ints, work: Work) -> Bools:
    """Whether each call lasts for nearly all of the time that its own work takes."""
    has_work = first[1:] > first[:-1]
    own_start = np.where(has_work, work.start[np.minimum(first[:-1], work.start.size - 1)], end)
    shared = np.minimum(end, own_end) - np.maximum(start, own_start)
    covers: Bools = shared >= NEARLY_ALL * (own_end - own_start)
    return covers & has_work


class _Last:
    """Finds the last work of a stream or thread that was launched before some moment."""

    def __init__(self, group: Ints) -> None:
        order = np.argsort(group, kind="stable")
        names, begins = np.unique(group[order], return_index=True)
        self._of = dict(zip(names.tolist(), np.split(order, begins[1:]), strict=True))

    def before(self, group: int, launched: int) -> list[int]:
        """The last work of the group among the first `launched`, or nothing."""
        members = self._of.get(group)
        place = 0 if members is None else int(np.searchsorted(members, launched))
        return [int(members[place - 1])] if members is not None and place else []

    def all_before(self, launched: int) -> list[int]:
        """The last work of every group among the first `launched`."""
        return [item for group in self._of for item in self.before(group, launched)]


def _told_streams(sel: Selection, rows: Ints, work: Work) -> dict[int, int]:
    """The stream that each waiting call waits for, by host row, where the recording has events of synchronisation."""
    device = sel.trace.device
    marks = device.filter(
        (pl.col("kind") == "synchronization") & pl.col("stream").is_not_null() & (pl.col("stream") >= 0)
    )
    if not marks.height or not work.row.size:
        return {}
    numbers = {
        (int(d), int(s)): int(n)
        for d, s, n in zip(
            device["device"].gather(work.row).fill_null(-1).to_list(),
            device["stream"].gather(work.row).fill_null(-1).to_list(),
            work.stream.tolist(),
            strict=True,
        )
    }
    calls = sel.trace.host.select("correlation").with_row_index("row")[rows].drop_nulls()
    joined = marks.select("correlation", "device", "stream").join(calls, on="correlation")
    return {
        int(row): numbers[key]
        for row, d, s in joined.select("row", pl.col("device").fill_null(-1), "stream").iter_rows()
        if (key := (int(d), int(s))) in numbers
    }


def stream_waits(names: pl.Series, start: Ints, thread: Ints, work: Work) -> tuple[Ints, int]:
    """For each activity one of another stream that it waited for, or -1; and how many waits found no source.

    `cudaStreamWaitEvent` says that the next work launched by its thread waits; the recording of the event that it waits
    for is not recorded, so its source is the work of another stream, launched before, that ended last before the
    waiting work began. Where no such call was recorded, work that began right after the end of another stream's work
    counts as waiting for it if nothing else explains when it began.
    """
    after = np.full(work.start.size, NONE, np.int64)
    if not work.start.size or int(work.stream.max()) == 0:
        return after, 0
    by_end = np.argsort(work.end, kind="stable")
    ends = work.end[by_end]
    makes_wait = name_tools.matching(names, api_names.makes_stream_wait)
    marked, unknown = np.zeros(work.start.size, np.bool_), 0
    for position in np.flatnonzero(makes_wait).tolist():
        item = _next_of_thread(position, thread, work)
        if item is None:
            unknown += 1
            continue
        marked[item] = True
    called = np.where(work.call >= 0, start[work.call], work.start)
    previous = np.where(work.queued >= 0, work.end[work.queued], np.iinfo(np.int64).min)
    explained = np.maximum(called + CLOSE_NS, previous)
    last = np.searchsorted(ends, work.start, side="right") - 1
    candidate = np.where(last >= 0, by_end[np.maximum(last, 0)], NONE)
    # what ended last may have been launched later, and only have run beside the start of the work
    other = (candidate >= 0) & (work.stream[candidate] != work.stream) & (work.call[candidate] < work.call)
    close = other & (work.start - work.end[candidate] < CLOSE_NS) & (work.start - explained > CLOSE_NS)
    after[close] = candidate[close]
    for item in np.flatnonzero(marked & ~close).tolist():
        source = _source(item, work, by_end, int(last[item]))
        if source is None:
            unknown += 1
        else:
            after[item] = source
    return after, unknown


def _next_of_thread(position: int, thread: Ints, work: Work) -> int | None:
    """The first activity launched by this call's thread after the call."""
    item = int(np.searchsorted(work.call, position, side="right"))
    for later in range(item, min(item + 64, work.call.size)):
        if thread[work.call[later]] == thread[position]:
            return later
    return None


def _source(item: int, work: Work, by_end: Ints, last: int) -> int | None:
    """The work of another stream, launched before, or before the recording began, that ended last before this began."""
    for place in range(last, max(last - 256, -1), -1):
        other = int(by_end[place])
        if work.stream[other] != work.stream[item] and work.call[other] < work.call[item]:
            return other
    return None
