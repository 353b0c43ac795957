"""From columns to a Trace: sort, nest, link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.parsers import categories, links, schema
from tracetui.parsers.categories import NULL_CODE
from tracetui.parsers.frame_columns import frame
from tracetui.parsers.nesting import NONE, LaneClock, nearest, order, tightest
from tracetui.parsers.nsys import compact, steps, tables
from tracetui.parsers.nsys.compact import NULL, is_null
from tracetui.parsers.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.parsers.nesting import Ints, Nesting
    from tracetui.parsers.nsys.compact import Columns
    from tracetui.parsers.nsys.metadata import Metadata
    from tracetui.parsers.nsys.tables import Shared
    from tracetui.parsers.tally import Tally
    from tracetui.parsers.trace import Source, TraceInfo

LANES = 3
CALLS, PUSH_POP, START_END = range(LANES)
"""Lanes of a thread: its calls, its ranges that nest, its ranges that may overlap."""
PUSH_POP_STYLE = tables.STYLES["push_pop"]
_EMPTY: dict[str, dict[str, np.dtype[Any]]] = {
    "host": {
        "kind": np.dtype(np.uint8), "start": np.dtype(np.int64), "duration": np.dtype(np.int64),
        "thread": np.dtype(np.int32), "name": np.dtype(np.uint32), "correlation": np.dtype(np.int32),
        "style": np.dtype(np.uint8), "domain": np.dtype(np.uint32),
    },
    "device": {
        "kind": np.dtype(np.uint8), "start": np.dtype(np.int64), "duration": np.dtype(np.int64),
        "process": np.dtype(np.int32), "device": np.dtype(np.int32), "name": np.dtype(np.uint32),
        "correlation": np.dtype(np.int32),
    },
}  # fmt: skip
"""The columns that linking needs, whatever the file has."""


def joined(group: str, parts: list[Columns]) -> Columns:
    """A group's parts as one, with every column that linking needs."""
    for part in parts:
        size = part["start"].size
        if group == "host":
            part.setdefault("style", np.full(size, tables.NO_STYLE, np.uint8))
    columns = compact.join(parts) if parts else {}
    size = columns["start"].size if columns else 0
    for name, dtype in _EMPTY[group].items():
        if name not in columns:
            columns[name] = np.full(size, compact.null_of(dtype), dtype)
    return columns


def build_trace(
    host: Columns, device: Columns, shared: Shared, known: Metadata, info: TraceInfo, source: Source, tally: Tally
) -> Trace:
    """Links the columns of one file into the five frames; the columns are consumed on the way."""
    _close_open_ranges(host, shared, tally)
    threads = _Threads(shared)
    lane = _lanes(host, threads)
    clock = LaneClock(LANES * threads.count, host["start"], host["start"] + host["duration"])
    rows = order(lane, host["start"], host["duration"], clock)
    lane = lane[rows]
    compact.taken(host, rows)
    del rows
    nesting = tightest(lane, host["start"], host["start"] + host["duration"], clock)
    found = _steps(host, nesting)
    by_start = device["start"].argsort(kind="stable")
    if not np.array_equal(by_start, np.arange(by_start.size)):
        compact.taken(device, by_start)
    del by_start
    _place_devices(device, shared, known)
    linked = _link(host, device, nesting, lane, threads, shared, found)
    _name_synchronizations(device, host, linked["launch"])
    loose = lane % LANES == START_END
    parent, depth = nesting.parent, nesting.depth
    parent[loose], depth[loose] = NONE, 0
    return Trace(
        steps=found,
        host=_host_frame(host, parent, depth, threads),
        device=_device_frame(device, linked, shared),
        memory=schema.empty(schema.MEMORY),
        counters=schema.empty(schema.COUNTERS),
        info=info,
        source=source,
        notes=tally.notes(),
    )


