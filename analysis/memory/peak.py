"""Each allocation from its event to the one that gave it back; when the allocator held the most, and who held it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.memory.owners import EARLIER, OWNERS, owners
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Bools, Floats, Ints
from tracetui.parsers.schema import MEMORY_ACTIONS

BEFORE = -1
"""Stands for an event before the recording."""
_CODE = {name: code for code, name in enumerate(MEMORY_ACTIONS)}
ALLOC, FREE, REQUESTED = _CODE["alloc"], _CODE["free"], _CODE["free_requested"]
END_STATE = ("segment", "block", "free_block")


class Allocations(Struct, frozen=True):
    """All allocations of one memory (a GPU's, or the host's); arrays of one length."""

    begin: Ints
    """Row of `schema.MEMORY` that made it, or -1 if it was there before the recording."""
    finish: Ints
    """Row that gave it back, or the number of rows if it was still there at the end."""
    row: Ints
    """A row that tells its stack and operator: the one that made it, else the one that gave it back or its block."""
    bytes: Ints
    start: Ints
    """Time it was made, ns; the least int64 where that was before the recording or is unknown."""
    end: Ints
    """Time it was given back, ns; the largest int64 where that did not happen in the recording."""

    def held_at(self, row: int) -> Ints:
        """Which of them were there right after an event; after -1: before the first one."""
        return np.flatnonzero((self.begin <= row) & (self.finish > row))


UNBORN, UNDYING = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def of_memory(device_type: int | None, device: int | None) -> pl.Expr:
    """Which rows of `schema.MEMORY` are of one memory; null is what the recording does not say."""
    wanted = {"device_type": device_type, "device": device}
    return pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value, dtype=pl.Int64)) for name, value in wanted.items())


@latest
def allocations(trace: Trace, device_type: int | None, device: int | None) -> Allocations:
    """Pairs what was allocated with what was freed at the same address of one memory.

    A snapshot's allocation ends where the program gives it back (``free_requested``), even if a stream may still use
    it. Blocks in use at a snapshot's end that its history does not mention are allocations too.
    """
    memory = trace.memory
    mine = of_memory(device_type, device)
    frame = memory.select(
        "action", "time", "address", "bytes", "allocated", row=pl.int_range(memory.height, dtype=pl.Int64)
    ).filter(mine_of(memory, mine))
    events = frame.filter(pl.col("action").is_in(["alloc", "free", "free_requested"]) & pl.col("address").is_not_null())
    code = events["action"].to_physical().to_numpy()
    address = events["address"].to_numpy()
    order = np.argsort(address, kind="stable")
    code, address = code[order], address[order]
    row, size = events["row"].to_numpy()[order], np.abs(events["bytes"].fill_null(0).to_numpy()[order])
    kept = ~_asked_before(code, address)
    code, address, row, size = code[kept], address[kept], row[kept], size[kept]
    height = memory.height
    makes = code == ALLOC
    same = address[1:] == address[:-1]
    after, before = np.append(same, False), np.append(False, same)
    # if the event in between is lost: an address that is allocated again must have been given back by then
    finish = np.where(after, np.append(row[1:], height)[: row.size], height)[makes]
    begin = row[makes]
    orphan = ~makes & ~(before & np.append(False, makes[:-1])[: makes.size])
    earlier = np.where(before, np.append(BEFORE, row[:-1])[: row.size], BEFORE)[orphan]
    blocks = _untouched(frame, address)
    rows = np.concatenate((begin, row[orphan], blocks["row"].to_numpy()))
    first = np.concatenate((begin, earlier, np.full(blocks.height, BEFORE)))
    last = np.concatenate((finish, row[orphan], np.full(blocks.height, height)))
    sizes = np.concatenate((size[makes], size[orphan], blocks["bytes"].fill_null(0).to_numpy()))
    start = _times(memory["time"], np.where(np.isin(first, begin), first, BEFORE), UNBORN)
    end = _times(memory["time"], np.where(last < height, last, BEFORE), UNDYING)
    return Allocations(first, last, rows, sizes, start, end)


def mine_of(memory: pl.DataFrame, condition: pl.Expr) -> pl.Series:
    """The rows of a frame that meet a condition, as a mask."""
    return memory.select(condition.fill_null(value=False).alias("mine"))["mine"]


def _asked_before(code: NDArray[np.uint8], address: Ints) -> Bools:
    """Marks, among events ordered by address, each ``free`` that follows its ``free_requested`` and adds nothing."""
    if not (code == REQUESTED).any():
        return np.zeros(code.size, np.bool_)
    follows = np.append(False, (address[1:] == address[:-1]) & (code[:-1] == ALLOC))[: code.size]
    asked: Bools = (code == FREE) & ~follows
    return asked


def _untouched(frame: pl.DataFrame, addresses: Ints) -> pl.DataFrame:
    """Blocks in use at the end that no event of the history is about."""
    blocks = frame.filter((pl.col("action") == "block") & (pl.col("allocated") > 0))
    has_event = blocks["address"].fill_null(-1).is_in(pl.Series(np.unique(addresses)).implode())
    return blocks.filter(~has_event)


def _times(times: pl.Series, rows: Ints, unknown: int) -> Ints:
    """The times of rows; `unknown` for a negative row or one without a time."""
    if not len(times):
        return np.full(rows.size, unknown, np.int64)
    values = times.to_numpy() if not times.null_count() else times.fill_null(unknown).to_numpy()
    return np.where(rows >= 0, values[np.maximum(rows, 0)], unknown)


CPU_TYPE = 0
ROUNDING = "(rounding of blocks, unknown)"
By = Literal["stack", "operator", "module", "range"]
HOLDERS: dict[str, pl.DataType] = {
    "name": pl.String(),
    "bytes": pl.Int64(),
    "percent": pl.Float64(),
    "allocations": pl.Int64(),
    "largest": pl.Int64(),
    "own": pl.String(),
    "library": pl.String(),
    "stack": pl.String(),
}


class Peak(Struct, frozen=True):
    """The moment at which one memory was fullest."""

    device_type: int | None
    """As torch numbers them, `CPU_TYPE` for the host; None where the recording does not say."""
    device: int | None
    row: int
    """The row of `schema.MEMORY` right after which memory was fullest; -1: before the first one."""
    time: int | None
    """ns on the trace's clock; None where the source does not say."""
    allocated: int
    reserved: int | None

    @property
    def unused_percent(self) -> float | None:
        """Share of what the allocator held from the driver that held no tensor."""
        if not self.reserved:
            return None
        return 100 * (self.reserved - self.allocated) / self.reserved


