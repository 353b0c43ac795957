"""Keeps parsed traces in the user's cache directory, so that opening them again needs no parsing.

An entry is a folder: the six frames as Arrow IPC and a JSON file with the context. It is written under a temporary
name and renamed when complete, so two processes may write the same one. The oldest go when the whole grows too large.
The cache's folder may be one in which the user keeps other things: only what this module wrote there is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
import zlib
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec import Struct
from msgspec.json import decode, encode

from tracetui.parsers import schema
from tracetui.parsers.runs.side_files import opened, read_text
from tracetui.parsers.trace import FRAMES, MarkedBy, Note, Replays, Source, Trace, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

PARSER_VERSION = 25
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
_FILES = frozenset({_CONTEXT, *(f"{name}.arrow" for name in FRAMES)})
_ENTRY = re.compile(r"[0-9a-f]{40}")
_UNFINISHED = ".writing-"


class _Context(Struct):
    """What an entry holds beside its frames."""

    info: TraceInfo
    source: dict[str, Any]
    """The fields of `Source` but its path."""
    notes: tuple[Note, ...]
    marked_by: MarkedBy | None
    replays: Replays | None
    frames: dict[str, int]
    """A checksum of the file of each frame."""
    nothing: dict[str, list[str]]
    """The columns of each frame that have no value, and were not written."""


class CacheInfo(Struct, frozen=True):
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
    """The name of a file's entry: its size, times of change, samples of its content, and the parser's version."""
    digest = hashlib.blake2b(digest_size=20)
    stat = path.stat()
    layout = [(frame, str(columns)) for frame, columns in zip(FRAMES, _layouts(), strict=True)]
    digest.update(repr((PARSER_VERSION, pl.__version__, layout, *state_of(stat))).encode())
    with path.open("rb") as file:
        for number in range(SAMPLES):
            file.seek(max(0, (stat.st_size - SAMPLE_BYTES) * number // (SAMPLES - 1)))
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def state_of(stat: os.stat_result) -> tuple[int, ...]:
    """What changes when a file gets other content, also where a program sets its time of change back."""
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _layouts() -> tuple[dict[str, pl.DataType], ...]:
    return schema.STEPS, schema.HOST, schema.DEVICE, schema.MEMORY, schema.COUNTERS, schema.COLLECTIVES


def load(key: str, path: Path) -> Trace | None:
    """The trace cached under this key, with `path` as its source; None if there is none or it is not what was stored.

    An entry that is not what was stored is removed, so that a whole one can take its place.
    """
    entry = folder() / key
    if not entry.is_dir():
        return None
    try:
        trace = _read(entry, path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, pl.exceptions.PolarsError):
        _remove(entry)
        return None
    with suppress(OSError):  # a cache that can only be read
        os.utime(entry)  # the least recently used go first
    return trace


def _read(entry: Path, path: Path) -> Trace:
    """The trace of an entry.

    Raises:
        ValueError: a file of it has other content than was written, or it is another trace's entry.
    """
    checked = json.loads(read_text(entry / _CONTEXT))
    text = checked["context"]
    if checked["key"] != entry.name or checked["check"] != zlib.crc32(text.encode()):
        raise ValueError(f"{entry} is damaged")
    context = decode(text, type=_Context)
    for name in FRAMES:
        if _check(entry / f"{name}.arrow") != context.frames[name]:
            raise ValueError(f"{name} of {entry} is damaged")
    read = pl.collect_all([pl.scan_ipc(entry / f"{name}.arrow") for name in FRAMES])
    frames: dict[str, Any] = {
        name: _with_nothing(read.pop(0), layout, context.nothing[name])
        for name, layout in zip(FRAMES, _layouts(), strict=True)
    }
    _fits(frames)
    return Trace(
        **frames,
        info=context.info,
        source=Source(**{**context.source, "path": path}),
        notes=context.notes,
        marked_by=context.marked_by,
        replays=context.replays,
    )


def _nothing(frame: pl.DataFrame) -> list[str]:
    """The columns without a value, which need not be written; the first column tells how many rows there are."""
    if not frame.height:
        return []
    return [column.name for column in frame.get_columns()[1:] if column.null_count() == frame.height]


def _with_nothing(frame: pl.DataFrame, layout: dict[str, pl.DataType], nothing: list[str]) -> pl.DataFrame:
    """The frame with the columns that were not written, in the order of its schema.

    Raises:
        ValueError: it has columns that it should not have.
    """
    if not nothing:
        return frame
    if not set(nothing).isdisjoint(frame.columns):
        raise ValueError("a column without values was written")
    frame = frame.with_columns(pl.lit(None, layout[name]).alias(name) for name in nothing)
    return frame.select([name for name in layout if name in frame.columns])


ROW_IDS = {
    "host": {"parent": "host", "forward": "host"},
    "device": {"launch": "host", "operator": "host", "module": "host", "forward_module": "host", "range": "host",
               "step": "steps"},
    "memory": {"operator": "host"},
    "counters": {"device_row": "device"},
}  # fmt: skip
"""Which frame the row ids in a frame's columns point to."""


