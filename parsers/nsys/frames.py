"""Turns columns into a Trace: sorts, nests and links them.

Calls, ranges that nest and ranges that may overlap are sorted and nested separately, as if on different threads. In the
host frame they follow one another for each thread of the program.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.parsers import categories, links, resources, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import NONE, LaneClock, Nesting, enclosing, nearest, order
from tracetui.parsers.nsys import compact, nccl, tables
from tracetui.parsers.nsys.compact import NULL, Columns, is_null
from tracetui.parsers.nsys.dialects import Dialect
from tracetui.parsers.nsys.metadata import Metadata
from tracetui.parsers.nsys.names import Strings
from tracetui.parsers.nsys.tables import Shared
from tracetui.parsers.schema import frame
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import Source, Trace, TraceInfo

_PROFILER_STEP = re.compile(r"ProfilerStep#(?P<index>\d{1,18})")
_LIKELY = "ProfilerStep#"


def find(
    name: NDArray[np.uint32], start: Ints, duration: Ints, thread: NDArray[np.int32], depth: NDArray[np.int16]
) -> pl.DataFrame:
    """The ``ProfilerStep#N`` among push/pop ranges that are in nesting order: those of the thread with the most."""
    texts = _candidates(name)
    numbers = {code: int(match["index"]) for code, text in texts.items() if (match := _PROFILER_STEP.fullmatch(text))}
    rows = _best_thread(np.flatnonzero(np.isin(name, np.array(list(numbers), np.uint32))), thread, depth, duration)
    columns = {
        "index": [numbers[code] for code in name[rows].tolist()],
        "name": [texts[code] for code in name[rows].tolist()],
        "start": start[rows],
        "duration": duration[rows],
    }
    return pl.DataFrame(columns, schema=schema.STEPS).sort("start")


def _candidates(name: NDArray[np.uint32]) -> dict[int, str]:
    """The names that may be steps, by code: few, however many names there are."""
    codes = np.unique(name)
    names = categories.decode(codes[codes != categories.NULL_CODE]).cast(pl.String)
    likely = names.str.contains(_LIKELY, literal=True).fill_null(value=False)
    found = names.filter(likely).str.strip_chars().to_list()
    return dict(zip(codes[: len(names)][likely.to_numpy()].tolist(), found, strict=True))


def _best_thread(rows: Ints, thread: NDArray[np.int32], depth: NDArray[np.int16], duration: Ints) -> Ints:
    """Of the thread whose steps are outermost, then most, then longest: those that lie in no other."""
    best: tuple[int, int, int] | None = None
    chosen = rows[:0]
    for owner in np.unique(thread[rows]).tolist():
        mine = rows[thread[rows] == owner]
        level = depth[mine].min()
        mine = mine[depth[mine] == level]
        rank = -int(level), int(mine.size), int(duration[mine].sum())
        if best is None or rank > best:
            best, chosen = rank, mine
    return chosen


STRETCH = 1 << 18
NESTED_STYLES = [tables.STYLES["push_pop"], tables.STYLES["mark"]]


COUNTED: dict[str, pl.DataType] = {
    "counted": pl.Int64(), "metric": pl.String(), "unit": pl.String(), "value": pl.Float64(),
}  # fmt: skip
"""What was counted of kernels, one part of the GPU a row; `counted` is the kernel's column of that name."""
_KIBIBYTES = ("FETCH_SIZE", "WRITE_SIZE", "FetchSize", "WriteSize")
_SHARES = (
    "GPUBusy", "OccupancyPercent", "VALUBusy", "VALUUtilization", "SALUBusy", "MemUnitBusy", "MemUnitStalled",
    "WriteUnitStalled", "L2CacheHit", "LDSBankConflict", "ALUStalledByLDS",
)  # fmt: skip
"""ROCm's files have no units. Of its derived counters these are in percent, those above in units of 1024 bytes."""


class Events(Struct):
    """A file's events as columns, not yet sorted or linked, with their context."""

    dialect: Dialect
    device: Columns
    calls: Columns
    ranges: Columns
    shared: Shared
    metadata: Metadata
    payloads: pl.DataFrame
    """What NCCL said with its ranges (`nccl.PAYLOADS`)."""
    strings: Strings
    total: int
    parsed: int
    partial: bool
    graph_nodes: tuple[dict[str, Any], ...]
    """The nodes of CUDA graphs, by nsys's names of their columns."""
    counters: pl.DataFrame
    """What was counted of kernels (`COUNTED`)."""


