"""Writes a stretch of a Chrome trace as a smaller trace: the kept events and all that is around them, byte for byte.

The file is read twice, piece by piece: once to find out which events belong to the stretch (`outline`), and once to
copy them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.parsers import resources
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.chrome import layout
from tracetui.parsers.chrome.chunks import ChunkReader
from tracetui.parsers.chrome.cut import outline
from tracetui.parsers.chrome.cut.choice import choose
from tracetui.parsers.chrome.marks import narrowed
from tracetui.parsers.chrome.tokens import Tokens
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.written import refuse, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray

    from tracetui.parsers.chrome.chunks import Chunk
    from tracetui.parsers.chrome.cut.choice import Choice
    from tracetui.parsers.chrome.cut.outline import Outline
    from tracetui.parsers.trace import Note

    Bools = NDArray[np.bool_]

LEVEL = 2
"""Compression level: files are a little larger than with gzip's default, but written several times as fast."""
_BETWEEN = b",\n  "


@dataclass(frozen=True, slots=True)
class Cut:
    """What was written to the cut."""

    source: Path
    target: Path
    events: int
    """The number of events in the source."""
    kept: int
    choice: Choice
    target_bytes: int
    notes: tuple[Note, ...]
    """What was skipped, repaired or missing in the source."""


def cut(
    source: Path,
    target: Path,
    window: tuple[int, int],
    *,
    steps: Sequence[int] | None = None,
    force: bool = False,
    watch: Watch | None = None,
) -> Cut:
    """Writes the part of a trace that a stretch of time needs, compressed if the name ends in ``.gz``.

    The cut has the events that lie at least partly in the stretch; the calls and the GPU work that belong to each
    other, and the calls and ranges around such calls; both ends of arrows, pairs and asynchronous events; all metadata
    and top-level keys.

    Args:
        source: a Chrome trace, plain or gzip.
        target: where the cut goes; it stays as it is until the cut is complete.
        window: start and end, ns on the trace's clock (`schema.HOST` start).
        steps: start times of the steps whose marks are kept, ns; None for all that lie in the stretch.
        force: whether a file that stands at the target may be replaced.
        watch: is told the progress, and may stop the cut.

    Raises:
        TraceError: the source can't be read, the target exists or can't be written, or no event is in the stretch.
        Cancelled: stopped; nothing was written.
    """
    watch = watch or Watch()
    refuse(target, force=force, sources=[source])
    resources.keep_chunks_in_heap()
    tally = Tally()
    events, reader = _outlined(source, tally, watch)
    choice = choose(events, window, tally, steps)
    if not choice.in_range:
        raise TraceError(source, "no event lies in this stretch of time", "give another one")
    with written(target, force=force, sources=[source]) as part, part.open("wb") as file:
        reader.head = narrowed(reader.head, window, steps)
        _write(file, events, choice.kept, reader, source, watch, packed=target.suffix == ".gz")
    size = target.stat().st_size
    return Cut(source, target, events.phase.size, int(choice.kept.sum()), choice, size, tally.notes())


def _outlined(path: Path, tally: Tally, watch: Watch) -> tuple[Outline, ChunkReader]:
    """Reads the file once; the reader then knows the text around the events."""
    parts = []
    with ByteSource(path) as source:
        reader = ChunkReader(source)
        for part, _ in outline.outline(reader, tally):
            parts.append(part)
            _report(watch, source, path, share=0)
        if source.damage:
            tally.missing("the compressed stream ends early", 1, source.damage)
        elif not reader.closed:
            tally.missing("the file ends before its closing bracket", 1)
    return outline.joined(parts), reader


def _report(watch: Watch, source: ByteSource, path: Path, share: int) -> None:
    watch.report(Progress("cutting", source.compressed_position() + share * source.size, 2 * source.size, 0, path))
    if watch.cancelled:
        raise Cancelled


def _write(
    file: BinaryIO, events: Outline, kept: Bools, before: ChunkReader, path: Path, watch: Watch, *, packed: bool
) -> None:
    """Copies the kept events, with the text before and after the events."""
    out: BinaryIO = file
    if packed:
        from isal import igzip

        out = igzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=LEVEL, mtime=0)  # type: ignore[no-untyped-call,assignment]
    out.write(before.head)
    between = _BETWEEN.lstrip(b",")
    with ByteSource(path) as source:
        reader = ChunkReader(source)
        first = 0
        chunks: Iterator[Chunk | None] = iter(reader)
        for size, is_careful in events.chunks:
            chunk = next(chunks, None)
            mine = kept[first : first + size]
            if mine.any():
                text = reader.last if chunk is None else chunk.buffer[: chunk.end].tobytes()
                for piece in _texts(events, text, chunk, mine, first, is_careful=is_careful):
                    out.write(between)
                    out.write(piece)
                    between = _BETWEEN
            first += size
            _report(watch, source, path, share=1)
    out.write(_BETWEEN.lstrip(b",") + _closing(before))
    if packed:
        out.close()


def _closing(reader: ChunkReader) -> bytes:
    """The text after the events; if the file lacks its end, a valid end with the keys that were found."""
    if reader.closed:
        return reader.tail
    keys, _ = layout.trailer(reader.tail)
    added = "".join(f",\n  {json.dumps(key)}: {json.dumps(value)}" for key, value in keys.items())
    return b"]" + (f"{added}\n}}\n".encode() if reader.in_object else b"\n")


def _texts(
    events: Outline, text: bytes, chunk: Chunk | None, mine: Bools, first: int, *, is_careful: bool
) -> Iterator[bytes]:
    """The chosen events of one chunk; neighbouring events come as one piece."""
    rows = np.flatnonzero(mine).tolist()
    if is_careful or chunk is None:
        texts = outline.texts_of(text, Tally())
        yield from (texts[row].encode("utf-8", "replace") for row in rows)
        return
    ends = Tokens(chunk).ends
    at = 0
    while at < len(rows):
        row = rows[at]
        until = at
        if first + row in events.texts:
            yield events.texts[first + row].encode("utf-8", "replace")
            at += 1
            continue
        while (
            until + 1 < len(rows) and rows[until + 1] == rows[until] + 1 and first + rows[until + 1] not in events.texts
        ):
            until += 1
        begin = int(ends[row - 1]) + 1 if row else 0
        yield text[text.find(b"{", begin) : int(ends[rows[until]]) + 1]
        at = until + 1