def totals(sel: Selection) -> pl.DataFrame:
    """Events in scope that tell how much was allocated: `schema.MEMORY` and its `row`, in order."""
    memory = sel.trace.memory.with_row_index("row")
    chosen = pl.col("allocated").is_not_null() & ~pl.col("action").is_in([*END_STATE, "oom", "other"])
    if sel.by_steps and sel.steps.height:
        last = sel.steps.row(-1, named=True)
        chosen &= pl.col("time").is_between(sel.steps["start"][0], last["start"] + last["duration"])
    if sel.scope.window is not None:
        chosen &= pl.col("time").is_between(*sel.scope.window, closed="left")
    if sel.scope.devices is not None:
        chosen &= (pl.col("device_type") == CPU_TYPE) | pl.col("device").is_in(list(sel.scope.devices))
    return memory.filter(chosen)


@kept
def peaks(sel: Selection) -> list[Peak]:
    """The largest total of each memory in scope, the host's first, then GPU by GPU; the first where several are equal.

    What was there before the first event counts where the events tell it: at the beginning of a snapshot's history.
    """
    if not sel.trace.memory.height:
        return []
    events = totals(sel)
    tops = []
    for (kind, device), rows in events.group_by("device_type", "device", maintain_order=True):
        most = rows.row(int(rows["allocated"].arg_max() or 0), named=True)
        best = Peak(*(most[key] for key in ("device_type", "device", "row", "time", "allocated", "reserved")))
        first = rows.row(0, named=True)
        if _begins(sel, rows) and first["allocated"] - first["bytes"] > best.allocated:
            before = first["allocated"] - first["bytes"]
            best = Peak(best.device_type, best.device, BEFORE, first["time"], before, first["reserved"])
        tops.append(((kind or 0, -1 if device is None else device), best))
    return [best for _, best in sorted(tops, key=lambda pair: pair[0])]


