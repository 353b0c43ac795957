"""Summaries of ranks as a file: a header in JSON, then the frames of all of them as Arrow IPC.

A file has one rank or many: opening a thousand small ones takes a second, one of a thousand a tenth of it. What is
torn, of another version, of something else, or of a recording that has changed since, counts as none.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.ranks import summary
from tracetui.analysis.ranks.summary import FRAMES, VERSION, RankSummary
from tracetui.parsers.trace import Note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAGIC = b"tracetui rank summary\n"
SUFFIX = ".tracetui-rank"
"""How names of such files end."""
_LENGTHS = struct.Struct("<II")
"""After the magic: how long the header is, and the checksum of it and all that follows."""
_SAMPLES, _SAMPLE_BYTES = 4, 4096
_SCHEMAS = {
    "steps": summary.STEPS,
    "collectives": summary.COLLECTIVES,
    "work": summary.WORK,
    "kernels": summary.KERNELS,
}
_TUPLES = ("window", "groups", "clean_step_ns", "environment")


@dataclass(frozen=True, slots=True)
class Stored:
    """A summary, and what it was made from."""

    summary: RankSummary
    mark: str
    """Which state of the recording it was made from (`mark_of`)."""
    source: str
    """Where that recording stood."""


def mark_of(path: Path) -> str:
    """What changes when a recording gets other content: its size, when it was written, and some of its bytes.

    Four small samples: a gzip file ends with the checksum of all of it, and a recording is never edited in place
    without its time changing.

    Raises:
        OSError: it can't be read.
    """
    with path.open("rb") as file:
        stat = os.fstat(file.fileno())
        check = 0
        for number in range(_SAMPLES):
            file.seek(max(0, stat.st_size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            check = zlib.crc32(file.read(_SAMPLE_BYTES), check)
    return f"{stat.st_size}-{stat.st_mtime_ns}-{check:08x}"


def packed(entries: Sequence[Stored]) -> bytes:
    """The content of a file for some ranks."""
    frames = {name: [getattr(entry.summary, name) for entry in entries] for name in FRAMES}
    joined = [
        _ipc(pl.concat(parts) if parts else pl.DataFrame(schema=_SCHEMAS[name])) for name, parts in frames.items()
    ]
    header = {
        "version": VERSION,
        "frames": [len(content) for content in joined],
        "ranks": [
            {
                "mark": entry.mark,
                "source": entry.source,
                "rows": [frames[name][number].height for name in FRAMES],
                "summary": _header(entry.summary),
            }
            for number, entry in enumerate(entries)
        ],
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    body = b"".join((text, *joined))
    return MAGIC + _LENGTHS.pack(len(text), zlib.crc32(body)) + body


def unpacked(content: bytes) -> list[Stored]:
    """What a file of this content holds; nothing where it is not of this version, or not whole."""
    return _told(content)[0]


TORN = "is torn, or no summary of ranks"


def _told(content: bytes) -> tuple[list[Stored], str]:
    """What a file of this content holds, and where that is nothing, why."""
    start = len(MAGIC) + _LENGTHS.size
    if len(content) < start or not content.startswith(MAGIC):
        return [], TORN
    length, check = _LENGTHS.unpack_from(content, len(MAGIC))
    body = memoryview(content)[start:]
    if zlib.crc32(body) != check:
        return [], TORN
    try:
        header = json.loads(bytes(body[:length]).decode("utf-8", "surrogatepass"))
        if header["version"] != VERSION:
            return [], "was written by another version of tracetui"
        at, frames = length, {}
        for name, size in zip(FRAMES, header["frames"], strict=True):
            frames[name], at = pl.read_ipc(io.BytesIO(body[at : at + size])), at + size
        if any(dict(frame.schema) != _SCHEMAS[name] for name, frame in frames.items()):
            return [], TORN
        return list(_entries(header["ranks"], frames)), ""
    except (ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        return [], TORN


def _entries(ranks: list[dict[str, Any]], frames: dict[str, pl.DataFrame]) -> Iterator[Stored]:
    """Each rank's entry, its frames being slices of those of all."""
    at = dict.fromkeys(FRAMES, 0)
    for entry in ranks:
        own = {}
        for name, rows in zip(FRAMES, entry["rows"], strict=True):
            own[name], at[name] = frames[name].slice(at[name], rows), at[name] + rows
        yield Stored(_summary(entry["summary"], own), entry["mark"], entry["source"])


def load(path: Path) -> list[Stored]:
    """What a file holds; nothing where it is not of this version, torn, or can't be read."""
    return load_told(path)[0]


def load_told(path: Path) -> tuple[list[Stored], str]:
    """What a file holds, and where that is nothing, why: ``is torn, or no summary of ranks``."""
    try:
        return _told(path.read_bytes())
    except OSError as error:
        return [], f"can't be read: {(error.strerror or str(error)).lower()}"


def _ipc(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.rechunk().write_ipc(buffer, compression="lz4")
    return buffer.getvalue()


def _header(found: RankSummary) -> dict[str, Any]:
    values = {field.name: getattr(found, field.name) for field in fields(found) if field.name not in FRAMES}
    notes = [[note.kind, note.reason, note.count, note.example] for note in found.notes]
    return {**values, "notes": notes}


def _summary(values: dict[str, Any], frames: dict[str, pl.DataFrame]) -> RankSummary:
    """The summary of a header, where tuples have become lists."""
    values["notes"] = tuple(Note(*note) for note in values["notes"])
    for name in _TUPLES:
        values[name] = _tuples(values[name])
    return RankSummary(**{**frames, **values})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