class _Threads:
    """The threads in order of process and number, and the process of each."""

    def __init__(self, shared: Shared) -> None:
        known = shared.threads.values
        keys = np.array([NULL if value is None else value for value in known], np.int64)
        by_key = np.argsort(keys)
        self.count = keys.size
        self.rank = np.empty(keys.size, np.int32)
        self.rank[by_key] = np.arange(keys.size, dtype=np.int32)
        ordered = keys[by_key]
        missing = ordered == NULL
        self.thread = np.where(missing, NULL, ordered & tables.TID_MASK)
        self.process = np.where(missing, NULL, (ordered >> tables.PID_BITS) & tables.PID_MASK)
        numbers = {value: number for number, value in enumerate(shared.processes.values)}
        owners = (ordered >> tables.PID_BITS).tolist()
        # as numbered for the device activities; a process without any has a number of its own
        self.owner = np.array([numbers.get(value, NONE) for value in owners], np.int32)


def _close_open_ranges(host: Columns, shared: Shared, tally: Tally) -> None:
    """Lets ranges that were never closed last to the latest NVTX time, as nsys does, and calls to the latest time."""
    duration = host["duration"]
    still_open = np.flatnonzero(duration == NULL)
    if not still_open.size:
        return
    start, is_range = host["start"][still_open], host["style"][still_open] != tables.NO_STYLE
    lasting = duration != NULL
    latest = int((host["start"] + np.where(lasting, duration, 0)).max())
    end = np.where(is_range, latest if shared.ranges_end is None else shared.ranges_end, latest)
    duration[still_open] = np.maximum(end - start, 0)
    tally.repaired("range without an end, taken to last to the latest NVTX time", int(is_range.sum()))
    tally.repaired("call without an end, taken to last to the end of the recording", int((~is_range).sum()))


def _lanes(host: Columns, threads: _Threads) -> Ints:
    """Each event's lane, and its thread by rank in place of its number."""
    style = host["style"]
    host["thread"] = threads.rank[host["thread"]] if threads.count else host["thread"]
    lane: Ints = host["thread"].astype(np.int64)
    lane *= LANES
    if (style != tables.NO_STYLE).any():
        places = np.full(256, CALLS, np.int8)
        places[[tables.STYLES["push_pop"], tables.STYLES["mark"]]] = PUSH_POP
        places[[tables.STYLES["start_end"], tables.STYLES["cross_thread"]]] = START_END
        lane += places[style]
    return lane


def _steps(host: Columns, nesting: Nesting) -> pl.DataFrame:
    rows = np.flatnonzero(host["style"] == PUSH_POP_STYLE)
    return steps.find(
        host["name"][rows], host["start"][rows], host["duration"][rows], host["thread"][rows], nesting.depth[rows]
    )


def _place_devices(device: Columns, shared: Shared, known: Metadata) -> None:
    """Replaces the number that a process gave a GPU by the GPU's own, where the file tells them apart."""
    if all(cuda == gpu for (_, cuda), gpu in known.gpu_of.items()):
        return
    for number, value in enumerate(shared.processes.values):
        if value is None:
            continue
        own = {cuda: gpu for (pid, cuda), gpu in known.gpu_of.items() if pid == value & tables.PID_MASK}
        rows = np.flatnonzero(device["process"] == number)
        given = device["device"][rows]
        placed = given.copy()
        for cuda, gpu in own.items():
            placed[given == cuda] = gpu
        device["device"][rows] = placed


