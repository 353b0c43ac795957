"""Writes a stretch of a Chrome trace as a smaller trace: the kept events and all that is around them, byte for byte.

The file is read twice, piece by piece: once to find out which events belong to the stretch, of each of which an
`Outline` keeps only what tells that, and once to copy them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tracetui.parsers import categories, resources
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.chrome import classify, layout
from tracetui.parsers.chrome.chunks import Chunk, ChunkReader
from tracetui.parsers.chrome.columns import NULL, mixed
from tracetui.parsers.chrome.layout import narrowed
from tracetui.parsers.chrome.pieces import decoded, pieces
from tracetui.parsers.chrome.records import (
    PHASES,
    arguments,
    category_of,
    identity,
    nanoseconds,
    no_phase,
    whole_number,
)
from tracetui.parsers.chrome.scan import ChunkScan
from tracetui.parsers.chrome.tokens import Irregular, Tokens
from tracetui.parsers.chrome.values import strings
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.nesting import LaneClock, nest, order
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.resources import in_order
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import Note
from tracetui.parsers.written import refuse, written

Event = dict[str, Any]

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


def _no_values(tokens: Tokens) -> Ints:
    """Where a key is followed by no value; after more blanks than one, this is for the decoder to say."""
    at = tokens.values
    at = at + (tokens.buffer[at] <= _SPACE)
    at = at[~_BEGINS_VALUE[tokens.buffer[at]] | ((tokens.buffer[at] == _MINUS) & ~_DIGIT[tokens.buffer[at + 1]])]
    words: NDArray[np.uint64] = tokens.words[at] & _FOUR
    found: Ints = at[~np.isin(words, _WORDS)]
    return found


def _bad_escapes(tokens: Tokens) -> Ints:
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
_KNOWN = "".join(PHASES).encode()
_STEP = b"ProfilerStep#"
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


def outline(reader: ChunkReader, tally: Tally) -> Iterator[Outline]:
    """Yields the outline of each chunk, and of the events after the last one.

    What can't be read is counted as the reader of traces counts it, and has the phase `UNREADABLE`.
    """

    def work(chunk: Chunk) -> tuple[Chunk, _Part | None]:
        try:
            return chunk, _scanned(chunk)
        except Irregular:
            return chunk, None

    for chunk, part in in_order(work, reader):
        if part is None:
            yield one_by_one(chunk.buffer[: chunk.end].tobytes(), tally)
        else:
            yield _patched(part, tally)
    yield one_by_one(reader.last, tally)


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
    left = tokens.odd | invalid(tokens) | (timed & ~scan.has_start) | _is(phase, ASYNCS) | ~_is(phase, _KNOWN)
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
    if (why := no_phase(letter)) is not None or not isinstance(letter, str):
        tally.skipped(why or "", 1, str(event.get("name", "")))
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


_X, _B, _E = b"XBE"


@dataclass(frozen=True, slots=True)
class Choice:
    """The events that are kept."""

    kept: Bools
    """Whether each event is kept."""
    in_range: int
    """Events that lie at least partly in the window."""
    metadata: int
    launches: int
    """Calls, GPU work and ranges on the GPU outside the window that belong to events in it."""
    within: int
    """Events after the window that lie inside calls and ranges that start in it."""
    around: int
    """Calls and ranges around those, and around the starts of arrows."""
    held: int
    """Earlier allocations that live in the window, their frees after it, and the allocator's last event before it."""
    arrows: int
    """Ends of arrows and of asynchronous events outside the window."""


