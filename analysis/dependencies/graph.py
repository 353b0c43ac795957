"""The dependency graph of a recording: API calls and GPU work, and what each had to wait for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import lanes_of, numbered_by, parents_of, row_ids
from tracetui.analysis.attribution.launch_calls import STREAM, of_nobody
from tracetui.analysis.base.api_names import runtime
from tracetui.analysis.base.names import matching
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies import waits
from tracetui.analysis.dependencies.waits import FULL, LEAST_ENDS, NONE, Calls, Work
from tracetui.analysis.gpu.activities import WORK
from tracetui.analysis.gpu.idle import KERNEL_WAIT_LIMIT_NS
from tracetui.analysis.gpu.step_kinds import typical_steps
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.selection import Selection, select
from tracetui.parsers import schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import nearest

LAUNCH_LATENCY_NS, QUEUE_GAP_NS = 8_000, 1_000
"""Used where a recording has no example: from a launch to its work, and between two kernels of a stream."""
MOST_WORK, LEAST_STEPS = 100_000, 3
"""Of a long recording, as many steps from its middle are replayed as hold so much GPU work, but at least three: medians
need no more."""
LATENCY_QUANTILE = 0.25
LEAST_LAUNCHES = 3
"""The first launch of a kernel or graph also loads it; short recordings have little else."""
LAUNCHED_BEFORE_NS = 10_000
"""Work counts as launched long before if its call had returned this long before the work before it ended."""
_API = [schema.HOST_KINDS.index(kind) for kind in ("runtime", "driver")]
_LATEST = np.iinfo(np.int64).max
_DEVICE = [schema.DEVICE_KINDS.index(kind) for kind in WORK]


@dataclass(frozen=True, eq=False)
class Graph:
    """Calls, work, and the three latencies that hold for the whole recording."""

    calls: Calls
    work: Work
    first: Ints
    """Per call and one more: its slice of `work`."""
    latency_ns: int
    """From the start of a launch call to the start of its work on an idle GPU: the lower quartile."""
    gap_ns: int
    """Between two activities of a stream when the later one was launched long before: the mean of the short ones."""
    inner_gap_ns: int
    """The same between two activities of one launch, as of a CUDA graph."""
    return_ns: int
    """From the end of the work that a call waited for to the call's return: the median."""
    steps: pl.DataFrame
    """The steps (`schema.STEPS`); empty where the whole selection counts as one."""
    unknown_waits: int
    """Waits of one stream for another whose source could not be found."""
    held: Ints
    """Per stream: until when work from before the graph kept it busy, at which its first activity can begin."""
    begin: int | None = None
    """When the first of one or two steps begins; None for more steps, and where all of the work is one step."""
    typical: Bools | None = None
    """Which of the steps are typical, of which alone medians and means are; None where all are alike."""


def knows_waits(launching: pl.Series) -> bool:
    """Whether it is known which calls wait, by the names of those that launch: of CUDA's and HIP's it is.

    What another runtime's calls wait for would count as work of the host.
    """
    return runtime(launching.unique().cast(pl.String)) in ("CUDA", "HIP")


