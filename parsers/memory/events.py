"""Turns a memory snapshot's entries into rows of `schema.MEMORY`: the allocator's actions and its end state."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.categories import decode, encodable, encode
from tracetui.parsers.names.people import without_home
from tracetui.parsers.schema import MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tracetui.parsers.tally import Tally

    Ints = NDArray[np.int64]

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


def as_list(value: Any) -> list[Any]:
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
        pl.Series(
            "action", [schema.MEMORY_ACTIONS[code] for code in range(len(schema.MEMORY_ACTIONS))], dtype=pl.String
        )
        .gather(frame["action"])
        .cast(schema.MemoryAction)
        .alias("action"),
        decode(codes[frame["stack"].to_numpy()]).alias("stack"),
    ).cast(schema.MEMORY)  # type: ignore[arg-type]
