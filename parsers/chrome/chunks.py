"""Cuts a file's bytes into chunks of whole events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.chrome import layout
from tracetui.parsers.errors import TraceError
from tracetui.parsers.tally import Tally

CHUNK_BYTES = 3 << 20
"""Small enough for the caches, large enough that NumPy's cost per call doesn't show."""
PADDING = 64
"""Readable bytes after a chunk's last event; readers of numbers look at most this far ahead."""
SPACE = 32
LONGEST_KEY = 8
_END = re.compile(rb"\](?![\s,]*\{)")
"""The bracket that closes the events; damage put one there that an object follows."""
HEADER_LIMIT = 64 << 20
"""Bytes before the first event, of one event, or behind the events: reading more would take nine times its memory."""
RESNIFF_BYTES = 16 << 20


class Chunk(Struct):
    """Whole events: ``buffer[:end]`` ends with the last one's brace; a comma and blanks may precede the first."""

    buffer: NDArray[np.uint8]
    end: int
    position: int
    """The position of ``buffer[0]`` in the uncompressed file."""
    layout: layout.Layout | None
    """None if no separator is known; then the events must be found one by one."""


class ChunkReader(Struct):
    """Iterates over the chunks of one file; `header`, `last` and the flags are complete once it is exhausted."""

    source: ByteSource
    start: int = 0
    """Where the content of the list of events that counts begins; 0 for the first list's."""
    header: dict[str, Any] = field(default_factory=dict)
    last: bytes = b""
    """The piece between the last separator and the end of the events: one event, or the rest of one."""
    last_position: int = 0
    head: bytes = b""
    """The raw bytes before the first event."""
    tail: bytes = b""
    """The raw bytes after the last event, from the closing bracket on."""
    is_kineto: bool = True
    """Whether the file has Kineto's layout, blanks included."""
    in_object: bool = True
    """Whether the events are a value of an object, not the whole file: a list indented by two looks like Kineto's."""
    again: tuple[int, dict[str, Any]] | None = None
    """Where another list of events begins behind the first, and the keys before it."""
    stopped: int | None = None
    """Where something longer than `HEADER_LIMIT` begins, which is not read, nor what follows it."""
    closed: bool = False
    """Whether the events array and the object around it are closed as JSON requires."""

    def __iter__(self) -> Iterator[Chunk]:
        """Yields chunks in file order.

        Raises:
            TraceError: the file has no events.
        """
        left, position, form = self._open()
        if self.start:
            left, position, form = self._skipped(left, position)
        while True:
            held = len(left)
            if held > HEADER_LIMIT:
                self._finish(left, position)
                self.stopped, self.closed = position, False
                return
            wanted = held + max(CHUNK_BYTES, held)  # doubled, so that a long event is copied only a few times
            buffer = np.empty(wanted + PADDING, np.uint8)
            buffer[:held] = np.frombuffer(left, np.uint8)
            filled = self.source.read_into(buffer, held, wanted)
            buffer[filled : filled + PADDING] = SPACE
            if form is None or held > RESNIFF_BYTES:  # no event could be seen yet, or the file has changed its layout
                form = layout.sniff(bytes(buffer[: min(filled, layout.SNIFF_BYTES)]))
            self.is_kineto &= form == layout.KINETO and self.in_object
            limit = filled
            if filled < wanted:  # objects in lists behind the events look like events
                limit = layout.array_end(bytes(buffer[:filled])) or filled
            cut = _last(buffer, limit, form.separator) if form else -1
            if cut < 0 and held > RESNIFF_BYTES:
                form, cut = None, _last_event(buffer, filled)
            if filled < wanted:
                if cut >= 0:
                    yield Chunk(buffer, cut + 1, position, form)
                self._finish(bytes(buffer[cut + 1 : filled]), position + cut + 1)
                return
            left = bytes(buffer[cut + 1 : filled])
            if cut >= 0:
                buffer[cut + 1 :][:PADDING] = SPACE  # what follows would make the last event look unfinished
                yield Chunk(buffer, cut + 1, position, form)
            position += cut + 1

    def _open(self) -> tuple[bytes, int, layout.Layout | None]:
        """Reads up to the first event; returns (the bytes read beyond it, its position, the layout)."""
        found = bytearray()
        piece = np.empty(1 << 18, np.uint8)
        search = layout.EventsSearch()
        while len(found) < HEADER_LIMIT:
            count = self.source.read_into(piece, 0, piece.size)
            found += piece[:count].tobytes()
            ended = count < piece.size
            start = search.start(found)
            if start is None and ended:
                start = layout.any_events_start(found)
            if start is not None:
                head = bytes(found)
                self.head = head[:start]
                self.header = layout.header(head[:start])
                self.in_object = b"{" in head[:start]
                return head[start:], start, layout.sniff(head[start:])
            if ended:
                break
        raise TraceError(self.source.path, *no_events(bytes(found), self.source.damage))

    def _skipped(self, left: bytes, position: int) -> tuple[bytes, int, layout.Layout | None]:
        """Reads on to where the events begin that count; returns what `_open` does."""
        piece = np.empty(CHUNK_BYTES, np.uint8)
        while position + len(left) < self.start:
            position += len(left)
            left = piece[: self.source.read_into(piece, 0, piece.size)].tobytes()
            if not left:
                break
        left = left[self.start - position :]
        return left, self.start, layout.sniff(left)

    def tell_early_end(self, tally: Tally) -> bool:
        """Counts that the file ends early, and returns whether it does."""
        if self.source.damage:
            tally.missing("the compressed stream ends early", 1, self.source.damage)
        elif self.stopped is not None:
            tally.missing(
                "more than 64 MiB without the end of an event: the rest is not read", 1, f"byte {self.stopped}"
            )
        elif not self.closed:
            tally.missing("the file ends before its closing bracket", 1)
        return not self.closed or self.source.damage is not None

    def _finish(self, rest: bytes, position: int) -> None:
        """Divides what follows the last separator into the last event and the file's trailer."""
        text = rest.lstrip(b", \t\r\n")
        self.last_position = position + len(rest) - len(text)
        if not text or _END.match(text):
            self.last, tail = b"", text
        else:
            self.last, tail = _split_last(text)
        self.tail = tail
        keys, self.closed = layout.trailer(tail)
        if keys.pop(layout.EVENTS, None) is not None:
            shown = tail.decode("utf-8", "surrogateescape")
            found, _, _ = layout.last_list(shown, 0)
            if found is not None:
                before = len(shown[:found].encode("utf-8", "surrogateescape"))
                self.again = self.last_position + len(self.last) + before, keys
        self.header = {**self.header, **keys} if self.closed else {**keys, **self.header}


