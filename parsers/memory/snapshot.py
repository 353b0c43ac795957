"""Reads, without torch, what `torch.cuda.memory._dump_snapshot` writes: the allocator's history and end state.

The history is a ring buffer whose start is lost, so the curve is anchored at its end, which the segments describe.

- *allocated* ends at the sum of the segments' ``allocated_size``, grows with each ``alloc`` and falls with each
  ``free_requested``, which is when `torch.cuda.memory_allocated` counts a block as freed (the official viewer counts
  it in use until ``free_completed``, when no stream needs it any more). Events have the requested bytes, while blocks
  are rounded up to 512: for blocks that were freed since, the curve lacks the rounding.
- *reserved* ends at the sum of the segments' ``total_size``, and changes when segments come, go, or are mapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.categories import decode, encodable, encode
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.memory.pickle_scan import Loaded, Refused, load_plain, no_collecting, recovered
from tracetui.parsers.names.people import without_home
from tracetui.parsers.nesting import NONE
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.schema import MAX_SIZE
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import DeviceInfo, Source, Trace, TraceInfo

ACTIONS = {
    "alloc": "alloc",
    "free": "free",
    "free_completed": "free",
    "free_requested": "free_requested",
    "segment_alloc": "segment_alloc",
    "segment_free": "segment_free",
    "segment_map": "segment_map",
    "segment_unmap": "segment_unmap",
    "oom": "oom",
    "snapshot": "other",
}
_CODE = {name: code for code, name in enumerate(schema.MEMORY_ACTIONS)}
ALLOC, FREE, REQUESTED, OOM, OTHER = (_CODE[name] for name in ("alloc", "free", "free_requested", "oom", "other"))
_RELEASES = (_CODE["segment_free"], _CODE["segment_unmap"])
_NEGATIVE = (FREE, REQUESTED, *_RELEASES)
IN_USE = frozenset({"active_allocated", "active_awaiting_free", "active_pending_free"})
_KEYS = ("filename", "line", "name")
_NO_FILE = frozenset({"", "??", "none", None})
MAX_TIME = 1 << 53
"""µs, so that ns fit 64 bits."""
MAX_ADDRESS = (1 << 63) - 1
MOST_KEPT = 1 << 16
"""How many stacks are recognised by the identity of their frames; this is useless if stacks share no frames."""
MAX_STACK = 1 << 16
"""The most characters of one stack; what a profiler writes is far shorter."""
MOST_FRAMES = MAX_STACK // 2 + 1
"""How many frames are looked at: each takes two characters at least, so a stack that has so many is cut short."""


class Stacks:
    """Call stacks as texts, each stored once: frames joined by ';', innermost first."""

    def __init__(self, room: int) -> None:
        self.texts: list[str | None] = [None]
        self.cut = 0
        """How many stacks were shortened or left out."""
        self._room = room
        self._by_id: dict[int, int] = {}
        self._by_objects: dict[tuple[int, ...], int] = {}
        self._by_frames: dict[Any, int] = {}
        self._frames: dict[Any, str] = {}

    def number(self, frames: Any) -> int:
        """Returns the stack's index in `texts`, 0 for none; the list must live as long as this object."""
        if not isinstance(frames, list) or not frames:
            return 0
        known = self._by_id.get(id(frames))
        if known is not None:
            return known
        # a file has each frame once, in stacks by the thousand
        shown = frames[:MOST_FRAMES]
        objects = tuple(map(id, shown))
        known = self._by_objects.get(objects)
        if known is None:
            known = self._of_frames(shown)
            if len(self._by_objects) < MOST_KEPT:
                self._by_objects[objects] = known
        self._by_id[id(frames)] = known
        return known

    def _of_frames(self, frames: list[Any]) -> int:
        try:
            key = tuple(map(_GET, frames))
            number = self._by_frames.get(key)
        except (KeyError, TypeError, IndexError):
            key = tuple(_frame_key(frame) for frame in frames)
            number = self._by_frames.get(key)
        if number is None:
            number = self._add(key)
            self._by_frames[key] = number
        return number

    def _add(self, key: tuple[Any, ...]) -> int:
        parts: list[str] = []
        left = min(MAX_STACK, self._room)
        for frame in key:
            text = self._frames.get(frame)
            if text is None:
                text = self._frames[frame] = _frame_text(*frame)
            left -= len(text) + 1
            if left < 0:
                self.cut += 1
                break
            parts.append(text)
        if not parts:
            return 0
        text = ";".join(parts)
        self._room -= len(text)
        self.texts.append(text)
        return len(self.texts) - 1