@latest
def graph(sel: Selection) -> Graph | None:
    """Builds the graph of a selection's steps, or of all its GPU work if it has none.

    Program order holds per thread; where a thread begins to launch after another one did all the calls for a while
    (forward and backward of autograd), the other one handed over. A stream runs its work in order. A wait of one stream
    for another comes from `cudaStreamWaitEvent`, else from what ended just before work that nothing else delayed.
    Calls that wait name the work that they waited for (`waits`).

    Returns:
        None for a recording without a time line, without launches of GPU work, or of a runtime other than CUDA and HIP.
    """
    if not sel.trace.has_timeline:
        return None
    sel = _from_the_middle(sel)
    found = _work(sel)
    if found is None:
        return None
    host, device, launch = found
    if not knows_waits(host["name"].gather(np.unique(launch[launch >= 0]))):
        return None
    outer = _outer_calls(sel, host, launch)
    if not outer.size:
        return None
    calls_start = host["start"].to_numpy()[outer]
    calls_end = calls_start + host["duration"].to_numpy()[outer]
    order = np.lexsort((-calls_end, calls_start))
    outer, calls_start, calls_end = outer[order], calls_start[order], calls_end[order]
    place = np.full(host.height + 1, NONE, np.int64)
    place[outer] = np.arange(outer.size)
    call = place[_outermost(host, launch)]
    work = _ordered(device, call, sel)
    first = np.searchsorted(work.call, np.arange(outer.size + 1), side="left")
    thread = lanes_of(host)[outer]
    before, stretch, own = waits.program_order(calls_start, calls_end, thread)
    begin = _begin(sel, work)
    if begin is not None:
        # the host's time before the first call, such as a wait for data, is the step's
        stretch = np.where(before == NONE, np.maximum(calls_start - begin, 0), stretch)
    names = host["name"].gather(outer)
    kind, wait_from, waited, returns, own_work = waits.waiting_calls(
        sel, outer, names, calls_start, calls_end, thread, work, first
    )
    after, unknown = waits.stream_waits(names, calls_start, thread, work)
    work = replace(work, after=after)
    latency, gap, inner = _latencies(calls_start, calls_end, work)
    prepared = _prepared(names, calls_start, calls_end, kind == FULL, first, work, latency)
    calls_start, stretch = calls_start + prepared, stretch + prepared
    copied_before, copied_after = waits.staging(calls_start, calls_end, own_work, first, work, latency, returns)
    calls_start, calls_end = calls_start + copied_before, calls_end - copied_after
    stretch = stretch + copied_before + np.where(before >= 0, copied_after[before], 0)
    return Graph(
        Calls(outer, calls_start, calls_end, thread, before, stretch, own, kind, wait_from, waited),
        work,
        first,
        latency,
        gap,
        inner,
        returns,
        sel.steps,
        unknown,
        _held(sel, work),
        begin,
        typical_steps(sel),
    )


def _begin(sel: Selection, work: Work) -> int | None:
    """When the first of one or two steps begins (`step_slots`), at the latest with its own work.

    Of more steps the first one does not count. Of two it is half of their median: what the host did before its first
    launch, such as waiting for data, is part of it.
    """
    if not 0 < sel.steps.height < LEAST_ENDS:
        return None
    own = work.start[(work.step != NONE) & (work.call != NONE)]
    return int(min(step_slots(sel).start[0], own.min())) if own.size else None