def peak(sel: Selection) -> Peak | None:
    """The largest of the `peaks` of the GPUs, else of memory of an unknown kind, else of the host; None without any."""

    def rank(moment: Peak) -> tuple[int, int]:
        kind = moment.device_type
        return 1 if kind is None else 2 if kind > CPU_TYPE else 0, moment.allocated

    return max(peaks(sel), key=rank, default=None)


def _begins(sel: Selection, rows: pl.DataFrame) -> bool:
    """Whether the first of a memory's events is the first of a snapshot's history and gave something back."""
    if sel.trace.info.kind != "memory_snapshot" or sel.by_steps or sel.scope.window is not None:
        return False
    first = rows.row(0, named=True)
    # where requests are recorded, the request to free a block gave it back
    frees = {"free_requested"} if (rows["action"] == "free_requested").any() else {"free"}
    if first["action"] not in frees or first["bytes"] is None:
        return False
    earlier = sel.trace.memory.head(first["row"])
    return not earlier.filter(of_memory(first["device_type"], first["device"])).height


def holders(sel: Selection, by: By, at: Peak | None = None) -> pl.DataFrame:
    """Who held memory at the peak, the most first (`HOLDERS`).

    One row per stack, operator, module path or annotation that made allocations still there: `bytes`, `percent` of
    what was allocated at the peak, `allocations`, the `largest` of them, and of a stack the innermost frame of the
    program's `own` code and of a `library`. What was allocated before the recording has a row of its own.
    """
    moment = at or peak(sel)
    if moment is None:
        return pl.DataFrame(schema=HOLDERS)
    all_of_it = allocations(sel.trace, moment.device_type, moment.device)
    return _grouped(sel, all_of_it, all_of_it.held_at(moment.row), by, moment.allocated)


def holding(sel: Selection, by: By, name: str, stack: str | None = None, at: Peak | None = None) -> pl.DataFrame:
    """The single allocations of one row of `holders`, the largest first, as `of_owner` gives them."""
    moment = at or peak(sel)
    if moment is None:
        return pl.DataFrame()
    blocks = allocations(sel.trace, moment.device_type, moment.device)
    return of_owner(sel, blocks, blocks.held_at(moment.row), by, name, stack)


def of_owner(sel: Selection, blocks: Allocations, chosen: Ints, by: By, name: str, stack: str | None) -> pl.DataFrame:
    """One owner's of these allocations, the largest first; times are null where they are not in the recording."""
    labels = owners(sel.trace, blocks.row[chosen], by)
    mine = (labels["name"] == name) & labels["stack"].eq_missing(pl.Series([stack], dtype=pl.String))
    chosen = chosen[mine.to_numpy()]
    rows = blocks.row[chosen]
    memory = sel.trace.memory
    columns = {
        "bytes": pl.Series(blocks.bytes[chosen], dtype=pl.Int64),
        "start": _known(blocks.start[chosen]),
        "end": _known(blocks.end[chosen]),
        "address": memory["address"].gather(rows),
        "stream": memory["stream"].gather(rows),
        "stack": memory["stack"].gather(rows).cast(pl.String),
        "operator": owners(sel.trace, rows, "operator")["name"],
        "module": owners(sel.trace, rows, "module")["name"],
        "range": owners(sel.trace, rows, "range")["name"],
    }
    return pl.DataFrame(columns).sort("bytes", descending=True, maintain_order=True)


def _known(times: Ints) -> pl.Series:
    limits = np.iinfo(np.int64)
    series = pl.Series(times, dtype=pl.Int64)
    return pl.select(pl.when(~series.is_in([limits.min, limits.max])).then(series)).to_series()