def choose(events: Outline, window: tuple[int, int], tally: Tally, steps: Sequence[int] | None = None) -> Choice:
    """Chooses the events that a cut needs.

    Args:
        events: all events of the file; begin events without an end, and end events without a begin, are marked
            unreadable in it.
        window: start and end, ns on the file's clock.
        tally: counts the unreadable events.
        steps: start times of the steps whose marks are kept, ns; None keeps the marks in the window.
    """
    low, high = window
    ends, duration = _paired(events, tally)
    phase, start = events.phase, events.start
    metadata = _is(phase, METADATA) | ((phase == _X) & (events.sort == PROFILER))
    span = ((phase == _X) & ~metadata) | (phase == _B)
    end = _ends(events, duration, span & (start < high))
    if steps is not None:
        span &= ~events.is_step | np.isin(start, np.array(steps, np.int64))
    flow, at_once = _is(phase, FLOWS), (phase != UNREADABLE) & ~metadata
    at_once &= ~_is(phase, FLOWS + ASYNCS + b"XBE")

    now = (start >= low) & (start < high)
    inside = span & (start < high) & ((end > low) | now)
    held = _held(events, at_once & _is(phase, MOMENTS) & (events.number != NULL), window)
    kept = metadata | inside | (at_once & now) | held
    within = _within(events, end, span & ~kept, inside & now & ~events.is_step)
    kept |= within
    linked = _linked(events, span, kept & span) & ~kept
    kept |= linked
    kept, anchors, arrows = _arrows(events, flow, span, kept, now)
    arrows |= _asynchronous(events, window)
    kept |= arrows
    launches = np.flatnonzero((linked & (events.sort != DEVICE)) | held)
    lane, time = (np.concatenate((of[launches], of[anchors])) for of in (events.lane, start))
    returned = end == start + duration  # without its caller, one that did not would enclose everything after it
    around = _around(events, duration, span & ~kept & ~events.is_step & returned, lane, time)
    kept |= around
    kept[ends[1]] = kept[ends[0]]
    return Choice(
        kept=kept,
        in_range=int((inside | (at_once & now) | ((flow | _is(phase, ASYNCS)) & kept & now)).sum())
        + int(inside[ends[0]].sum()),
        metadata=int(metadata.sum()),
        launches=int(linked.sum()) + int(linked[ends[0]].sum()),
        within=int(within.sum()) + int(within[ends[0]].sum()),
        around=int(around.sum()) + int(around[ends[0]].sum()),
        held=int(held.sum()),
        arrows=int((kept & ~now & (flow | _is(phase, ASYNCS))).sum()),
    )


def _is(phase: NDArray[np.uint8], letters: bytes) -> Bools:
    return np.isin(phase, np.frombuffer(letters, np.uint8))


def _paired(events: Outline, tally: Tally) -> tuple[tuple[Ints, Ints], Ints]:
    """Pairs begin and end events as the reader does; returns ((begins, their ends), duration of every event)."""
    rows = np.flatnonzero(_is(events.phase, b"BE"))
    duration = np.where(events.phase == _X, events.duration, 0)
    begins: list[int] = []
    ends: list[int] = []
    open_on: dict[int, list[int]] = {}
    lost: list[int] = []
    for row, letter, lane in zip(rows.tolist(), events.phase[rows].tolist(), events.lane[rows].tolist(), strict=True):
        stack = open_on.setdefault(lane, [])
        if letter == _B:
            stack.append(row)
        elif stack:
            begins.append(stack.pop())
            ends.append(row)
        else:
            lost.append(row)
    tally.skipped("end event without a begin", len(lost))
    unended = [row for stack in open_on.values() for row in stack]
    tally.skipped("begin event without an end", len(unended))
    events.phase[np.array(lost + unended, np.int64)] = UNREADABLE
    pair = np.array(begins, np.int64), np.array(ends, np.int64)
    duration[pair[0]] = np.maximum(events.start[pair[1]] - events.start[pair[0]], 0)
    return pair, duration


def _held(events: Outline, memory: Bools, window: tuple[int, int]) -> Bools:
    """Earlier allocations that live in the window, their frees after it, and each device's last event before it."""
    found = np.zeros(events.phase.size, np.bool_)
    rows = np.flatnonzero(memory)
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    before, behind = rows[events.start[rows] < window[0]][::-1], rows[events.start[rows] >= window[1]]
    for part, is_wanted in ((before, events.external > 0), (behind, events.external < 0)):
        nearest = part[np.unique(mixed(events.duration[part], events.number[part]), return_index=True)[1]]
        found[nearest[is_wanted[nearest]]] = True
    found[before[np.unique(events.duration[before], return_index=True)[1]]] = True
    return found


def _ends(events: Outline, duration: Ints, chosen: Bools) -> Ints:
    """The end of each event; for chosen host events as in `nest`, where a call that outlives its caller ends with it.

    The profiler never saw such a call return. Without its caller the call would enclose everything after it.
    """
    end: Ints = events.start + duration
    for sorts in ((CALL, OTHER), (RANGE,)):
        rows = np.flatnonzero(chosen & np.isin(events.sort, sorts))
        if rows.size:
            lanes, number = np.unique(events.lane[rows], return_inverse=True)
            clock = LaneClock(lanes.size, events.start[rows], end[rows])
            place = order(number, events.start[rows], duration[rows], clock)
            rows, number = rows[place], number[place]
            end[rows] = nest(number, events.start[rows], duration[rows], clock).end
    return end


def _within(events: Outline, end: Ints, candidates: Bools, begun: Bools) -> Bools:
    """The candidates that start inside calls or ranges of their thread that start in the window and end after it."""
    host = (events.sort != DEVICE) & (events.sort != PROFILER)
    whole = np.flatnonzero(begun & host)
    found = np.zeros(candidates.size, np.bool_)
    if not whole.size:
        return found
    rows = np.flatnonzero(candidates & host)
    lanes, number = np.unique(events.lane[whole], return_inverse=True)
    last = np.full(lanes.size, np.iinfo(np.int64).min)
    np.maximum.at(last, number, end[whole])
    first = np.full(lanes.size, np.iinfo(np.int64).max)
    np.minimum.at(first, number, events.start[whole])
    at = np.minimum(np.searchsorted(lanes, events.lane[rows]), lanes.size - 1)
    start = events.start[rows]
    found[rows] = (lanes[at] == events.lane[rows]) & (start < last[at]) & (start >= first[at])
    return found