def _from_the_middle(sel: Selection) -> Selection:
    """The selection, or of a long one as many steps around its middle as are replayed."""
    steps = sel.steps.height
    step = row_ids(sel.trace.device["step"])
    work = int((step >= 0).sum())
    if steps <= LEAST_STEPS or work * steps <= MOST_WORK * max(sel.trace.steps.height, 1):
        return sel
    kept = max(LEAST_STEPS, steps * MOST_WORK // max(work, 1))
    begin = (steps - min(kept, steps)) // 2
    index = sel.steps["index"][begin : begin + kept]
    return select(sel.trace, replace(sel.scope, steps=(int(index[0]), int(index[-1])), skip_steps=0))


def _work(sel: Selection) -> tuple[pl.DataFrame, pl.DataFrame, Ints] | None:
    """The host frame, the device rows of the graph and the launch of each; None if nothing was launched."""
    device = sel.device
    kind = device["kind"].to_physical().to_numpy()
    device = device.filter(pl.Series(np.isin(kind, _DEVICE)) & pl.col("start").is_not_null())
    if (strangers := of_nobody(sel.trace).filter("stranger")).height:  # another program's, on streams of its own
        device = device.filter(~pl.col("row").is_in(strangers["row"].implode()))
    if sel.steps.height:  # with work without a launch that ran before the last of them ended
        device = device.filter(pl.col("step").is_in(_chosen_steps(sel).implode()))
    launch = row_ids(device["launch"])
    return (sel.trace.host, device, launch) if (launch >= 0).any() else None


def _chosen_steps(sel: Selection) -> pl.Series:
    """The rows of the selection's steps among those of the trace."""
    return sel.trace.steps.with_row_index("row").join(sel.steps, on="start", how="semi")["row"]


def _outer_calls(sel: Selection, host: pl.DataFrame, launch: Ints) -> Ints:
    """The outermost API calls from the first step's start to the last launch or step's end."""
    api = np.isin(host["kind"].to_physical().to_numpy(), _API)
    parent = parents_of(host)
    outer = api & ~((parent >= 0) & api[parent])
    start = host["start"].to_numpy()
    if sel.steps.height:
        low = int(sel.steps["start"][0])
        high = int((sel.steps["start"] + sel.steps["duration"]).to_numpy().max())
        outer &= (start >= low) & (start <= high)
    else:
        launched = start[launch[launch >= 0]]
        low = int(launched.min())
        outer &= start >= low
    threads = lanes_of(host)
    busy = np.zeros(int(threads.max(initial=0)) + 1, np.bool_)
    busy[threads[_outermost(host, launch[launch >= 0])]] = True
    rows: Ints = np.flatnonzero(outer)
    names = host["name"].gather(rows)
    chosen = busy[threads[rows]] | waits.waits_by_name(names)
    return rows[chosen]


def _outermost(host: pl.DataFrame, rows: Ints) -> Ints:
    """For each API call the outermost API call around it; -1 stays."""
    api = np.append(np.isin(host["kind"].to_physical().to_numpy(), _API), False)
    parent = np.append(parents_of(host), NONE)
    return nearest(parent, ~api[parent], rows)


def launching_threads(host: pl.DataFrame, calls: Ints) -> Ints:
    """The thread of every host row, counted from 0 over those that make these calls; -1 for the others."""
    threads = lanes_of(host)
    known = np.unique(threads[calls])
    numbers = np.full(int(threads.max(initial=0)) + 1, NONE, np.int64)
    numbers[known] = np.arange(known.size)
    numbered: Ints = numbers[threads]
    return numbered


def _ordered(device: pl.DataFrame, call: Ints, sel: Selection) -> Work:
    """The work in order of launch, with what ran before each on its stream."""
    start = device["start"].to_numpy()
    end = start + device["duration"].fill_null(0).to_numpy()
    streams = numbered_by(device, STREAM)
    step = np.full(device.height, NONE, np.int64)
    if sel.steps.height:
        rows = _chosen_steps(sel).to_numpy()
        place = np.full(sel.trace.steps.height + 1, NONE, np.int64)
        place[rows] = np.arange(rows.size)
        step = place[row_ids(device["step"])]
    order = np.lexsort((start, call))
    start, end, streams, step, call = start[order], end[order], streams[order], step[order], call[order]
    queued = np.full(start.size, NONE, np.int64)
    by_stream = np.lexsort((end, start, streams))
    same = streams[by_stream[1:]] == streams[by_stream[:-1]]
    queued[by_stream[1:][same]] = by_stream[:-1][same]
    queued = np.where(queued < np.arange(start.size), queued, NONE)  # what was launched later can't be waited for
    row = device["row"].to_numpy()[order].astype(np.int64)
    return Work(row, start, end, call, queued, np.full(start.size, NONE, np.int64), step, streams)


def _held(sel: Selection, work: Work) -> Ints:
    """Until when each stream ran activities that are not in the graph, before the first one that is."""
    held = np.full(int(work.stream.max(initial=-1)) + 1, np.iinfo(np.int64).min // 4, np.int64)
    device = sel.trace.device
    start = device["start"].fill_null(_LATEST).to_numpy()
    begun = np.full(held.size, _LATEST)
    np.minimum.at(begun, work.stream, start[work.row])
    earlier = start < begun.max(initial=0)
    earlier &= np.isin(device["kind"].to_physical().to_numpy(), _DEVICE)
    earlier[work.row] = False
    rows = np.flatnonzero(earlier)
    # the streams have the numbers of the graph's work, which is numbered with the rest
    number = numbered_by(device.select(STREAM)[np.concatenate((work.row, rows))], STREAM)
    of_graph = np.full(int(number.max(initial=-1)) + 1, NONE, np.int64)
    of_graph[number[: work.row.size]] = work.stream
    stream = of_graph[number[work.row.size :]]
    before = (stream != NONE) & (start[rows] < begun[stream])
    rows, stream = rows[before], stream[before]
    np.maximum.at(held, stream, start[rows] + device["duration"].gather(rows).fill_null(0).to_numpy())
    return held


def _prepared(names: pl.Series, start: Ints, end: Ints, full: Bools, first: Ints, work: Work, latency: int) -> Ints:
    """How long each call that launches a graph prepares it on the host: the GPU gets the graph at the end of the call.

    At most until its work was on its way, and none of a call that waits for room in the queue.
    """
    launches = (first[1:] > first[:-1]) & ~full & matching(names, lambda name: "GraphLaunch" in name)
    begun = work.start[np.minimum(first[:-1], max(work.start.size - 1, 0))] if work.start.size else start
    return np.where(launches, np.clip(begun - start - latency, 0, end - start), 0)


def _latencies(calls_start: Ints, calls_end: Ints, work: Work) -> tuple[int, int, int]:
    """The launch latency of work that found its stream idle, and the mean gaps between and within launches.

    Means, since the gaps of a step add up: within a CUDA graph a few are several times the median. Gaps from
    `KERNEL_WAIT_LIMIT_NS` on are no start-up of a kernel. Work that waited for another stream tells no gap: that wait
    is an edge of its own.
    """
    launched = work.call >= 0
    called = calls_start[work.call]
    returned = calls_end[work.call]
    previous = np.where(work.queued >= 0, work.end[work.queued], np.iinfo(np.int64).min // 2)
    first_of_launch = np.append(True, work.call[1:] != work.call[:-1])
    idle = launched & (previous < called) & first_of_launch & (work.after < 0)
    inner = launched & (work.queued >= 0) & (work.call[work.queued] == work.call)
    inner &= work.after < 0
    queued = launched & (work.queued >= 0) & (previous > returned + LAUNCHED_BEFORE_NS) & ~inner & (work.after < 0)
    seen = (work.start - called)[idle]
    latency = np.quantile(seen, LATENCY_QUANTILE) if seen.size >= LEAST_LAUNCHES else LAUNCH_LATENCY_NS
    gaps = work.start - previous
    gap = _mean_of_short(gaps[queued], QUEUE_GAP_NS)
    return max(int(latency), 0), gap, _mean_of_short(gaps[inner], gap)


def longest_delay(graph: Graph) -> tuple[int, int]:
    """The activity that began longest after all that the graph has it wait for: by how many ns, and its device row.

    Something that was not recorded held it up: a wait for another stream whose source is not known, another process.
    """
    work = graph.work
    ready = np.where(work.queued >= 0, work.end[work.queued] + graph.gap_ns, graph.held[work.stream])
    ready = np.maximum(ready, graph.calls.start[work.call] + graph.latency_ns)
    ready = np.maximum(ready, np.where(work.after >= 0, work.end[work.after], ready))
    late = np.where(work.call >= 0, work.start - ready, 0)
    most = int(late.argmax())
    return max(int(late[most]), 0), int(work.row[most])


def _mean_of_short(gaps: Ints, without: int) -> int:
    """The mean of the gaps that the start of a kernel explains; if all are longer, their median."""
    if not gaps.size:
        return without
    short = gaps[gaps < KERNEL_WAIT_LIMIT_NS]
    return max(int(short.mean() if short.size else np.median(gaps)), 0)
