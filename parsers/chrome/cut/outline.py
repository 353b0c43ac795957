"""Reads from each event only what tells whether it belongs to a stretch of time: one row each, in file order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tracetui.parsers import categories
from tracetui.parsers.chrome import classify
from tracetui.parsers.chrome.columns import NULL
from tracetui.parsers.chrome.pieces import decoded, pieces
from tracetui.parsers.chrome.records import arguments, category_of, identity, nanoseconds, whole_number
from tracetui.parsers.chrome.scan import ChunkScan
from tracetui.parsers.chrome.tokens import Irregular
from tracetui.parsers.chrome.values import strings
from tracetui.parsers.resources import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tracetui.parsers.chrome.chunks import Chunk, ChunkReader
    from tracetui.parsers.chrome.tokens import Tokens
    from tracetui.parsers.tally import Tally

    Bools = NDArray[np.bool_]
    Event = dict[str, Any]
    Ints = NDArray[np.int64]

_SPACE, _MINUS, _BACKSLASH, _U = b" -\\u"


def _among(characters: bytes) -> Bools:
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


_BEGINS_VALUE = _among(b'"{[-0123456789')
_DIGIT, _HEX = _among(b"0123456789"), _among(b"0123456789abcdefABCDEF")
_ESCAPED = _among(b'"\\/bfnrtu')
_WORDS = tuple(np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"fals", b"null"))
_FOUR = np.uint64(0xFFFFFFFF)


def invalid(tokens: Tokens) -> Bools:
    """Which events have a value that is none, such as a bare ``inf``, or an escape that JSON doesn't know."""
    found = np.zeros(tokens.events, np.bool_)
    found[tokens.event_at(_no_values(tokens))] = True
    if tokens.has_escapes:
        found[tokens.event_at(_bad_escapes(tokens))] = True
    return found


def _no_values(tokens: Tokens) -> NDArray[np.int64]:
    """Where a key is followed by no value; after more blanks than one, this is for the decoder to say."""
    at = tokens.values
    at = at + (tokens.buffer[at] <= _SPACE)
    at = at[~_BEGINS_VALUE[tokens.buffer[at]] | ((tokens.buffer[at] == _MINUS) & ~_DIGIT[tokens.buffer[at + 1]])]
    words: NDArray[np.uint64] = tokens.words[at] & _FOUR
    found: NDArray[np.int64] = at[~np.isin(words, _WORDS)]
    return found


def _bad_escapes(tokens: Tokens) -> NDArray[np.int64]:
    """Where a backslash is followed by what it can't escape; also some of two backslashes, which are none."""
    buffer = tokens.buffer
    at = np.flatnonzero(buffer[: tokens.size] == _BACKSLASH)
    bad = ~_ESCAPED[buffer[at + 1]]
    unicode = np.flatnonzero(buffer[at + 1] == _U)
    bad[unicode] = ~_HEX[buffer[at[unicode][:, None] + np.arange(2, 6)]].all(axis=1)
    return at[bad]


OTHER, CALL, RANGE, DEVICE, PROFILER = range(5)
"""Kinds of events by their category: unknown, host, annotations of the host, GPU, the profiler's own span."""
METADATA = b"Mc"
"""Phases of events without a time: names of processes and threads, clocks."""
FLOWS = b"stf"
ASYNCS = b"bneSTpF"
MOMENTS = b"iI"
MEMORY = "[memory]"
UNREADABLE = 0
"""The phase given to what no reader accepts as an event."""
_STEP = b"ProfilerStep#"
_MIX = 0x9E3779B97F4A7C1
_COLUMNS: dict[str, Any] = {
    "phase": np.uint8, "sort": np.uint8, "start": np.int64, "duration": np.int64, "lane": np.int64,
    "number": np.int64, "external": np.int64, "is_step": np.bool_,
}  # fmt: skip