_GET = itemgetter(*_KEYS)


def _frame_key(frame: Any) -> tuple[Any, Any, Any]:
    """The text of a frame that lacks a part."""
    if not isinstance(frame, dict):
        return (None, None, None)
    values = [frame.get(key) for key in _KEYS]
    return tuple(value if isinstance(value, (str, int)) else None for value in values)  # type: ignore[return-value]


def _frame_text(filename: Any, line: Any, name: Any) -> str:
    """``file:line name``; for compiled code, which has no lines, ``file name`` or only the name."""
    function = name if isinstance(name, str) else ""
    where = "" if filename in _NO_FILE or not isinstance(filename, str) else without_home(filename)
    if where and type(line) is int and line:
        where = f"{where}:{line}"
    return encodable(f"{where} {function}".strip().replace(";", ",")[:MAX_STACK]) or "?"


def ints(values: Sequence[Any], tally: Tally, what: str, most: int = MAX_ADDRESS) -> pl.Series:
    """Whole numbers from 0 to `most`; anything else is null and counted.

    Polars gets only what it can hold, since it has crashed on lists with numbers beyond 64 bits.
    """
    kinds = set(map(type, values))
    if kinds <= {int, type(None)}:
        known = [0 if value is None else value for value in values] if type(None) in kinds else values
        if not known or (min(known) >= 0 and max(known) <= most):
            series = pl.Series(np.array(known, dtype=np.int64))
            unknown = pl.Series([value is None for value in values], dtype=pl.Boolean)
            return series if len(kinds) < 2 and int in kinds else pl.select(pl.when(~unknown).then(series)).to_series()
    good = [value if type(value) is int and 0 <= value <= most else None for value in values]
    tally.repaired(f"{what} that is no number", sum(a is not b for a, b in zip(values, good, strict=True)))
    return pl.Series(good, dtype=pl.Int64)


def trace_rows(entries: Any, device: int, device_type: int, stacks: Stacks, tally: Tally) -> pl.DataFrame:
    """One device's history, in order; `anchored` fills in `allocated` and `reserved`."""
    rows = [entry for entry in entries if isinstance(entry, dict)]
    tally.skipped("entry of the history that is no record", len(entries) - len(rows))
    names = [_action(entry) for entry in rows]
    unknown = [name for name in names if name not in ACTIONS]
    tally.repaired("unknown action of the allocator, kept as 'other'", len(unknown), unknown[0] if unknown else "")
    action = np.array([_CODE[ACTIONS.get(name, "other")] for name in names], dtype=np.int64)
    size = ints([entry.get("size") for entry in rows], tally, "size", MAX_SIZE)
    sign = np.where(np.isin(action, _NEGATIVE), -1, 1)
    free = ints([entry.get("device_free") for entry in rows], tally, "free memory", MAX_SIZE)
    time = ints([entry.get("time_us") for entry in rows], tally, "time", MAX_TIME)
    return _frame(
        {
            "action": pl.Series(action.astype(np.uint8)),
            "time": pl.Series(time) * 1000,
            "address": ints([entry.get("addr", entry.get("address")) for entry in rows], tally, "address"),
            "bytes": size * pl.Series(sign, dtype=pl.Int64),
            "reserved": free,
            "stream": ints([entry.get("stream") for entry in rows], tally, "stream"),
            "stack": [stacks.number(entry.get("frames")) for entry in rows],
        },
        device,
        device_type,
    )