def _link(
    host: Columns, device: Columns, nesting: Nesting, lane: Ints, threads: _Threads, shared: Shared, found: pl.DataFrame
) -> dict[str, Ints]:
    """The host rows that each device activity belongs to."""
    kind = host["kind"]
    calls = np.flatnonzero((kind == tables.RUNTIME) | (kind == tables.DRIVER))
    calls = calls[~is_null(host["correlation"][calls])]
    launch = _launches(device, host, calls, threads, len(shared.processes.values))

    # a range holds a launch if it holds the whole call (the rule of nvtx_kern_sum)
    called = launch >= 0
    call = launch[called]
    begin, end = host["start"][call], host["start"][call] + host["duration"][call]
    place = lane[call]
    around = _holding(nesting, place + PUSH_POP, begin, end)
    outside = np.flatnonzero(around < 0)
    if outside.size and (host["style"] == tables.STYLES["start_end"]).any():
        loose = _holding(nesting, place[outside] + START_END, begin[outside], end[outside])
        around[outside] = nearest(nesting.parent, host["style"] == tables.STYLES["start_end"], loose)
    ranges = np.full(launch.size, NONE, np.int64)
    ranges[called] = around

    when = device["start"].copy()
    when[called] = begin
    start = found["start"].to_numpy()
    step = np.searchsorted(start, when, side="right") - 1
    if start.size:
        step[when >= (start + found["duration"].to_numpy())[step]] = NONE
    return {"launch": launch, "range": ranges, "step": step}


def _holding(nesting: Nesting, lane: Ints, begin: Ints, end: Ints) -> Ints:
    """The innermost range on each lane from `begin` or before to `end` or after."""
    row = nesting.innermost_at(lane, begin)
    live = np.flatnonzero(row >= 0)
    while live.size:
        live = live[nesting.end[row[live]] < end[live]]
        row[live] = nesting.parent[row[live]]
        live = live[row[live] >= 0]
    return row


def _launches(device: Columns, host: Columns, calls: Ints, threads: _Threads, processes: int) -> Ints:
    """Host row of the call that started each device activity, by process and correlation id."""
    launch = np.full(device["start"].size, NONE, np.int64)
    owner = threads.owner[host["thread"][calls]]
    for number in range(processes):
        rows = np.flatnonzero(device["process"] == number) if processes > 1 else np.arange(launch.size)
        own = calls[owner == number]
        if not rows.size or not own.size:
            continue
        launch[rows] = _by_correlation(device["correlation"][rows], host, own)
    launch[is_null(device["correlation"])] = NONE
    return launch


def _by_correlation(wanted: NDArray[Any], host: Columns, calls: Ints) -> Ints:
    given = host["correlation"][calls]
    low, high = int(given.min()), int(given.max())
    is_launch = links.launches(host["name"][calls])
    if high - low > 4 * given.size + (1 << 16):
        null = compact.null_of(wanted.dtype)
        return links.match_launches(wanted.astype(np.int64), given.astype(np.int64), calls, is_launch, null)
    # the first call of an id has it, launching calls before others
    row_of = np.full(high - low + 2, NONE, np.int64)
    for wins in (~is_launch, is_launch):
        row_of[given[wins][::-1] - low] = calls[wins][::-1]
    at = wanted.astype(np.int64) - low
    at[(at < 0) | (at > high - low)] = high - low + 1
    return row_of[at]


def _name_synchronizations(device: Columns, host: Columns, launch: Ints) -> None:
    """Names synchronisations by the call that waited, since the type that the file gives them is unreliable."""
    rows = np.flatnonzero(device["kind"] == tables.SYNCHRONIZATION)
    if not rows.size:
        return
    names = np.full(rows.size, categories.encode(["Synchronization"])[0], np.uint32)
    known = launch[rows] >= 0
    names[known] = host["name"][launch[rows][known]]
    device["name"][rows] = names


def _host_frame(host: Columns, parent: Ints, depth: NDArray[np.int16], threads: _Threads) -> pl.DataFrame:
    rank = host.pop("thread")
    host["process"] = threads.process[rank]
    host["thread"] = threads.thread[rank]
    del rank
    host["domain"] = np.where(host["style"] == tables.NO_STYLE, NULL_CODE, host["domain"]).astype(np.uint32)
    return frame(schema.HOST, host, {"parent": parent}, depth=pl.Series(depth))


def _device_frame(device: Columns, linked: dict[str, Ints], shared: Shared) -> pl.DataFrame:
    known = shared.processes.values
    pids = np.array([NULL if value is None else value & tables.PID_MASK for value in known] or [NULL], np.int64)
    device["process"] = pids[device["process"]] if known else device["process"]
    return frame(schema.DEVICE, device, linked)
