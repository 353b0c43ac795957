"""The lanes of a timeline: which events of a trace share a lane, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetui.analysis.attribution.calltree import lanes_of, row_ids
from tracetui.analysis.timeline.rows import NONE, Curve, Row, rows_of
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Bools, Ints

Ids = NDArray[np.uint32]
Mask = Bools

SOURCES = ("steps", "host", "device", "idle", "path", "samples")
"""The source of a lane's events: a frame of the trace, the gaps of its GPUs, the critical path, samples of its GPUs."""

HOST_LANES = {
    "ranges": ("annotation",),
    "modules": ("module",),
    "calls": ("operator", "dataloader", "runtime", "driver", "overhead"),
    "system": ("os",),
    "python": ("python",),
}
"""The lanes of a thread, in order, and the kinds of host events in each."""
_LANES = tuple(HOST_LANES)
_LANE_OF_KIND = np.array(
    [next(place for place, what in enumerate(_LANES) if kind in HOST_LANES[what]) for kind in schema.HOST_KINDS],
    np.uint8,
)
"""The place in `_LANES` of each kind of host events."""
WORK = ("kernel", "memcpy", "memset", "graph")
_COPIES = ("memcpy", "memset")


@dataclass(frozen=True, slots=True)
class Lane:
    """Rows of events that belong together."""

    kind: str
    """``steps``, ``path``, ``idle``, ``samples``, ``gpu ranges``, ``stream``, ``copies``, ``syncs``, or a lane of a
    thread (`HOST_LANES`)."""
    source: str
    """One of `SOURCES`."""
    rows: tuple[Row, ...]
    device: int | None = None
    stream: int | None = None
    process: int | None = None
    thread: int | None = None
    name: str = ""
    """What the trace calls the thread or the stream, if anything; or the graph, where it stands for many streams."""
    usual: str = ""
    """The usual kind of its events; other kinds stand out."""
    rank: int | None = None
    """Whose it is, where lanes of several ranks are shown."""
    curves: tuple[Curve, ...] = ()
    """Of a lane of samples, what each of its rows shows."""

    @property
    def key(self) -> tuple[object, ...]:
        """What distinguishes it from the other lanes of its trace."""
        return self.kind, self.device, self.stream, self.process, self.thread, self.rank, self.name

    @property
    def size(self) -> int:
        """How many events it has."""
        return sum(row.size for row in self.rows)


def lanes(trace: Trace, idle: pl.DataFrame, graphs: pl.Series) -> tuple[Lane, ...]:
    """All lanes that have events: the steps, each GPU with its streams, each thread.

    Args:
        trace: what happened.
        idle: when each whole GPU is idle: device, start, duration.
        graphs: the number of the graph, by device row, of work that is in its lane (`activities.graph_numbers`).
    """
    return tuple(lane for lane in (*_steps(trace), *_gpus(trace, idle, graphs), *_threads(trace)) if lane.rows)


def _times(frame: pl.DataFrame) -> tuple[Ints, Ints, Ids]:
    """Starts, ends and row numbers of events with a known time, by start, the longer first."""
    rows = frame.select("start", "duration").with_row_index("row").filter(pl.col("start").is_not_null())
    if not rows["start"].is_sorted():
        rows = rows.sort("start", maintain_order=True)
    start = rows["start"].to_numpy()
    return start, start + rows["duration"].fill_null(0).to_numpy(), rows["row"].to_numpy()


def _steps(trace: Trace) -> Iterator[Lane]:
    start, end, events = _times(trace.steps)
    yield Lane("steps", "steps", tuple(rows_of(events, start, end)[0]))