def _action(entry: dict[Any, Any]) -> str:
    name = entry.get("action")
    if not isinstance(name, str):
        return "(none)"
    return name if name in ACTIONS else encodable(name)


def end_rows(segments: Iterable[Any], device: int, device_type: int, stacks: Stacks, tally: Tally) -> pl.DataFrame:
    """The end state of one device: each segment, then its blocks.

    A segment's `bytes` is its size, `allocated` its part in use, `requested` the bytes that were requested. A block's
    `allocated` is its size, or 0 if the program freed it while a stream may still use it.
    """
    columns: dict[str, list[Any]] = {
        key: [] for key in ("action", "address", "bytes", "allocated", "stream", "segment", "requested", "stack")
    }

    def add(action: str, frames: Any, **values: Any) -> None:
        columns["action"].append(_CODE[action])
        columns["stack"].append(stacks.number(frames))
        for key in ("address", "bytes", "allocated", "stream", "segment", "requested"):
            columns[key].append(values.get(key))

    for segment in segments:
        base, stream = segment.get("address"), segment.get("stream")
        blocks = [block for block in as_list(segment.get("blocks")) if isinstance(block, dict)]
        used = segment.get("allocated_size")
        if type(used) is not int:
            used = sum(_size(block) for block in blocks if block.get("state") == "active_allocated")
        add("segment", segment.get("frames"), address=base, bytes=segment.get("total_size"), allocated=used,
            stream=stream, segment=base, requested=segment.get("requested_size"))  # fmt: skip
        at = base
        for block in blocks:
            # blocks are in the order of their addresses, which older files leave out
            address = block.get("address", at)
            state = block.get("state")
            in_use = isinstance(state, str) and state in IN_USE
            past = block.get("history")
            first = past[0] if isinstance(past, list) and past and isinstance(past[0], dict) else {}
            requested = block.get("requested_size", first.get("real_size"))
            allocated = _size(block) if block.get("state") == "active_allocated" else 0
            add("block" if in_use else "free_block", block.get("frames", first.get("frames")) if in_use else None,
                address=address, bytes=block.get("size"), allocated=allocated if in_use else None, stream=stream,
                segment=base, requested=requested if in_use else None)  # fmt: skip
            at = address + _size(block) if type(address) is int else None
    numbers = ("address", "bytes", "allocated", "stream", "segment", "requested")
    limits = dict.fromkeys(("bytes", "allocated", "requested"), MAX_SIZE)
    filled: dict[str, Any] = {key: ints(columns[key], tally, key, limits.get(key, MAX_ADDRESS)) for key in numbers}
    filled["action"] = pl.Series(columns["action"], dtype=pl.UInt8)
    filled["stack"] = columns["stack"]
    return _frame(filled, device, device_type)


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def _size(block: dict[Any, Any]) -> int:
    size = block.get("size")
    return size if type(size) is int and 0 <= size <= MAX_SIZE else 0


def _frame(columns: dict[str, Any], device: int, device_type: int) -> pl.DataFrame:
    """Rows with every column, and the stack's number in place of its text."""
    columns["stack"] = pl.Series(columns["stack"], dtype=pl.UInt32)
    frame = pl.DataFrame(columns)
    constant = {"device_type": device_type, "device": device}
    absent = [
        pl.lit(constant.get(name), dtype=pl.Int64).alias(name) for name in schema.MEMORY if name not in frame.columns
    ]
    return frame.with_columns(absent).select(schema.MEMORY.keys())


def finished(frames: list[pl.DataFrame], stacks: Stacks) -> pl.DataFrame:
    """The rows of all devices as one frame of `schema.MEMORY`."""
    if not frames:
        return schema.empty(schema.MEMORY)
    frame = pl.concat(frames)
    codes = encode(stacks.texts)
    return frame.with_columns(
        frame["action"].cat.to(schema.MemoryAction), decode(codes[frame["stack"].to_numpy()]).alias("stack")
    ).cast(schema.MEMORY)  # type: ignore[arg-type]