def _linked(events: Outline, span: Bools, kept: Bools) -> Bools:
    """Calls and GPU work with the correlation of kept events, or with the other ids that link them in older files."""
    tied = span & (events.number != NULL) & (events.number != 0)
    correlations = np.unique(events.number[tied & kept])
    found = tied & np.isin(events.number, correlations)
    named = span & (events.external != NULL) & (events.external != 0)
    device = events.sort == DEVICE
    calls = np.unique(events.number[tied & ~device])
    alone = (kept | found) & device & named & ~(tied & np.isin(events.number, calls))
    found |= named & (events.sort == CALL) & np.isin(events.external, np.unique(events.external[alone]))
    ranges = np.unique(events.external[kept & named & (events.sort == RANGE)])
    projected = named & device & (events.number == NULL) & np.isin(events.external, ranges)
    both: Bools = found | projected
    return both


def _arrows(events: Outline, flow: Bools, span: Bools, kept: Bools, now: Bools) -> tuple[Bools, Ints, Bools]:
    """Keeps arrows with an end in the window or at a kept event; returns (kept, events they touch outside, arrows).

    An end touches the event of its thread that starts at the same time.
    """
    if not flow.any():
        return kept, np.empty(0, np.int64), flow
    touches = np.isin(mixed(events.lane, events.start), mixed(events.lane, events.start)[kept & span])
    whole = np.unique(events.number[flow & (now | touches)])
    arrows = flow & np.isin(events.number, whole)
    anchors = np.flatnonzero(arrows & ~now & ~touches)
    return kept | arrows, anchors, arrows


def _asynchronous(events: Outline, window: tuple[int, int]) -> Bools:
    """Asynchronous events that lie at least partly in the window: both their ends and what is between."""
    low, high = window
    chosen = np.zeros(events.phase.size, np.bool_)
    rows = np.flatnonzero(_is(events.phase, ASYNCS))
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    open_of: dict[int, list[tuple[int, list[int]]]] = {}
    for row in rows.tolist():
        letter = int(events.phase[row])
        stack = open_of.setdefault(int(events.number[row]), [])
        if letter in b"bS":
            stack.append((row, []))
        elif letter in b"eF" and stack:
            first, between = stack.pop()
            if events.start[first] < high and events.start[row] >= low:
                chosen[[first, *between, row]] = True
        elif stack:
            stack[-1][1].append(row)
        else:
            chosen[row] = bool(low <= events.start[row] < high)
    for stack in open_of.values():  # events that never end
        for first, between in stack:
            if low <= events.start[first] < high:
                chosen[[first, *between]] = True
    return chosen


def _around(events: Outline, duration: Ints, candidates: Bools, lane: Ints, time: Ints) -> Bools:
    """The candidates in progress on these threads at these times; calls and ranges are looked up separately."""
    found = np.zeros(candidates.size, np.bool_)
    if not lane.size:
        return found
    candidates = candidates & np.isin(events.lane, np.unique(lane))
    for sorts in ((CALL, OTHER), (RANGE,), (DEVICE,)):
        rows = np.flatnonzero(candidates & np.isin(events.sort, sorts))
        if not rows.size:
            continue
        lanes = np.unique(events.lane[rows])
        number = np.searchsorted(lanes, events.lane[rows])
        clock = LaneClock(lanes.size, events.start[rows], events.start[rows] + duration[rows])
        place = order(number, events.start[rows], duration[rows], clock)
        rows, number = rows[place], number[place]
        nesting = nest(number, events.start[rows], duration[rows], clock)
        asked = np.minimum(np.searchsorted(lanes, lane), lanes.size - 1)
        at = nesting.innermost_at(np.where(lanes[asked] == lane, asked, -1), time)
        while (at := np.unique(at[at >= 0])).size:  # then what encloses them, level by level
            found[rows[at]] = True
            at = nesting.parent[at]
    return found


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
    if reader.again or any(note.reason == layout.TWICE for note in tally.notes()):
        raise TraceError(
            source, "has traceEvents more than once, of which only the last counts", "write it anew as JSON"
        )
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
        for part in outline(reader, tally):
            parts.append(part)
            _report(watch, source, path, share=0)
        reader.tell_early_end(tally)
    return joined(parts), reader


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
        texts = texts_of(text, Tally())
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