def _grouped(sel: Selection, blocks: Allocations, chosen: Ints, by: By, whole: int) -> pl.DataFrame:
    """Groups allocations by who made them (`HOLDERS`) and adds what they lack of `whole`, which `percent` is of."""
    labels = owners(sel.trace, blocks.row[chosen], by)
    sizes = pl.Series("bytes", blocks.bytes[chosen], dtype=pl.Int64)
    frame = labels.with_columns(sizes)
    total = int(sizes.sum())
    table = frame.group_by(*OWNERS, maintain_order=True).agg(
        pl.col("bytes").sum(), allocations=pl.len().cast(pl.Int64), largest=pl.col("bytes").max()
    )
    if whole > total:
        name = ROUNDING if sel.trace.info.kind == "memory_snapshot" else EARLIER
        # older allocations that were never given back have no event, so only their sum is known
        older = table.filter(pl.col("name") == name)["bytes"].sum()
        extra = pl.DataFrame({"name": [name], "bytes": pl.Series([whole - total + int(older)], dtype=pl.Int64)})
        table = pl.concat([table.filter(pl.col("name") != name), extra], how="diagonal")
    share = pl.col("bytes") * 100 / whole if whole else pl.lit(None, dtype=pl.Float64)
    return (
        table.with_columns(share.alias("percent"))
        .select(*HOLDERS)
        .cast(HOLDERS)  # type: ignore[arg-type]
        .sort("bytes", "name", descending=[True, False], maintain_order=True)
    )


PEAK_COLUMNS = ("device_type", "device", "allocated")


class Memory(Struct, frozen=True):
    """Allocator figures of a selection, as the profiler recorded them with each event."""

    peak_allocated_bytes: int | None
    """The most that tensors held on one GPU (in host memory where no GPU event was recorded); None if unknown."""
    peak_reserved_bytes: int | None
    """The most that the allocator held from one GPU's driver."""
    on_gpu: bool
    """Whether the peaks are a GPU's."""
    curve: pl.DataFrame
    """time, device, allocated, reserved at each event of the memory the peaks are of, bytes."""
    peaks: pl.DataFrame
    """device_type (0 CPU, 1 GPU), device, allocated, reserved: the peaks of each memory."""


def memory(sel: Selection) -> Memory:
    """Peaks and the curve, as in torch-tb-profiler: the largest totals in any event (`get_memory_curve`).

    What was allocated at the start of a snapshot's history counts too (`peak.peaks`); its end state is not an event.
    """
    if not sel.trace.memory.height:
        nothing = sel.trace.memory
        return Memory(
            None, None, False, nothing.select("time", "device", "allocated", "reserved"),
            nothing.select(*PEAK_COLUMNS, "reserved"),
        )  # fmt: skip
    events = sel.memory.filter(~pl.col("action").is_in([*END_STATE, "oom", "other"]))
    events = events.select("time", "device_type", "device", "allocated", "reserved")
    if sel.scope.devices is not None:
        chosen = pl.col("device").is_in(list(sel.scope.devices))
        events = events.filter(chosen | (pl.col("device_type") == CPU_TYPE) | pl.col("device_type").is_null())
    measured = events.filter(pl.col("allocated").is_not_null() | pl.col("reserved").is_not_null())
    totals = (
        measured.group_by("device_type", "device").agg(pl.max("allocated", "reserved")).sort("device_type", "device")
    )
    # other accelerators number their own device types
    on_gpu = measured.filter(pl.col("device_type") > CPU_TYPE).height > 0
    unsaid = not on_gpu and measured["device_type"].null_count() > 0
    shown = (
        pl.col("device_type").is_null()
        if unsaid
        else pl.col("device_type") > CPU_TYPE
        if on_gpu
        else pl.col("device_type") == CPU_TYPE
    )
    if sel.trace.info.kind == "memory_snapshot":
        known_peaks = [(moment.device_type, moment.device, moment.allocated) for moment in peaks(sel)]
        of_blocks = pl.DataFrame(known_peaks, schema=dict.fromkeys(PEAK_COLUMNS, pl.Int64), orient="row")
        totals = totals.drop("allocated").join(of_blocks, on=PEAK_COLUMNS[:2], how="left", nulls_equal=True)
        totals = totals.select(*PEAK_COLUMNS, "reserved").sort(PEAK_COLUMNS[:2])
    of_shown = totals.filter(shown)
    return Memory(
        peak_allocated_bytes=_largest(of_shown["allocated"]),
        peak_reserved_bytes=_largest(of_shown["reserved"]),
        on_gpu=on_gpu,
        curve=measured.filter(shown).select("time", "device", "allocated", "reserved"),
        peaks=totals,
    )


