"""Keeps parsed traces in the user's cache directory, so that opening them again needs no parsing.

An entry is a folder: the five frames as Arrow IPC and a JSON file with the context. It is written under a temporary
name and renamed when complete, so two processes may write the same one. The oldest go when the whole grows too large.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.trace import FRAMES, DeviceInfo, MarkedBy, Note, Source, Trace, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

PARSER_VERSION = 11
"""Raise this whenever a reader gives another result for the same file."""
MAX_BYTES = 4 << 30
"""How much the cache may hold; ``TRACETUI_CACHE_MB`` overrides it, 0 turns the cache off."""
MIN_SOURCE_BYTES = 1 << 16
"""Smaller files are not cached, since parsing them is faster than finding their entry."""
SAMPLES, SAMPLE_BYTES = 16, 1 << 16
LEFTOVER_SECONDS = 86_400
"""An unfinished entry that was not written to for this long belongs to a program that was killed."""
_writing: set[Path] = set()
"""Unfinished entries of this process."""
_CONTEXT = "context.json"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the cache holds."""

    folder: Path
    entries: int
    bytes: int
    limit: int


def folder() -> Path:
    """Where entries live: ``TRACETUI_CACHE_DIR``, else the platform's user cache directory."""
    if chosen := os.environ.get("TRACETUI_CACHE_DIR"):
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("tracetui", appauthor=False) / "traces"


def limit() -> int:
    """How many bytes the cache may hold."""
    try:
        return int(os.environ["TRACETUI_CACHE_MB"]) << 20
    except (KeyError, ValueError):
        return MAX_BYTES


def key_of(path: Path) -> str:
    """The name of a file's entry: its size, time of change, samples of its content, and the parser's version."""
    digest = hashlib.blake2b(digest_size=20)
    stat = path.stat()
    layout = [(frame, str(columns)) for frame, columns in zip(FRAMES, _layouts(), strict=True)]
    digest.update(repr((PARSER_VERSION, pl.__version__, layout, stat.st_size, stat.st_mtime_ns)).encode())
    with path.open("rb") as file:
        for number in range(SAMPLES):
            file.seek(max(0, (stat.st_size - SAMPLE_BYTES) * number // (SAMPLES - 1)))
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def _layouts() -> tuple[dict[str, pl.DataType], ...]:
    return schema.STEPS, schema.HOST, schema.DEVICE, schema.MEMORY, schema.COUNTERS


def load(key: str, path: Path) -> Trace | None:
    """The trace cached under this key, with `path` as its source; None if there is none or it can't be used."""
    entry = folder() / key
    try:
        context = json.loads((entry / _CONTEXT).read_bytes())
        read = pl.collect_all([pl.scan_ipc(entry / f"{name}.arrow") for name in FRAMES])
        frames = dict(zip(FRAMES, read, strict=True))
        trace = Trace(
            steps=frames["steps"],
            host=frames["host"],
            device=frames["device"],
            memory=frames["memory"],
            counters=frames["counters"],
            info=_info(context["info"]),
            source=Source(**{**context["source"], "path": path}),
            notes=tuple(Note(**note) for note in context["notes"]),
            marked_by=None if context["marked_by"] is None else MarkedBy(**context["marked_by"]),
        )
        os.utime(entry)  # the least recently used go first
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        return None
    return trace


def store(key: str, trace: Trace) -> None:
    """Caches a trace; with a full disk or a read-only home it does nothing."""
    if trace.source.bytes < MIN_SOURCE_BYTES or limit() <= 0:
        return
    target = folder() / key
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".writing-", dir=target.parent))
    except OSError:
        return
    _writing.add(scratch)
    try:
        for name in FRAMES:
            getattr(trace, name).write_ipc(scratch / f"{name}.arrow", compression="lz4")
        source = {field: value for field, value in asdict(trace.source).items() if field != "path"}
        context = {
            "info": asdict(trace.info),
            "source": source,
            "notes": [asdict(note) for note in trace.notes],
            "marked_by": None if trace.marked_by is None else asdict(trace.marked_by),
        }
        (scratch / _CONTEXT).write_text(json.dumps(context))
        if not target.exists():
            scratch.rename(target)
    except (OSError, pl.exceptions.PolarsError):
        pass
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        _writing.discard(scratch)
    _trim(limit(), keep=target)


def abandon() -> None:
    """Removes half-written entries; for a program that ends now, whatever its threads are doing."""
    for scratch in tuple(_writing):
        gone = scratch.with_name(f"{scratch.name}-gone")
        with suppress(OSError):  # renamed first: by now it may be complete and in its place
            scratch.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


def info() -> CacheInfo:
    """How much the cache holds."""
    entries = list(_entries())
    return CacheInfo(folder(), len(entries), sum(size for _, _, size in entries), limit())


def clear() -> CacheInfo:
    """Empties the cache; returns what it held."""
    before = info()
    for _, entry, _ in _entries():
        shutil.rmtree(entry, ignore_errors=True)
    return before


def _entries() -> Iterator[tuple[float, Path, int]]:
    """(last use, folder, bytes) of each entry, unfinished ones included."""
    try:
        found = list(folder().iterdir())
    except OSError:
        return
    for entry in found:
        try:
            yield entry.stat().st_mtime, entry, sum(file.stat().st_size for file in entry.iterdir())
        except OSError:  # noqa: PERF203  another process took it away
            continue


def _trim(allowed: int, keep: Path) -> None:
    entries = sorted(_entries())
    held = sum(size for _, _, size in entries)
    for used, entry, size in entries:
        if entry.name.startswith(".writing-") and time.time() - used > LEFTOVER_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)
            held -= size
    for _, entry, size in entries:
        if held <= allowed:
            return
        if entry != keep and not entry.name.startswith(".writing-"):
            shutil.rmtree(entry, ignore_errors=True)
            held -= size


def _info(values: dict[str, Any]) -> TraceInfo:
    """Reads a TraceInfo from JSON, where tuples have become lists."""
    values["devices"] = tuple(DeviceInfo(**device) for device in values["devices"])
    for name in ("captured", "processes", "threads"):
        values[name] = tuple(tuple(entry) for entry in values[name])
    if values["window"] is not None:
        values["window"] = tuple(values["window"])
    return TraceInfo(**values)