def _last(buffer: NDArray[np.uint8], filled: int, separator: bytes) -> int:
    """The position of the last separator's brace, searched from the back, or -1.

    Without indentation, objects in a list among an event's arguments look the same as events, so a separator with a
    key of events after it is preferred.
    """
    other, high = -1, filled
    while high > 0:
        low = max(0, high - (1 << 16))
        window = bytes(buffer[low : min(filled, high + len(separator) + LONGEST_KEY)])
        end = min(high - low + len(separator), len(window))
        while (found := window.rfind(separator, 0, end)) >= 0:
            if layout.FIRST_KEY.match(window, found + len(separator)):
                return low + found
            other = max(other, low + found)
            end = found + len(separator) - 1
        high = low
    return other


def _last_event(buffer: NDArray[np.uint8], filled: int) -> int:
    """The position of the last brace in the last megabyte that ends an event in any layout, or -1."""
    low = max(0, filled - (1 << 20))
    return max(
        (low + match.start() for match in layout.EVENT_SEPARATOR.finditer(bytes(buffer[low:filled]))), default=-1
    )


def _split_last(text: bytes) -> tuple[bytes, bytes]:
    """Splits `text` into its events and the rest from the closing bracket on.

    There is usually one event, but many if no separator is known.
    """
    intact = layout.events_end(text)
    if _END.match(text, intact):
        return text[:intact], text[intact:]
    # behind the array's bracket the object ends, or has another key; a value would be of a list
    closing = re.compile(rb"\}\s*,?\s*(\])(?![\s,]*\{)(?!\s*,\s*[^\"\s])")
    # after damage, the array's bracket is the first one whose remainder could end the file
    for match in closing.finditer(text, max(intact - 1, 0)):
        _, closed = layout.trailer(text[match.start(1) :])
        if closed:
            return text[: match.start(1)], text[match.start(1) :]
    return text, b""


def no_events(head: bytes, damage: str | None) -> tuple[str, str]:
    """Returns (what is wrong, what to do) for a file without a single event."""
    if not head.strip():
        return ("the file is empty", "record the trace again") if damage is None else (
            f"the gzip stream is damaged at its beginning ({damage})", "copy the file again")  # fmt: skip
    try:
        whole = json.loads(head)
    except layout.UNDECODABLE:
        return "not a trace (no traceEvents)", "give a Chrome trace as torch.profiler writes it"
    if isinstance(whole, dict) and {"shared", "profiles"} <= whole.keys():
        return "a speedscope profile: stacks of the host and no GPU work", "give the trace, and this to speedscope.app"
    return "JSON, but not a trace (no traceEvents)", "give a Chrome trace as torch.profiler writes it"