@dataclass(slots=True)
class Outline:
    """One entry per event, in the order of the file."""

    phase: NDArray[np.uint8]
    """The letter of ``ph``, or `UNREADABLE`."""
    sort: NDArray[np.uint8]
    start: Ints
    """ns; `NULL` where there is none."""
    duration: Ints
    """ns; for an allocation the number of its device."""
    lane: Ints
    """A number for each process and thread."""
    number: Ints
    """For a flow or an asynchronous event the id it shares with its partners, for an allocation its address, for others
    their correlation; or `NULL`."""
    external: Ints
    """The ``External id``, or for an allocation its bytes; or `NULL`."""
    is_step: Bools
    """PyTorch's marks of steps on the host."""
    texts: dict[int, str] = field(default_factory=dict)
    """The repaired text of events that were not valid JSON."""
    chunks: list[tuple[int, bool]] = field(default_factory=list)
    """For each chunk, how many events it has, and whether they were found one by one."""


@dataclass(slots=True)
class _Part:
    """The rows of one chunk, and which of its events the decoder must read."""

    columns: dict[str, Any]
    left: list[tuple[int, bytes]]


def outline(reader: ChunkReader, tally: Tally) -> Iterator[tuple[Outline, Chunk | None]]:
    """Yields the outline of each chunk; that of the events after the last chunk comes without a chunk.

    What can't be read is counted as the reader of traces counts it, and has the phase `UNREADABLE`.
    """

    def work(chunk: Chunk) -> tuple[Chunk, _Part | None]:
        try:
            return chunk, _scanned(chunk)
        except Irregular:
            return chunk, None

    for chunk, part in in_order(work, reader):
        if part is None:
            yield one_by_one(chunk.buffer[: chunk.end].tobytes(), tally), chunk
        else:
            yield _patched(part, tally), chunk
    yield one_by_one(reader.last, tally), None


def joined(parts: list[Outline]) -> Outline:
    """Joins the outlines of all chunks."""
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    whole = Outline(**columns)
    first = 0
    for part in parts:
        whole.texts.update({first + at: text for at, text in part.texts.items()})
        whole.chunks += part.chunks
        first += part.phase.size
    return whole


def texts_of(text: bytes, tally: Tally) -> list[str]:
    """The raw text of the events in a piece of JSON that must be read one by one, without empty ones."""
    return [shown for _, shown, event in pieces(text, 0, tally) if event]


def one_by_one(text: bytes, tally: Tally) -> Outline:
    """The outline of events that the fast path can't read."""
    rows = [_row(event, tally) for _, _, event in pieces(text, 0, tally) if event]
    values = [[row[at] for row in rows] for at in range(len(_COLUMNS))]
    columns: dict[str, Any] = {name: np.array(v, _COLUMNS[name]) for name, v in zip(_COLUMNS, values, strict=True)}
    return Outline(**columns, chunks=[(len(rows), True)])


def _patched(part: _Part, tally: Tally) -> Outline:
    """Adds what only the decoder could read."""
    found = Outline(**part.columns, chunks=[(part.columns["phase"].size, False)])
    for at, text in part.left:
        shown, event = decoded(text, tally)
        row = _row(event, tally) if event else (UNREADABLE, OTHER, NULL, 0, 0, NULL, NULL, False)
        for name, value in zip(_COLUMNS, row, strict=True):
            getattr(found, name)[at] = value
        if shown.encode("utf-8", "replace") != text:
            found.texts[at] = shown
    return found