def _fits(frames: dict[str, pl.DataFrame]) -> None:
    """Checks that frames have the columns of their schema, and that row ids point to rows.

    Raises:
        ValueError: they do not.
    """
    for (name, frame), layout in zip(frames.items(), _layouts(), strict=True):
        if frame.schema != pl.Schema(layout):
            raise ValueError(f"{name} has other columns")
        for column, of in ROW_IDS.get(name, {}).items():
            last = frame[column].max()
            if isinstance(last, int) and last >= frames[of].height:
                raise ValueError(f"{column} of {name} points behind the last row of {of}")


def _check(path: Path) -> int:
    """A checksum of a file: it finds damage, and the frame of another trace; it is no guard against an attacker."""
    check = 0
    with opened(path) as (file, _):
        while part := file.read(1 << 20):
            check = zlib.crc32(part, check)
    return check


def store(key: str, trace: Trace) -> None:
    """Caches a trace; with a full disk or a read-only home it does nothing."""
    if trace.source.bytes < MIN_SOURCE_BYTES or limit() <= 0:
        return
    target = folder() / key
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=target.parent))
    except OSError:
        return
    _writing.add(scratch)
    try:
        _write(scratch, key, trace)
        if not target.exists():
            scratch.rename(target)
    except (OSError, ValueError, pl.exceptions.PolarsError):  # a text with half a surrogate pair, too
        pass
    finally:
        _remove(scratch)
        _writing.discard(scratch)
    _trim(limit(), keep=target)


def _write(scratch: Path, key: str, trace: Trace) -> None:
    """Writes the files of an entry."""
    checks, nothing = {}, {}
    for name in FRAMES:
        file, frame = scratch / f"{name}.arrow", getattr(trace, name)
        nothing[name] = _nothing(frame)
        # one batch, so that each column comes back in one piece, which NumPy then sees without a copy
        frame.drop(nothing[name]).write_ipc(file, compression="lz4", record_batch_size=max(frame.height, 1))
        checks[name] = _check(file)
    source = {field: value for field, value in asdict(trace.source).items() if field != "path"}
    text = encode(_Context(trace.info, source, trace.notes, trace.marked_by, trace.replays, checks, nothing)).decode()
    checked = {"key": key, "check": zlib.crc32(text.encode()), "context": text}
    (scratch / _CONTEXT).write_text(json.dumps(checked))


def abandon() -> None:
    """Removes half-written entries; for a program that ends now, whatever its threads are doing."""
    for scratch in tuple(_writing):
        gone = scratch.with_name(f"{scratch.name}-gone")
        with suppress(OSError):  # renamed first: by now it may be complete and in its place
            scratch.rename(gone)
            _remove(gone)


def info() -> CacheInfo:
    """How much the cache holds."""
    entries = list(_entries())
    return CacheInfo(folder(), len(entries), sum(size for _, _, size in entries), limit())


def clear() -> CacheInfo:
    """Empties the cache; returns what it held."""
    before = info()
    for _, entry, _ in _entries():
        _remove(entry)
    return before


def _entries() -> Iterator[tuple[float, Path, int]]:
    """(last use, folder, bytes) of each entry, unfinished ones included; nothing else that lies in the folder."""
    try:
        found = list(folder().iterdir())
    except OSError:
        return
    for entry in found:
        try:
            if _is_ours(entry):
                yield entry.stat().st_mtime, entry, sum(file.stat().st_size for file in entry.iterdir())
        except OSError:  # noqa: PERF203  another process took it away
            continue


def _is_ours(entry: Path) -> bool:
    """Returns whether this module made a folder: its name says so, and it holds an entry's files and nothing else."""
    if not (_ENTRY.fullmatch(entry.name) or entry.name.startswith(_UNFINISHED)):
        return False
    if entry.is_symlink() or not entry.is_dir():
        return False
    return all(file.name in _FILES and file.is_file() for file in entry.iterdir())


def _remove(entry: Path) -> None:
    """Removes an entry's own files, and its folder if nothing else is in it."""
    with suppress(OSError):
        for name in _FILES:
            (entry / name).unlink(missing_ok=True)
        entry.rmdir()


def _trim(allowed: int, keep: Path) -> None:
    entries = sorted(_entries())
    held = sum(size for _, _, size in entries)
    for used, entry, size in entries:
        if entry.name.startswith(_UNFINISHED) and time.time() - used > LEFTOVER_SECONDS:
            _remove(entry)
            held -= size
    for _, entry, size in entries:
        if held <= allowed:
            return
        if entry != keep and not entry.name.startswith(_UNFINISHED):
            _remove(entry)
            held -= size