def over_capacity(snapshot: Trace, trace: Trace) -> tuple[int, int] | None:
    """What a snapshot's allocator held of a GPU and what that GPU of a recording has, bytes, where it held more."""
    has = {device.id: device.memory_bytes for device in trace.info.devices if device.memory_bytes}
    of_gpus = snapshot.memory.filter(pl.col("device_type") > CPU_TYPE).sort("device")
    most = of_gpus.group_by("device", maintain_order=True).agg(pl.max_horizontal("allocated", "reserved").max())
    for device, held in most.drop_nulls().iter_rows():
        if held > has.get(device, held):
            return held, has[device]
    return None


def _largest(values: pl.Series) -> int | None:
    largest = values.max()
    return None if largest is None else int(largest)  # type: ignore[arg-type]


CURVE: dict[str, pl.DataType] = {"time": pl.Int64(), "allocated": pl.Int64(), "reserved": pl.Int64()}


def curve(sel: Selection, at: Peak | None = None) -> pl.DataFrame:
    """The events of the memory with the peak, in order: time (null where only the order is known), bytes (`CURVE`)."""
    moment = at or peak(sel)
    if moment is None:
        return pl.DataFrame(schema=CURVE)
    return totals(sel).filter(of_memory(moment.device_type, moment.device)).select(*CURVE)


def curve_points(frame: pl.DataFrame, points: int) -> pl.DataFrame:
    """Reduces a curve to its fullest moment in each equal stretch of time, with the most reserved in that stretch.

    Where times are unknown, stretches have equally many events.
    """
    if frame.height <= points:
        return frame
    place = _places(frame["time"], points, None, None)
    return (
        frame.with_columns(pl.Series("place", place))
        .group_by("place", maintain_order=True)
        .agg(
            pl.col("time").get(pl.col("allocated").arg_max()),
            pl.col("allocated").max(),
            pl.col("reserved").max(),
        )
        .select(*CURVE)
    )


def columns(
    frame: pl.DataFrame, width: int, window: tuple[int, int] | None = None
) -> tuple[list[int | None], list[int | None]]:
    """The most allocated and reserved in each of `width` equal stretches of time, for a chart.

    A stretch without an event has the level it began with; before the first event that is unknown.

    Args:
        frame: a curve.
        width: how many stretches.
        window: start and duration, ns; the curve's own where not given.
    """
    if not frame.height or width < 1:
        return [], []
    begin, span = window if window is not None else (None, None)
    place = _places(frame["time"], width, begin, span)
    return _levels(frame["allocated"], place, width), _levels(frame["reserved"], place, width)


def _places(times: pl.Series, parts: int, begin: int | None, span: int | None) -> Ints:
    if times.null_count():
        return np.arange(len(times), dtype=np.int64) * parts // len(times)
    values = np.maximum.accumulate(times.to_numpy())
    first = int(values[0]) if begin is None else begin
    length = max(int(values[-1]) - first if span is None else span, 1)
    # in float64: a product of ns and parts may overflow 64 bits, and rounding is far smaller than a stretch
    share = (values - first).astype(np.float64) * parts / length
    places: Ints = np.clip(share.astype(np.int64), 0, parts - 1)
    return places


def _levels(values: pl.Series, place: Ints, width: int) -> list[int | None]:
    level: Floats = values.cast(pl.Float64).to_numpy()
    has_level = ~np.isnan(level)
    level, place = level[has_level], place[has_level]
    levels: list[int | None] = [None] * width
    if not level.size:
        return levels
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    most = np.maximum.reduceat(level, starts)
    after: float | None = None
    ends = level[np.append(starts[1:], level.size) - 1]
    inside = {int(place[start]): number for number, start in enumerate(starts.tolist())}
    for column in range(width):
        number = inside.get(column)
        if number is not None:
            levels[column] = int(most[number] if after is None else max(most[number], after))
            after = float(ends[number])
        elif after is not None:
            levels[column] = int(after)
    return levels