def _scanned(chunk: Chunk) -> _Part:
    """Reads the rows of a chunk on the fast path.

    Raises:
        Irregular: its events must be found one by one.
    """
    scan = ChunkScan(chunk)
    tokens = scan.tokens
    phase = tokens.phase.copy()
    lane = mixed(scan.repeated("pid"), scan.repeated("tid"))
    number, external = scan.ints("correlation").copy(), scan.ints("External id")
    duration, held = scan.duration, scan.rows["memory"]
    if held.any():
        sizes = scan.ints("Bytes")
        number[held], external = scan.ints("Addr")[held], np.where(held, sizes, external)
        duration = np.where(held, mixed(scan.ints("Device Type"), scan.ints("Device Id")), duration)
    flow = np.isin(phase, np.frombuffer(FLOWS, np.uint8))
    if flow.any():
        ids, codes = scan.ints("id"), np.zeros(phase.size, np.int64)
        if found := tokens.field("cat"):
            begin, length = tokens.text(found)
            event = tokens.event_of(found)
            chosen = flow[event]
            texts = strings(tokens.buffer, tokens.words, begin[chosen], length[chosen])
            codes[event[chosen]] = categories.encode(texts)
        number[flow] = mixed(codes, ids)[flow]
    is_step = np.zeros(phase.size, np.bool_)
    if found := tokens.field("name"):
        begin, length = tokens.text(found)
        head, rest = (np.uint64(int.from_bytes(part, "little")) for part in (_STEP[:8], _STEP[8:]))
        mask = np.uint64((1 << 8 * len(_STEP[8:])) - 1)
        called = (tokens.words[begin] == head) & ((tokens.words[begin + 8] & mask) == rest)
        is_step[tokens.event_of(found)] = called & (length > len(_STEP))
    timed = ~np.isin(phase, np.frombuffer(METADATA, np.uint8))
    left = tokens.odd | invalid(tokens) | (timed & ~scan.has_start) | np.isin(phase, np.frombuffer(ASYNCS, np.uint8))
    sort = scan.sorts((OTHER, CALL, RANGE, DEVICE, PROFILER))
    is_step &= (sort == CALL) | (sort == RANGE)
    columns = {
        "phase": phase, "sort": sort, "start": scan.start,
        "duration": duration, "lane": lane, "number": number, "external": external, "is_step": is_step,
    }  # fmt: skip
    return _Part(columns, [(at, scan.event_text(at)[1]) for at in np.flatnonzero(left).tolist()])


def _row(event: Event, tally: Tally) -> tuple[int, int, int, int, int, int, int, bool]:
    """The values of a decoded event, in the order of the columns."""
    letter = event.get("ph")
    if not isinstance(letter, str) or len(letter) != 1 or ord(letter) > 127:
        tally.skipped("event without a phase (ph)", 1, str(event.get("name", "")))
        return UNREADABLE, OTHER, NULL, 0, 0, NULL, NULL, False
    phase = ord(letter)
    start = nanoseconds(event.get("ts"))
    if start is None and phase not in METADATA:
        tally.skipped("event without a usable timestamp", 1, str(event.get("name", "")))
        phase = UNREADABLE
    lane = int(mixed(np.array([identity(event.get("pid"))]), np.array([identity(event.get("tid"))]))[0])
    args = arguments(event)
    number = whole_number(args, "correlation")
    if phase in FLOWS:
        code = int(categories.encode([str(event.get("cat", ""))])[0]) if "cat" in event else 0
        number = whole_number(event, "id")
        number = _of_text(str(event.get("id"))) if number == NULL else number
        number = int(mixed(np.array([code]), np.array([number]))[0])
    elif phase in ASYNCS:
        own = event.get("id2")
        process = event.get("pid") if isinstance(own, dict) and "local" in own else None
        number = _of_text(repr((event.get("cat"), event.get("id", own), event.get("scope"), process)))
    name = event.get("name")
    duration, external = max(nanoseconds(event.get("dur")) or 0, 0), whole_number(args, "External id")
    if phase in MOMENTS and name == MEMORY:
        number, external = whole_number(args, "Addr"), whole_number(args, "Bytes")
        device = [np.array([whole_number(args, key)]) for key in ("Device Type", "Device Id")]
        duration = int(mixed(*device)[0])
    sort = _sort_of(category_of(event))
    is_step = isinstance(name, str) and name.startswith(_STEP.decode()) and sort in (CALL, RANGE)
    return (
        phase, sort, NULL if start is None else start,
        duration, lane, number, external, is_step,
    )  # fmt: skip


def _sort_of(category: str) -> int:
    if category in classify.HOST_CATEGORIES:
        return RANGE if classify.HOST_CATEGORIES[category] == "annotation" else CALL
    if category in classify.DEVICE_CATEGORIES or category in classify.NAMED_CATEGORIES:
        return DEVICE
    return PROFILER if category in classify.IGNORED_CATEGORIES else OTHER


def _of_text(text: str) -> int:
    """A number for a text, which stays the same within one run of the program."""
    return hash(text) % (1 << 62)


def mixed(first: Ints, second: Ints) -> Ints:
    """One number for each pair of numbers."""
    with np.errstate(over="ignore"):
        one: Ints = first * np.int64(_MIX) + second
    return one