_SEGMENTS = [_CODE[name] for name in ("segment_alloc", "segment_free", "segment_map", "segment_unmap")]
_NEVER = -1
TOLERATED = 10
"""Other threads may allocate between the copies of the segments and of the history."""


def anchored(rows: pl.DataFrame, end: pl.DataFrame, tally: Tally, *, reserves: bool = True) -> pl.DataFrame:
    """Adds `allocated` and `reserved` after each event to one device's history; null before events that don't add up.

    Args:
        rows: the history, in order.
        end: the rows of the end state of the same device.
        tally: is told if the two don't fit.
        reserves: whether the segments are the driver's; in a snapshot made from a profile they are not.
    """
    action = rows["action"].to_numpy()
    size = rows["bytes"].fill_null(0).to_numpy()
    address = rows["address"].fill_null(_NEVER).to_numpy()
    previous, last = _neighbours(address, action)
    given_back = (action == REQUESTED) | _ends_unasked(action, previous)
    changes = {"allocated": (action == ALLOC) | given_back, "reserved": np.isin(action, _SEGMENTS)}
    segments = end.filter(pl.col("action") == _CODE["segment"])
    strays = _strays(address, action, last, end)
    columns = {"allocated": _walk(np.where(changes["allocated"], size, 0), _total(segments["allocated"])),
               "reserved": np.full(size.size, _NEVER)}  # fmt: skip
    if reserves:
        columns["reserved"] = _walk(np.where(changes["reserved"], size, 0), _total(segments["bytes"]))
    for name, changed in changes.items():  # what was there before a size that is not known is not known either
        columns[name][changed & rows["bytes"].is_null().to_numpy()] = _NEVER
    if strays > max(TOLERATED, size.size // 100):
        tally.missing("recording of what happened between the history and the end state", strays)
        columns["allocated"] = np.full(size.size, _NEVER)
    known = {}
    for name, values in columns.items():
        below = np.flatnonzero(values < 0)
        if below.size and name == "allocated" and strays <= max(TOLERATED, size.size // 100):
            tally.missing("history before an event that the end state does not account for", int(below[-1]) + 1)
        series = pl.Series(np.where(values < 0, 0, values))
        first = int(below[-1]) + 1 if below.size else 0
        known[name] = pl.select(pl.when(pl.int_range(size.size) >= first).then(series)).to_series()
    # an out-of-memory event has the device's free memory in `reserved`, and a mark says nothing about memory
    return rows.with_columns(
        known["allocated"].alias("allocated"),
        pl.when(pl.col("action") == OOM)
        .then(pl.col("reserved"))
        .when(pl.col("action") != OTHER)
        .then(known["reserved"])
        .alias("reserved"),
    )


def _total(values: pl.Series) -> int:
    return int(values.fill_null(0).sum())


def _walk(change: Ints, end: int) -> Ints:
    """The bytes held after each event, given that `end` were held after the last."""
    running = np.cumsum(change)
    total: Ints = end - (running[-1] - running) if running.size else running
    return total


def _neighbours(address: Ints, action: Ints) -> tuple[Ints, Bools]:
    """For each event, the previous action at the same address (-1: none), and whether it is the last one there."""
    block = np.isin(action, (ALLOC, FREE, REQUESTED)) & (address != _NEVER)
    rows = np.flatnonzero(block)
    rows = rows[np.argsort(address[rows], kind="stable")]
    same = address[rows[1:]] == address[rows[:-1]]
    previous = np.full(action.size, _NEVER, np.int64)
    previous[rows[1:][same]] = action[rows[:-1][same]]
    last = np.zeros(action.size, np.bool_)
    last[rows] = np.append(~same, True)[: rows.size]
    return previous, last


def _ends_unasked(action: Ints, previous: Ints) -> Bools:
    """Completed frees without an earlier request: some histories record only one of the two events."""
    asked = bool((action == REQUESTED).any())
    unknown = (previous == _NEVER) & (not asked)
    ends: Bools = (action == FREE) & ((previous == ALLOC) | unknown)
    return ends


def _strays(address: Ints, action: Ints, last: Bools, end: pl.DataFrame) -> int:
    """Blocks in use according to the history but not the end state, or the other way round."""
    used = end.filter((pl.col("action") == _CODE["block"]) & (pl.col("allocated") > 0))["address"]
    if used.null_count():
        return 0
    held = np.isin(address, used.to_numpy())
    return int(np.count_nonzero(last & (held != (action == ALLOC))))


_NUMBERED = re.compile(r"(?:ProfilerStep|(?:train|training)?[ _-]?(?:step|iter|iteration|batch))[ #_:-]*(\d+)", re.I)
_BARE = re.compile(r"step|iteration|(?:train|training)[ _-]?step|batch", re.I)


def annotation_rows(found: Any, end: int | None, tally: Tally) -> pl.DataFrame:
    """`schema.HOST` rows of ``external_annotations``: a list of {stage: START|END, name, device, time_us}.

    An END closes the innermost open range of its name. A range that is still open at the end lasts until `end`, ns.
    """
    rows: list[list[Any]] = []
    stack: list[int] = []
    for event in found if isinstance(found, list) else ():
        stage, name, time = _event(event)
        if stage == "START":
            rows.append([name, time, None, stack[-1] if stack else NONE, len(stack)])
            stack.append(len(rows) - 1)
        elif stage == "END":
            place = next((at for at in range(len(stack) - 1, -1, -1) if rows[stack[at]][0] == name), None)
            if place is None:
                tally.missing("annotation that began before the recording", 1, name)
            else:
                rows[stack.pop(place)][2] = time
        else:
            tally.skipped("annotation that is neither a start nor an end")
    for number in stack:
        rows[number][2] = max(end or 0, rows[number][1])
        tally.repaired("annotation still open at the snapshot", 1, rows[number][0])
    order = sorted(range(len(rows)), key=lambda n: (rows[n][1], -rows[n][2], n))
    place_of = {number: place for place, number in enumerate(order)}
    frame = pl.DataFrame(
        {
            "kind": pl.Series(["annotation"] * len(rows), dtype=pl.String),
            "name": pl.Series([rows[n][0] for n in order], dtype=pl.String),
            "start": pl.Series([rows[n][1] for n in order], dtype=pl.Int64),
            "duration": pl.Series([max(rows[n][2] - rows[n][1], 0) for n in order], dtype=pl.Int64),
            "parent": pl.Series([place_of.get(rows[n][3]) for n in order], dtype=pl.UInt32),
            "depth": pl.Series([rows[n][4] for n in order], dtype=pl.Int16),
        }
    )
    return schema.filled(schema.HOST, frame)


def _event(event: Any) -> tuple[str, str, int]:
    if not isinstance(event, dict):
        return "", "", 0
    stage, name, time = event.get("stage"), event.get("name"), event.get("time_us")
    if not isinstance(stage, str) or not isinstance(name, str) or type(time) is not int or not 0 <= time < 1 << 53:
        return "", "", 0
    return stage, encodable(name), time * 1000


def step_rows(host: pl.DataFrame) -> pl.DataFrame:
    """`schema.STEPS`: ranges named as iterations (``ProfilerStep#3``, ``step 3``), else one name that repeats.

    Such a name must be step, iteration, train_step or batch, and its ranges not inside another of these; they are
    numbered from 0.
    """
    ranges = host.select(pl.col("name").cast(pl.String), "start", "duration", "depth").sort("start")
    numbered = [(match[1], row) for row in ranges.iter_rows() if (match := _NUMBERED.fullmatch(row[0]))]
    chosen = [(int(number[:18]), *row[:3]) for number, row in numbered]
    if not chosen:
        bare = [row for row in ranges.iter_rows() if _BARE.fullmatch(row[0])]
        shallow = min((row[3] for row in bare), default=0)
        names = {row[0] for row in bare if row[3] == shallow}
        if len(names) == 1 and len(bare) > 1:
            chosen = [(place, *row[:3]) for place, row in enumerate(row for row in bare if row[3] == shallow)]
    return pl.DataFrame(chosen, schema=schema.STEPS, orient="row")


TOOL = "PyTorch CUDA memory snapshot"
HOW = "give what torch.cuda.memory._dump_snapshot wrote"
PIECE = 8 << 20
MAX_CONTENT = 4 << 30
"""The most bytes of a pickle, inflated; a snapshot of the longest history is far smaller."""
CPU, CUDA = 0, 1
_TORCH_SAVE = 0x1950A86A20F9469CFC6C
"""The number at the start of a torch.save file in the format before zip."""


def read_memory_snapshot(path: Path, watch: Watch) -> Trace:
    """Reads the history and then the end state as MEMORY rows, annotations as HOST rows, and iterations as steps.

    Raises:
        TraceError: it is not a memory snapshot, or a pickle that needs more than plain containers; nothing is executed.
        Cancelled: stopped before all of it was read, since an incomplete pickle means nothing.
    """
    tally = Tally()
    with no_collecting():
        size, data, damage = _content(path, watch)

        def tick(done: int) -> None:
            if watch.cancelled:
                raise Cancelled
            watch.report(Progress("reading", size * done // max(len(data), 1), size, 0, path))

        try:
            loaded = load_plain(data, tick)
        except Refused as reason:
            raise TraceError(path, f"{reason}; it was not loaded", HOW) from None
        snapshot = _snapshot(path, loaded, len(data), damage, tally)
        watch.report(Progress("linking", size, size, 0, path))
        trace = _trace(path, size, len(data), snapshot, tally)
        del loaded, snapshot
    return trace


def _content(path: Path, watch: Watch) -> tuple[int, bytes, str]:
    """The file's size, its whole content, and why that ends early."""
    pieces: list[bytes] = []
    total = 0
    with ByteSource(path) as source:
        for block in source.blocks(PIECE, watch):
            pieces.append(bytes(block))
            total += len(block)
            if total > MAX_CONTENT:
                raise TraceError(path, "a pickle of more than 4 GiB", "record fewer entries: max_entries=100000")
        return source.size, b"".join(pieces), source.damage or ""


def _snapshot(path: Path, loaded: Loaded, content: int, damage: str, tally: Tally) -> dict[str, Any]:
    """The snapshot in a pickle, as far as it can be read."""
    value = loaded.value
    if loaded.damage:
        value = recovered(loaded.pieces)
        if value is None:
            if not content:
                raise TraceError(path, "empty file", HOW)
            if not loaded.pieces:
                raise TraceError(path, f"not a pickle ({loaded.damage})", HOW)
            raise TraceError(path, f"a pickle that is {loaded.damage} and holds no entry of a memory snapshot", HOW)
        cause = f"{loaded.damage}; {damage}" if damage else loaded.damage
        tally.missing("rest of the pickle: it is damaged or ends early", 1, cause)
        return value
    is_segment = [isinstance(item, dict) and {"total_size", "blocks"} <= item.keys() for item in as_list(value)]
    if is_segment and all(is_segment):
        # torch.cuda.memory_snapshot(), the older form without a history
        return {"segments": value}
    if isinstance(value, dict) and any(isinstance(value.get(key), list) for key in ("segments", "device_traces")):
        return value
    raise TraceError(path, f"a pickle, but no CUDA memory snapshot: it holds {_described(value)}", HOW)


def _described(value: object) -> str:
    if value == _TORCH_SAVE:
        return "the beginning of a torch.save file"
    if isinstance(value, dict):
        names = ", ".join(key[:30] for key in list(value)[:3] if isinstance(key, str))
        return f"a dict of {len(value):,} keys" + (f" ({names}, …)" if names else "")
    if isinstance(value, (list, tuple, set)):
        return f"a {type(value).__name__} of {len(value):,}"
    return f"one {type(value).__name__}"


def _trace(path: Path, size: int, content: int, snapshot: dict[str, Any], tally: Tally) -> Trace:
    histories = [as_list(history) for history in as_list(snapshot.get("device_traces"))]
    held = as_list(snapshot.get("segments"))
    segments = [segment for segment in held if isinstance(segment, dict)]
    tally.skipped("segment that is no record", len(held) - len(segments))
    entries = sum(isinstance(entry, dict) for history in histories for entry in history)
    cpu = len(histories) - 1 if _from_profile(histories, segments) else None
    if cpu is not None:
        tally.missing("segments of the driver: the snapshot was made from a profile")
    if "segments" not in snapshot:
        tally.missing("end state: the curve can't be anchored")
    if not entries:
        tally.missing("history: record it with torch.cuda.memory._record_memory_history()")
    # a history that was cut off does not end in the state that the segments describe
    whole = "segments" in snapshot and not snapshot.get("cut")
    stacks = Stacks(max(4 * content, 256 << 20))
    by_device: dict[int, list[dict[str, Any]]] = {}
    for segment in segments:
        device = segment.get("device", 0)
        by_device.setdefault(device if type(device) is int and abs(device) < 1 << 31 else 0, []).append(segment)
    devices = sorted({*by_device, *(d for d, history in enumerate(histories) if history)})
    past, present = [], []
    for device in devices:
        kind = CPU if device == cpu else CUDA
        number = -1 if device == cpu else device
        end = end_rows(by_device.get(device, []), number, kind, stacks, tally)
        if 0 <= device < len(histories) and histories[device]:
            rows = trace_rows(histories[device], number, kind, stacks, tally)
            if whole:
                rows = anchored(rows, end, tally, reserves=cpu is None)
            past.append(rows)
        present.append(end if cpu is None else end.filter(pl.col("action") != _CODE["segment"]))
    tally.repaired("stack longer than there is room for, shortened", stacks.cut)
    memory = finished([_merged(past), *present] if past else present, stacks)
    times = memory["time"].drop_nulls()
    first, last = (int(times.min()), int(times.max())) if times.len() else (None, None)  # type: ignore[arg-type]
    host = annotation_rows(snapshot.get("external_annotations"), last, tally)
    return Trace(
        steps=step_rows(host),
        host=host,
        memory=memory,
        info=TraceInfo(
            kind="memory_snapshot",
            tool=TOOL,
            devices=tuple(DeviceInfo(id=device) for device in devices if device != cpu),
            captured=_captured(snapshot.get("allocator_settings")),
            window=None if first is None or last is None else (first, last - first),
            base_time=0 if first is not None else None,
        ),
        source=Source(path=path, bytes=size, events_total=entries + tally.skipped_events, events_parsed=entries),
        notes=tally.notes(),
    )


def _from_profile(histories: list[list[Any]], segments: list[dict[str, Any]]) -> bool:
    """Whether `_memory_viz._profile_to_snapshot` made it: a list per GPU and one for the CPU, with categories."""
    first = next((entry for history in histories for entry in history if isinstance(entry, dict)), {})
    return "category" in first and "time_us" not in first and not any("allocated_size" in s for s in segments)


def _merged(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Merges the histories of all devices by time, each in its own order; concatenates them if times are unknown."""
    rows = pl.concat(frames)
    if len(frames) < 2 or rows["time"].null_count():
        return rows
    clock = pl.concat([frame.select(pl.col("time").cum_max()) for frame in frames])["time"]
    return rows[clock.arg_sort()] if clock.is_sorted() else rows[np.argsort(clock.to_numpy(), kind="stable")]


def _captured(settings: Any) -> tuple[tuple[str, str], ...]:
    """The allocator's settings, without the environment variable that they came from."""
    if not isinstance(settings, dict):
        return ()
    return tuple(
        (key, str(value))
        for key, value in settings.items()
        if isinstance(key, str) and not key.isupper() and isinstance(value, (bool, int, float)) and abs(value) < 1e18
    )