def _gpus(trace: Trace, idle: pl.DataFrame, graphs: pl.Series) -> Iterator[Lane]:
    start, end, events = _times(trace.device)
    kind = trace.device["kind"].to_physical().to_numpy()[events]
    device = trace.device["device"].fill_null(NONE).to_numpy()[events]
    stream = trace.device["stream"].fill_null(NONE).to_numpy()[events]
    graph = graphs.gather(events).cast(pl.Int64).fill_null(NONE).to_numpy()
    stream = np.where(graph == NONE, stream, NONE)
    names = {(process, thread): name for process, thread, name in trace.info.threads}

    gap_start, gap_end, gap_rows = _times(idle)
    gaps = _Groups(idle["device"].fill_null(NONE).to_numpy()[gap_rows])
    by_device, by_stream = _Groups(device), _Groups(device, graph, stream)
    streams: dict[int, list[tuple[int, ...]]] = {}
    for key in by_stream.of:
        streams.setdefault(key[0], []).append(key)

    def lane(what: str, rows: Ints, number: int, graph: int = NONE, of: int = NONE) -> Lane:
        # equal starts are in the file's order: the longer event must come first to enclose the others
        chosen = rows[np.lexsort((-end[rows], start[rows]))]
        packed, _ = rows_of(events[chosen], start[chosen], end[chosen])
        called = names.get((number, of), "") if of != NONE else f"graph {graph}" if graph != NONE else ""
        usual = {"stream": "kernel", "copies": "memcpy"}.get(what, "")
        return Lane(what, "device", tuple(packed), _known(number), _known(of), name=called.strip(), usual=usual)

    def among(wanted: tuple[str, ...]) -> Mask:
        return np.isin(kind, np.array([schema.DEVICE_KINDS.index(name) for name in wanted], np.uint8))

    work, marks, copies, syncs = among(WORK), among(("annotation",)), among(_COPIES), among(("synchronization",))
    for (number,), on in by_device.of.items():
        own = gaps.of.get((number,), _NO_ROWS)
        yield Lane("idle", "idle", tuple(rows_of(gap_rows[own], gap_start[own], gap_end[own])[0]), _known(number))
        working = 0
        for key in streams[number]:
            mine = by_stream.of[key]
            if (ranges := mine[marks[mine]]).size:
                yield lane("gpu ranges", ranges, *key)
            if (busy := mine[work[mine]]).size:
                yield lane("stream", busy, *key)
                working += 1
        if working > 1 or not (work[on] & ~copies[on]).any():
            yield lane("copies", on[copies[on]], number)
        yield lane("syncs", on[syncs[on]], number)


class _Groups:
    """The positions that have the same values, ascending, by these values."""

    def __init__(self, *values: Ints) -> None:
        order = np.lexsort(values[::-1])
        ordered = [value[order] for value in values]
        new = np.zeros(order.size, np.bool_)
        new[:1] = True
        for value in ordered:
            new[1:] |= value[1:] != value[:-1]
        first = np.flatnonzero(new)
        edges = [*first.tolist(), order.size]
        known = zip(*(value[first].tolist() for value in ordered), strict=True)
        self.of: dict[tuple[int, ...], Ints] = {
            key: order[low:high] for key, (low, high) in zip(known, pairwise(edges), strict=True)
        }


_NO_ROWS = np.empty(0, np.int64)


def _known(number: int) -> int | None:
    return None if number == NONE else number


def _threads(trace: Trace) -> Iterator[Lane]:
    """The main thread of each process first, then those that launch most, then those with most events."""
    host = trace.host
    if not host.height:
        return
    lane = lanes_of(host)
    begin = np.flatnonzero(np.concatenate(([True], lane[1:] != lane[:-1])))
    end = np.append(begin[1:], lane.size)
    launches = np.zeros(host.height + 1, np.int32)
    launch = row_ids(trace.device["launch"])
    launches[launch[launch != NONE]] = 1
    before = np.cumsum(launches)
    begun = before - launches
    main = (host["process"] == host["thread"]).fill_null(value=False).to_numpy()
    order = np.lexsort((begin - end, begun[begin] - before[end - 1], ~main[begin]))
    process, thread = (host[name].gather(begin).to_list() for name in ("process", "thread"))
    names = {(process, thread): name for process, thread, name in trace.info.threads}
    kind, starts, lasting = host["kind"].to_physical().to_numpy(), host["start"].to_numpy(), host["duration"].to_numpy()
    for number in order.tolist():
        low, high = int(begin[number]), int(end[number])
        own = _LANE_OF_KIND[kind[low:high]]
        for place in np.unique(own).tolist():
            what = _LANES[place]
            rows = np.flatnonzero(own == place) + low
            start = starts[rows]
            # a thread's calls are in order and so are its ranges, but not both together
            if np.any(start[1:] < start[:-1]):
                rows = rows[np.lexsort((-lasting[rows], start))]
                start = starts[rows]
            packed, _ = rows_of(rows.astype(np.uint32), start, start + lasting[rows])
            of = process[number], thread[number]
            counts = np.bincount(kind[rows], minlength=len(schema.HOST_KINDS))
            usual = schema.HOST_KINDS[0 if counts[0] else int(counts.argmax())]  # operators, where there are any
            called = names.get(of, "")
            yield Lane(what, "host", tuple(packed), process=of[0], thread=of[1], name=called, usual=usual)
