"""Reads one Chrome trace: chunks side by side on the fast road, what it can't take on the careful one."""

from __future__ import annotations

import json
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tracetui.parsers import allocator, categories
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.chrome import columns, metadata
from tracetui.parsers.chrome.chunks import Chunk, ChunkReader
from tracetui.parsers.chrome.columns import Events
from tracetui.parsers.chrome.frames import build_trace
from tracetui.parsers.chrome.records import Collector, decode, split
from tracetui.parsers.chrome.scan import Part, scan
from tracetui.parsers.chrome.tokens import Irregular
from tracetui.parsers.errors import Cancelled
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import Source, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tracetui.parsers.chrome.columns import Columns

ESCAPABLE = {"name", "stack"}
"""Columns of plain strings."""
JSON_TEXTS = ("input_shapes", "input_types")
"""Columns of JSON text as it stands."""
THREADS = min(4, os.cpu_count() or 1)


def read_chrome(path: Path, watch: Watch | None = None) -> Trace:
    """Reads a Chrome trace, plain or gzip, into the five frames.

    Raises:
        TraceError: the file can't be read or holds no trace.
        Cancelled: stopped before the first event.
    """
    watch = watch or Watch()
    tally = Tally()
    events = read_events(path, tally, watch)
    if events.partial and not events.total:
        raise Cancelled
    watch.report(Progress("linking", path.stat().st_size, path.stat().st_size, events.parsed, path))
    source = Source(path, path.stat().st_size, events.total, events.parsed, events.partial)
    return build_trace(events, metadata.trace_info(events), source, tally)


def read_events(path: Path, tally: Tally, watch: Watch) -> Events:
    """Reads a file's events into columns, not yet sorted or linked."""
    allocator.keep_chunks_in_heap()
    parts: dict[str, list[Columns]] = {name: [] for name in columns.GROUPS}
    collector = Collector(tally)
    parsed, partial = 0, False
    with ByteSource(path) as source:
        reader = ChunkReader(source)
        for part in _in_order(reader):
            if isinstance(part, Chunk):
                for position, event in split(part.buffer[part.start : part.end].tobytes(), part.position, tally):
                    collector.add(position, event)
            else:
                parsed += part.parsed
                if part.has_escapes:
                    _unescape(part.groups)
                for name, group in part.groups.items():
                    parts[name].append(group)
                for position, event in decode(part.decode, tally):
                    collector.add(position, event)
            done = parsed + collector.parsed
            watch.report(Progress("reading", source.compressed_position(), source.size, done, path))
            if watch.cancelled:
                partial = True
                break
        else:
            for position, event in split(reader.last, reader.last_position, tally):
                collector.add(position, event)
            if source.damage:
                tally.missing("the compressed stream ends early", 1, source.damage)
            elif not reader.closed:
                tally.missing("the file ends before its closing bracket", 1)
    for name, group in collector.finish().items():
        parts[name].append(group)
    groups = {name: columns.concatenate(columns.GROUPS[name], parts.pop(name)) for name in columns.GROUPS}
    if not reader.is_kineto:
        _respace(groups["host"])
    parsed += collector.parsed
    total = parsed + tally.skipped_events
    return Events(groups, collector.metadata, reader.header, collector.window, total, parsed, partial)


def _in_order(chunks: Iterable[Chunk]) -> Iterator[Part | Chunk]:
    """Scans chunks on all cores, in file order; a chunk that the fast road can't take comes back as it is."""

    def work(chunk: Chunk) -> Part | Chunk:
        try:
            return scan(chunk)
        except Irregular:
            return chunk

    if THREADS == 1:
        yield from map(work, chunks)
        return
    pool = ThreadPoolExecutor(THREADS)
    try:
        waiting = deque[object]()
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()  # type: ignore[attr-defined]
        while waiting:
            yield waiting.popleft().result()  # type: ignore[attr-defined]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _unescape(groups: dict[str, Columns]) -> None:
    """Resolves JSON escapes in the strings that the fast road took as they stand."""
    for group in groups.values():
        for column in ESCAPABLE & group.keys():
            codes = group[column]
            for code, text in categories.texts(codes).items():
                if "\\" not in text:
                    continue
                try:
                    plain = json.loads(f'"{text}"', strict=False)
                except ValueError:  # an escape that JSON doesn't know stays as it is
                    continue
                codes[codes == code] = categories.encode([plain])[0]


def _respace(host: Columns) -> None:
    """Writes shapes and types as Kineto would, so that the same shape is the same text in every file."""
    for column in JSON_TEXTS:
        codes = host[column]
        for code, text in categories.texts(codes).items():
            try:
                plain = json.dumps(json.loads(text, strict=False), ensure_ascii=False)
            except ValueError:
                continue
            if plain != text:
                codes[codes == code] = categories.encode([plain])[0]
