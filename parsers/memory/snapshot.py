"""Reads, without torch, what `torch.cuda.memory._dump_snapshot` writes: the allocator's history and end state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.memory import events as memory_events
from tracetui.parsers.memory.curve import anchored
from tracetui.parsers.memory.pickle_scan import Loaded, Refused, load_plain, no_collecting
from tracetui.parsers.memory.pieces import recovered
from tracetui.parsers.memory.ranges import annotation_rows, step_rows
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import DeviceInfo, Source, Trace, TraceInfo

if TYPE_CHECKING:
    from pathlib import Path

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
        while True:
            if watch.cancelled:
                raise Cancelled
            buffer = np.empty(min(PIECE, max(source.size, 1) + 1) if not source.is_gzip else PIECE, np.uint8)
            count = source.read_into(buffer, 0, buffer.size)
            pieces.append(buffer[:count].tobytes())
            total += count
            if total > MAX_CONTENT:
                raise TraceError(path, "a pickle of more than 4 GiB", "record fewer entries: max_entries=100000")
            if count < buffer.size:
                return source.size, b"".join(pieces), source.damage or ""
            watch.report(Progress("reading", source.compressed_position(), source.size, 0, path))


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
    if isinstance(value, list) and _are_segments(value) and value:
        # torch.cuda.memory_snapshot(), the older form without a history
        return {"segments": value}
    if isinstance(value, dict) and any(isinstance(value.get(key), list) for key in ("segments", "device_traces")):
        return value
    raise TraceError(path, f"a pickle, but no CUDA memory snapshot: it holds {_described(value)}", HOW)


def _described(value: Any) -> str:
    if value == _TORCH_SAVE:
        return "the beginning of a torch.save file"
    if isinstance(value, dict):
        names = ", ".join(key[:30] for key in list(value)[:3] if isinstance(key, str))
        return f"a dict of {len(value):,} keys" + (f" ({names}, …)" if names else "")
    if isinstance(value, (list, tuple, set)):
        return f"a {type(value).__name__} of {len(value):,}"
    return f"one {type(value).__name__}"


def _are_segments(value: list[Any]) -> bool:
    return all(isinstance(item, dict) and "total_size" in item and "blocks" in item for item in value)


def _trace(path: Path, size: int, content: int, snapshot: dict[str, Any], tally: Tally) -> Trace:
    histories = [h if isinstance(h, list) else [] for h in memory_events.as_list(snapshot.get("device_traces"))]
    segments = [s for s in memory_events.as_list(snapshot.get("segments")) if isinstance(s, dict)]
    tally.skipped("segment that is no record", len(memory_events.as_list(snapshot.get("segments"))) - len(segments))
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
    stacks = memory_events.Stacks(max(4 * content, 256 << 20))
    by_device: dict[int, list[dict[str, Any]]] = {}
    for segment in segments:
        device = segment.get("device", 0)
        by_device.setdefault(device if type(device) is int and abs(device) < 1 << 31 else 0, []).append(segment)
    devices = sorted({*by_device, *(d for d, history in enumerate(histories) if history)})
    past, present = [], []
    for device in devices:
        kind = CPU if device == cpu else CUDA
        number = -1 if device == cpu else device
        end = memory_events.end_rows(by_device.get(device, []), number, kind, stacks, tally)
        if 0 <= device < len(histories) and histories[device]:
            rows = memory_events.trace_rows(histories[device], number, kind, stacks, tally)
            if whole:
                rows = anchored(rows, end, tally, reserves=cpu is None)
            past.append(rows)
        present.append(end if cpu is None else end.filter(pl.col("action") != _SEGMENT))
    tally.repaired("stack longer than there is room for, shortened", stacks.cut)
    memory = memory_events.finished([_merged(past), *present] if past else present, stacks)
    times = memory["time"].drop_nulls()
    first, last = (int(times.min()), int(times.max())) if times.len() else (None, None)  # type: ignore[arg-type]
    host = annotation_rows(snapshot.get("external_annotations"), last, tally)
    return Trace(
        steps=step_rows(host),
        host=host,
        device=schema.empty(schema.DEVICE),
        memory=memory,
        counters=schema.empty(schema.COUNTERS),
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


_SEGMENT = schema.MEMORY_ACTIONS.index("segment")


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