def build_trace(events: Events, info: TraceInfo, source: Source, tally: Tally) -> Trace:
    """Links the columns of one file into the six frames, and consumes the columns."""
    shared = events.shared
    _close(events, tally)
    links.to_one_clock(events.device, events.calls, tally)
    threads = Threads(shared)
    nested, loose = _apart(events.ranges)
    with ThreadPoolExecutor(2) as pool:
        waiting = [
            pool.submit(_Lanes.of, columns, threads, searched=columns is not events.calls)
            for columns in (events.calls, nested, loose)
        ]
        _sort_device(events, shared)
        calls, ranges, overlapping = (lanes.result() for lanes in waiting)
        found = _steps(ranges)
        place = _places(threads, calls, ranges, overlapping)
        linked = _linked(pool, events.device, (calls, ranges, overlapping), place, threads, shared, found, tally)
        ranges.nesting = overlapping.nesting = None
        device = pool.submit(_device_frame, events.device, linked, shared)
        host = _host_frame((calls, ranges, overlapping), place, threads)
    work = device.result()
    counters = counters_of(work["offset"], events.counters, tally)
    work = work.with_columns(offset=pl.lit(None, pl.Int64))
    return Trace(
        steps=found,
        host=host,
        device=work,
        counters=counters,
        info=info,
        source=source,
        notes=tally.notes(),
        collectives=nccl.collectives_frame(host, work, events.payloads),
    )


