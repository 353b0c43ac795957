"""Keeps parsed traces in the user's cache directory, so that opening them again needs no parsing.

An entry (`entries`) holds the six frames as Arrow IPC and a JSON file with the context.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import Struct
from msgspec.json import decode, encode

from tracetui.parsers import schema
from tracetui.parsers.runs import entries
from tracetui.parsers.runs.side_files import opened, read_text
from tracetui.parsers.trace import FRAMES, MarkedBy, Note, Replays, Source, Trace, TraceInfo

PARSER_VERSION = 36
"""Raise this whenever a reader gives another result for the same file."""
MIN_SOURCE_BYTES = 1 << 16
"""Smaller files are not cached, since parsing them is faster than finding their entry."""
SAMPLES, SAMPLE_BYTES = 16, 1 << 16


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


def key_of(path: Path) -> str:
    """The name of a file's entry: its size, times of change, samples of its content, and the parser's version."""
    digest = hashlib.blake2b(digest_size=20)
    stat = path.stat()
    layout = [(frame, str(columns)) for frame, columns in zip(FRAMES, _layouts(), strict=True)]
    digest.update(repr((PARSER_VERSION, pl.__version__, layout, *entries.state_of(stat))).encode())
    with path.open("rb") as file:
        for number in range(SAMPLES):
            file.seek(max(0, (stat.st_size - SAMPLE_BYTES) * number // (SAMPLES - 1)))
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def _layouts() -> tuple[dict[str, pl.DataType], ...]:
    return schema.STEPS, schema.HOST, schema.DEVICE, schema.MEMORY, schema.COUNTERS, schema.COLLECTIVES


def load(key: str, path: Path) -> Trace | None:
    """The trace cached under this key, with `path` as its source; None if there is none or it is not what was stored.

    An entry that is not what was stored is removed, so that a whole one can take its place.
    """
    entry = entries.folder() / key
    if not entry.is_dir():
        return None
    try:
        trace = _read(entry, path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, pl.exceptions.PolarsError):
        entries.remove(entry)
        return None
    entries.used(entry)
    return trace


def _read(entry: Path, path: Path) -> Trace:
    """The trace of an entry.

    Raises:
        ValueError: a file of it has other content than was written, or it is another trace's entry.
    """
    checked = json.loads(read_text(entry / entries.CONTEXT))
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
    """Caches a trace, unless it is small or can't be written."""
    if trace.source.bytes >= MIN_SOURCE_BYTES:
        entries.keep(key, lambda scratch: _write(scratch, key, trace))


def _write(scratch: Path, key: str, trace: Trace) -> None:
    """Writes the files of an entry.

    Raises:
        ValueError: a frame can't be written.
    """
    checks, nothing = {}, {}
    for name in FRAMES:
        file, frame = scratch / f"{name}.arrow", getattr(trace, name)
        nothing[name] = _nothing(frame)
        # one batch, so that each column comes back in one piece, which NumPy then sees without a copy
        try:
            frame.drop(nothing[name]).write_ipc(file, compression="lz4", record_batch_size=max(frame.height, 1))
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"{name} was not written") from error
        checks[name] = _check(file)
    source = {field: value for field, value in asdict(trace.source).items() if field != "path"}
    text = encode(_Context(trace.info, source, trace.notes, trace.marked_by, trace.replays, checks, nothing)).decode()
    checked = {"key": key, "check": zlib.crc32(text.encode()), "context": text}
    (scratch / entries.CONTEXT).write_text(json.dumps(checked))