def counters_of(kernels: pl.Series, found: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """The counters of kernels, summed over the parts of the GPU that counted, as ROCm's own tables do.

    Args:
        kernels: what `found` calls the kernel of each device row.
        found: the counters, as `COUNTED`.
        tally: counts those that are of no kernel here.
    """
    if not found.height:
        return schema.empty(schema.COUNTERS)
    value = pl.col("value").filter(pl.col("value").is_finite())
    sums = found.group_by("counted", "metric", "unit", maintain_order=True).agg(
        value=pl.when(value.len() > 0).then(value.sum())
    )
    is_size, is_share = pl.col("metric").is_in(_KIBIBYTES), pl.col("metric").is_in(_SHARES)
    sums = sums.with_columns(
        unit=pl.when(is_size).then(pl.lit("byte")).when(is_share).then(pl.lit("%")).otherwise("unit"),
        value=pl.when(is_size).then(1024 * pl.col("value")).otherwise("value"),
    )
    rows = kernels.to_frame("counted").with_row_index("device_row").drop_nulls("counted")
    of_kernels = sums.join(rows, on="counted").sort("device_row", maintain_order=True)
    tally.missing("kernel of a counter", sums.height - of_kernels.height)
    return schema.filled(schema.COUNTERS, of_kernels.drop("counted").with_columns(kind=pl.lit("metric")))


class Threads:
    """The threads with host events in order of process and number, and the process of each."""

    def __init__(self, shared: Shared) -> None:
        known = shared.threads.values
        keys = np.array([NULL if value is None else value for value in known], np.int64)
        by_key = np.argsort(keys)
        self.count = keys.size
        self.rank = np.empty(keys.size, np.int32)
        """By number."""
        self.rank[by_key] = np.arange(keys.size, dtype=np.int32)
        ordered = keys[by_key]
        missing = ordered == NULL
        self.thread = np.where(missing, NULL, shared.ids.thread(ordered))
        self.process = np.where(missing, NULL, shared.ids.process(ordered))
        numbers = {value: number for number, value in enumerate(shared.processes.values)}
        owners = [numbers.get(value, NONE) for value in (ordered >> shared.ids.tid_bits).tolist()]
        self.owner = np.array(owners, np.int32)
        """The process's number for device activities; -1 for a process without any."""


def _close(events: Events, tally: Tally) -> None:
    """Ends ranges that were never closed at the latest NVTX time, as nsys does, and such calls at the latest time."""
    for columns, what, end in (
        (events.ranges, "range without an end, taken to last to the latest NVTX time", events.shared.ranges_end),
        (events.calls, "call without an end, taken to last to the end of the recording", None),
    ):
        duration = columns["duration"]
        still_open = np.flatnonzero(duration == NULL)
        if not still_open.size:
            continue
        latest = _latest(events) if end is None else end
        columns["duration"] = duration = duration.copy()
        duration[still_open] = np.maximum(latest - columns["start"][still_open], 0)
        tally.repaired(what, still_open.size)


def _latest(events: Events) -> int:
    ends = [
        int((columns["start"] + np.maximum(columns["duration"], 0)).max())
        for columns in (events.device, events.calls, events.ranges)
        if columns["start"].size
    ]
    return max(ends)


def _apart(ranges: Columns) -> tuple[Columns, Columns]:
    """Splits the ranges and marks that nest from the ranges that may overlap."""
    is_nested = np.isin(ranges["style"], NESTED_STYLES)
    if is_nested.all():
        return ranges, {name: values[:0] for name, values in ranges.items()}
    loose = {name: values[~is_nested] for name, values in ranges.items()}
    compact.taken(ranges, np.flatnonzero(is_nested))
    return ranges, loose


class _Lanes(Struct):
    """Host events of one kind, sorted by thread, start, then the longer first, and their tree."""

    columns: Columns
    rank: NDArray[np.int32]
    """The thread of each row, ascending."""
    parent: NDArray[Any]
    depth: NDArray[np.int16]
    nesting: Nesting | None
    """The tree in the form for searches; only if something is searched in it."""

    @classmethod
    def of(cls, columns: Columns, threads: Threads, *, searched: bool) -> _Lanes:
        rank = columns.pop("thread")
        if threads.count:
            rank = threads.rank[rank]
        if (rank[1:] < rank[:-1]).any():
            # a radix sort, after which each thread's events are nearly in order
            small = rank.astype(np.uint16) if threads.count <= 1 << 16 else rank
            rows = np.argsort(small, kind="stable")
            rank = rank[rows]
            compact.taken(columns, rows)
        start, duration = columns["start"], columns["duration"]
        clock = LaneClock(threads.count, start, start + duration)
        rows = order(rank.astype(np.int64), start, duration, clock)
        if (rows[1:] < rows[:-1]).any():
            compact.taken(columns, rows)
        del rows, start, duration
        end = columns["start"] + columns["duration"]
        nesting = enclosing(rank.astype(np.int64), columns["start"], end, clock)
        # calls are only ever counted by their number
        parent = nesting.parent if searched or rank.size >= 1 << 31 else nesting.parent.astype(np.int32)
        return cls(columns, rank, parent, nesting.depth, nesting if searched else None)

    def edges(self, count: int) -> Ints:
        """The positions where each thread's rows start, and where those of the last thread end."""
        edges: Ints = np.searchsorted(self.rank, np.arange(count + 1), side="left")
        return edges


class _Place(Struct, frozen=True):
    """The positions of the rows of one kind in the host frame."""

    edges: Ints
    begins: Ints
    """For each thread, the host row of its first row of this kind."""

    def moved(self, rows: NDArray[Any]) -> Ints:
        """The host rows of rows of this kind, -1 for none."""
        if self.begins.size == 1:
            return np.where(rows < 0, NONE, rows + self.begins[0])
        shift = self.begins - self.edges[:-1]
        if not shift.size:
            return rows
        thread = np.searchsorted(self.edges, rows, side="right") - 1
        return np.where(rows < 0, NONE, rows + shift[np.clip(thread, 0, shift.size - 1)])


def _places(threads: Threads, *kinds: _Lanes) -> tuple[_Place, ...]:
    """One thread after the other, each with its kinds of events one after the other."""
    edges = [lanes.edges(threads.count) for lanes in kinds]
    sizes = np.stack([np.diff(edge) for edge in edges], axis=1)
    begins = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    return tuple(_Place(edge, begins[:, number]) for number, edge in enumerate(edges))


def _sort_device(events: Events, shared: Shared) -> None:
    device = events.device
    start = device["start"]
    if (start[1:] < start[:-1]).any():
        compact.taken(device, start.argsort(kind="stable"))
    gpu_of = events.metadata.gpu_of
    if all(cuda == gpu for (_, cuda), gpu in gpu_of.items()):
        return
    # a process may see other numbers for its GPUs than the system does
    given, placed = device["device"], device["device"].copy()
    most = np.iinfo(placed.dtype).max
    for number, value in enumerate(shared.processes.values):
        for (pid, cuda), gpu in gpu_of.items():
            # what is no number of a GPU, in damaged metadata, places nothing
            if value is not None and pid == value & shared.ids.pids and cuda != gpu and 0 <= gpu <= most:
                placed[(device["process"] == number) & (given == cuda)] = gpu
    device["device"] = placed


def _steps(ranges: _Lanes) -> pl.DataFrame:
    columns = ranges.columns
    rows: Any = slice(None)
    is_range = columns["style"] == tables.STYLES["push_pop"]
    if not is_range.all():
        rows = np.flatnonzero(is_range)
    return find(
        columns["name"][rows], columns["start"][rows], columns["duration"][rows], ranges.rank[rows],
        ranges.depth[rows],
    )  # fmt: skip


def _linked(
    pool: ThreadPoolExecutor,
    device: Columns,
    kinds: tuple[_Lanes, _Lanes, _Lanes],
    place: tuple[_Place, ...],
    threads: Threads,
    shared: Shared,
    found: pl.DataFrame,
    tally: Tally,
) -> dict[str, NDArray[np.int32]]:
    """The host rows that each device activity belongs to, and its step."""
    launch = _launches(device, kinds[0], threads, len(shared.processes.values), tally)
    _name_synchronizations(device, kinds[0], launch)
    linked = {name: np.empty(launch.size, np.int32) for name in ("launch", "range", "step")}

    def work(rows: slice) -> None:
        held, in_loose, step = _link(device, *kinds, launch, found, rows)
        linked["launch"][rows] = place[0].moved(launch[rows])
        linked["range"][rows] = np.where(in_loose, place[2].moved(held), place[1].moved(held))
        linked["step"][rows] = step

    # in pieces, since finding rows takes more memory than the rows themselves
    list(pool.map(work, [slice(begin, begin + STRETCH) for begin in range(0, launch.size, STRETCH)]))
    if "stream" in device:
        before = links.queued_before(launch, device["kind"], device["device"], device["stream"])
        linked["step"][before] = NONE
        tally.missing(links.QUEUED, int(before.sum()))
    return linked


def _link(
    device: Columns,
    calls: _Lanes,
    ranges: _Lanes,
    loose: _Lanes,
    launch: NDArray[Any],
    found: pl.DataFrame,
    rows: slice,
) -> tuple[Ints, Bools, Ints]:
    """For some of the device activities: the range around each launch, whether it may overlap others, and the step."""
    # a range holds a launch if it holds the whole call (the rule of nvtx_kern_sum)
    called = np.flatnonzero(launch[rows] >= 0)
    call = launch[rows][called]
    begin, lasts = calls.columns["start"][call], calls.columns["duration"][call]
    lane = calls.rank[call].astype(np.int64)
    around = _holding(ranges, lane, begin, lasts)
    in_loose = np.zeros(device["start"][rows].size, np.bool_)
    if loose.rank.size:
        held = _holding(loose, lane, begin, lasts)
        held = nearest(loose.parent, loose.columns["style"] == tables.STYLES["start_end"], held)
        # of the two around a launch the shorter one is the inner one, as in the tree of ranges
        lengths = np.append(ranges.columns["duration"], np.iinfo(np.int64).max)
        inner = np.flatnonzero((held >= 0) & (loose.columns["duration"][held] < lengths[around]))
        around[inner] = held[inner]
        in_loose[called[inner]] = True
    held = np.full(in_loose.size, NONE, np.int64)
    held[called] = around

    when = device["start"][rows].copy()
    when[called] = begin
    start = found["start"].to_numpy()
    return held, in_loose, links.held_by(start, start + found["duration"].to_numpy(), when)


def _holding(ranges: _Lanes, lane: Ints, begin: Ints, lasts: Ints) -> Ints:
    """The innermost range on each thread that covers the time from `begin` for the duration `lasts`."""
    nesting = ranges.nesting
    if nesting is None or not ranges.rank.size:
        return np.full(lane.size, NONE, np.int64)
    row = nesting.innermost_at(lane, begin)
    live = np.flatnonzero(row >= 0)
    while live.size:
        live = live[nesting.end[row[live]] < begin[live] + lasts[live]]
        row[live] = nesting.parent[row[live]]
        live = live[row[live] >= 0]
    return row


def _launches(device: Columns, calls: _Lanes, threads: Threads, processes: int, tally: Tally) -> NDArray[Any]:
    """The call that started each device activity, by process and correlation id."""
    correlation, kind = calls.columns["correlation"], calls.columns["kind"]
    is_call = (kind == tables.RUNTIME) | (kind == tables.DRIVER)
    is_call &= ~is_null(correlation)
    known = np.flatnonzero(is_call)
    owner = threads.owner[calls.rank[known]] if threads.count else known
    launch = np.full(device["start"].size, NONE, np.int32 if kind.size < 1 << 31 else np.int64)
    for number in range(processes):
        if processes == 1:
            rows: Any = slice(None)
            own = known if (owner == number).all() else known[owner == number]
        else:
            rows = np.flatnonzero(device["process"] == number)
            own = known[owner == number]
        if own.size:
            own_work = {name: device[name][rows] for name in ("correlation", "start")}
            launch[rows] = _by_correlation(own_work, calls.columns, own, tally)
    launch[is_null(device["correlation"])] = NONE
    return launch


def _by_correlation(device: Columns, columns: Columns, calls: Ints, tally: Tally) -> NDArray[Any]:
    """The call that started each of these activities."""
    wanted, given = device["correlation"], columns["correlation"][calls]
    low, high = int(given.min()), int(given.max())
    dense = high - low <= 4 * given.size + (1 << 16)
    row_of = np.full((high - low if dense else 0) + 2, NONE, np.int32 if calls[-1] < 1 << 31 else np.int64)
    if dense:
        row_of[given - low] = calls
    if not dense or not np.array_equal(row_of[given - low], calls):  # an id of several calls
        is_launch = links.launches(columns["name"][calls])
        return links.match_launches(device, columns, calls, is_launch, compact.null_of(wanted.dtype), tally)
    if wanted.dtype != given.dtype:  # one of them has ids beyond 32 bits
        wanted = wanted.astype(np.int64)
    at = wanted - wanted.dtype.type(low)  # a null wraps around, and is out of bounds either way
    at = np.where((wanted < low) | (wanted > high), high - low + 1, at)
    return row_of[at]


def _name_synchronizations(device: Columns, calls: _Lanes, launch: NDArray[Any]) -> None:
    """Names synchronisations after the call that waited, since their type in the file is unreliable."""
    rows = np.flatnonzero(device["kind"] == tables.SYNCHRONIZATION)
    if not rows.size:
        return
    names = np.full(rows.size, categories.encode(["Synchronization"])[0], np.uint32)
    known = launch[rows] >= 0
    names[known] = calls.columns["name"][launch[rows][known]]
    device["name"] = np.array(device["name"])
    device["name"][rows] = names


def _host_frame(kinds: tuple[_Lanes, ...], place: tuple[_Place, ...], threads: Threads) -> pl.DataFrame:
    """The rows of all kinds, thread by thread."""
    sizes = [np.diff(own.edges) for own in place]
    pieces = [
        (number, int(own.edges[thread]), int(own.edges[thread + 1]))
        for thread in range(threads.count)
        for number, own in enumerate(place)
        if own.edges[thread] < own.edges[thread + 1]
    ]
    per_thread = np.sum(sizes, axis=0) if sizes else np.empty(0, np.int64)

    def gathered(arrays: list[NDArray[Any] | None], null: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        joined = np.empty(sum(end - begin for _, begin, end in pieces), dtype)
        at = 0
        for number, begin, end in pieces:
            values = arrays[number]
            joined[at : at + end - begin] = null if values is None else values[begin:end]
            if values is not None and values.dtype != dtype:
                joined[at : at + end - begin][is_null(values[begin:end])] = null
            at += end - begin
        return joined

    columns: Columns = {}
    parents = [place[number].moved(lanes.parent) for number, lanes in enumerate(kinds[:2])]
    # ranges that may overlap are in none
    parent = gathered([*parents, None], NONE, np.dtype(np.int64))
    depth = gathered([kinds[0].depth, kinds[1].depth, None], 0, np.dtype(np.int16))
    del parents
    names = dict.fromkeys(name for lanes in kinds for name in lanes.columns)
    freed = 0
    for name in names:
        arrays = [lanes.columns.pop(name, None) for lanes in kinds]
        there = [values.dtype for values in arrays if values is not None]
        dtype = np.result_type(*there)
        null = {"style": tables.NO_STYLE}.get(name, compact.null_of(dtype))
        columns[name] = gathered(arrays, null, dtype)
        freed += columns[name].nbytes
        if freed >= resources.WORTH_RELEASING:
            resources.release_freed()
            freed = 0
    columns["process"] = np.repeat(threads.process, per_thread)
    columns["thread"] = np.repeat(threads.thread, per_thread)
    return frame(schema.HOST, columns, {"parent": parent}, depth=pl.Series(depth))


def _device_frame(device: Columns, linked: dict[str, NDArray[np.int32]], shared: Shared) -> pl.DataFrame:
    known = shared.processes.values
    pids = np.array([NULL if value is None else value & shared.ids.pids for value in known] or [NULL], np.int64)
    device["process"] = pids[device["process"]]
    return frame(schema.DEVICE, device, linked)
