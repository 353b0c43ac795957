"""The JSON layout of one file: where the events start, and the text before, between and after them.

In the text before them `tracetui profile` writes whose recording it is, and where the steps of a light one begin, which
has no ``ProfilerStep``: the boundaries stand in the key ``tracetui``, in ns since 1970.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.parsers import schema
from tracetui.parsers.arrays import Bools, Ints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.tally import Tally
    from tracetui.parsers.trace import TraceInfo

EVENTS = "traceEvents"
TWICE = "traceEvents stands more than once: only the last list counts, as in JSON"
_EVENTS_KEY = re.compile(
    b'"' + b"".join(b"(?:%c|\\\\u00(?i:%02x))" % (letter, letter) for letter in EVENTS.encode()) + rb'"\s*:\s*\['
)
"""The key of the events, however it is spelled."""
_NESTING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)
_ARRAY_END = re.compile(rb'\}\s*(\]\s*,\s*")')
_NEXT_KEY = re.compile(r'\s*,\s*(?=")')
_COLON = re.compile(r"\s*:\s*")
_LIST_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_BETWEEN = re.compile(r"[\s,]*")
_SEPARATOR = re.compile(rb'\}\s*,\s*\{\s*"')
FIRST_KEY = re.compile(rb'(?:ph|name|cat|pid|tid|ts|dur|id|s|args|bp)"')
EVENT_SEPARATOR = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|s|args|bp)"')
"""Matches the end of one event and the start of the next, with or without blanks."""
_DECODER = json.JSONDecoder(strict=False)
UNDECODABLE = (ValueError, RecursionError)
"""What the JSON decoder raises for text that is not JSON, or is nested too deep."""
SNIFF_BYTES = 1 << 16
KEY_BYTES = 1 << 10
"""More than the key of the events and the blanks around it take."""
MOST_LOOKS = 4
"""How often a file's last bytes are looked at, to find where its events end."""
BOM = b"\xef\xbb\xbf"


class Layout(Struct, frozen=True):
    """The exact bytes between two events: from the closing brace of one to the first quote of the next."""

    separator: bytes

    def begins_event(self, words: NDArray[np.uint64], begin: Ints) -> Bools:
        """Which keys, given by their positions, have the separator before them (compares eight bytes of it)."""
        head = self.separator[:8]
        mask = np.uint64((1 << 8 * len(head)) - 1)
        before = words[np.maximum(begin - len(self.separator), 0)]
        found: Bools = (before & mask) == np.uint64(int.from_bytes(head, "little"))
        return found


KINETO = Layout(b'},\n  {\n    "')


class EventsSearch:
    """Looks for the key of the events in a text that grows; what was counted once is not counted again."""

    def __init__(self) -> None:
        self._searched = self._counted = self._depth = 0

    def start(self, head: bytes | bytearray) -> int | None:
        """The position where the content of the events array starts, or None; `head` begins with what it was before.

        Only a key of the whole object counts; text that is damaged says nothing against one.
        """
        for match in _EVENTS_KEY.finditer(head, self._searched):
            for token in _NESTING.finditer(head, self._counted, match.start()):
                sign = token.group()[0]
                self._depth += (sign in b"{[") - (sign in b"}]")
            self._counted = match.start()
            if self._depth <= 1:
                return match.end()
        self._searched = max(len(head) - KEY_BYTES, self._counted)
        listed = _LIST_START.match(head)
        return listed.end() if listed else None


def any_events_start(head: bytes | bytearray) -> int | None:
    """The same of a file whose text before the events is damaged, or holds them within another key."""
    found = _EVENTS_KEY.search(head)
    return found.end() if found else None


def array_end(text: bytes) -> int | None:
    """Where the events' closing bracket stands in a file's last bytes, if other keys follow it; None if none do.

    From there to the end the file is what follows its events; lists of objects within events and behind them are not.
    """
    found, looked = None, 0
    for match in reversed(list(_ARRAY_END.finditer(text))):
        looked += len(text) - match.start(1)
        if looked > MOST_LOOKS * len(text):  # lists of objects in each event
            break
        with suppress(*UNDECODABLE):  # a bracket that damage put into an event has more behind it than keys
            _DECODER.decode("{" + text[match.end(1) - 1 :].decode("utf-8", "replace"))
            found = match.start(1)
    return found


def is_list(head: bytes | bytearray) -> bool:
    """Whether a file that starts with these bytes is a list of events without anything around it."""
    return _LIST_START.match(head) is not None


def looks_like_chrome(head: bytes) -> bool:
    """Whether a file that starts with these bytes may be a Chrome trace: an object, a list of objects, or empty."""
    text = head.removeprefix(BOM).lstrip()
    if text.startswith(b"["):
        # some programs begin with a comma, and something that is no event may stand before the first
        return text[1:].lstrip()[:1] in (b"{", b"]", b",", b"") or EVENT_SEPARATOR.search(text) is not None
    return not text or text.startswith(b"{")


def is_chrome(head: bytes) -> bool:
    """Whether a file that starts with these bytes is a Chrome trace and no other tool's: it shows two events."""
    text = head.removeprefix(BOM).lstrip()
    return text.startswith((b"{", b"[")) and EVENT_SEPARATOR.search(text) is not None


def sniff(events: bytes) -> Layout | None:
    """The layout of a file whose events start with these bytes; None if they don't show two events."""
    head = events[:SNIFF_BYTES]
    if head.find(KINETO.separator) >= 0:
        return KINETO
    text = head.decode("utf-8", "replace")
    begin = _BETWEEN.match(text)
    try:
        _, end = _DECODER.raw_decode(text, begin.end() if begin else 0)
    except UNDECODABLE:
        match = EVENT_SEPARATOR.search(head)
    else:
        match = _SEPARATOR.match(text[:end].encode() + text[end:].encode(), len(text[:end].encode()) - 1)
    return Layout(match.group()) if match else None


def events_end(text: bytes) -> int:
    """The position where the intact objects at the start of `text` end, with the commas and blanks after them."""
    content = text.decode("utf-8", "surrogateescape")
    at = 0
    while blanks := _BETWEEN.match(content, at):
        at = blanks.end()
        if not content.startswith("{", at):
            break
        try:
            _, at = _DECODER.raw_decode(content, at)
        except UNDECODABLE:
            break
    return at if len(content) == len(text) else len(content[:at].encode("utf-8", "surrogateescape"))


def header(head: bytes) -> dict[str, Any]:
    """The top-level keys before the events; what can't be decoded is left out."""
    text = head.removeprefix(BOM).decode("utf-8", "replace")
    if not text.lstrip().startswith("{"):
        return {}
    return _loads(text + "]}", drop=EVENTS)


def trailer(tail: bytes) -> tuple[dict[str, Any], bool]:
    """Returns (the top-level keys after the events, whether the file ends properly); `tail` starts at the ``]``."""
    text = tail.decode("utf-8", "replace").strip().lstrip(",").strip()
    if not text.startswith("]"):
        return {}, False
    rest = text[1:].strip()
    if rest in ("", "}"):
        return {}, True
    document = _loads('{"":0' + ("" if rest.startswith(",") else ",") + rest, drop="")
    return document, bool(document)


def last_list(text: str, at: int) -> tuple[int | None, dict[str, Any], int]:
    """Looks behind the bracket that closes the events, at this position, for another list of them.

    Returns where the content of the last such list begins (None if there is none), the keys before it, and how far the
    text was read.
    """
    found: int | None = None
    keys: dict[str, Any] = {}
    before: dict[str, Any] = {}
    at += 1
    while comma := _NEXT_KEY.match(text, at):
        try:
            key, at = _DECODER.raw_decode(text, comma.end())
            colon = _COLON.match(text, at)
            if colon is None:
                break
            at = colon.end()
            if key == EVENTS and text.startswith("[", at):
                found, before = at + 1, dict(keys)
            keys[key], at = _DECODER.raw_decode(text, at)
        except UNDECODABLE:
            break
    return found, before, at


def whole(value: Any) -> int | None:
    """A whole number that fits 64 bits, however JSON may spell it (``128``, ``128.0``, ``1.28e2``), or None."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        try:
            number = int(Decimal(value)) if isinstance(value, str) and abs(float(value)) < 2**63 else 2**63
        except (ValueError, ArithmeticError):
            return None
    return number if -(2**63) <= number < 2**63 else None


def _loads(text: str, drop: str) -> dict[str, Any]:
    try:
        document = _DECODER.decode(text)
    except UNDECODABLE:
        return _salvage(text, drop)
    if isinstance(document, dict):
        document.pop(drop, None)
        return document
    return {}


def _salvage(text: str, drop: str) -> dict[str, Any]:
    """Decodes a damaged object key by key, as far as possible."""
    found: dict[str, Any] = {}
    for match in re.finditer(r'[{,]\s*"([A-Za-z]\w*)"\s*:\s*', text):
        try:
            value, _ = _DECODER.raw_decode(text, match.end())
        except UNDECODABLE:
            continue
        if match[1] != drop:
            found.setdefault(match[1], value)
    return found


KEY = "tracetui"
STEP = "step {}"
MOST_STEPS = 1 << 32
"""More steps before those of a cut are a damaged number."""
SLACK_NS = 1_000_000
"""How far outside the recorded events a boundary may lie: the host comes back from its last wait after the last one."""
_MARKS = re.compile(rb'"marks"\s*:\s*\[[\d\s,-]*\](?:\s*,\s*"before"\s*:\s*\d+)?')
_PASS = re.compile(rb'("pass"\s*:\s*)"(light|rich)"')
UNUSABLE = "step marks in the trace's metadata that can't be used"


def own(header: dict[str, Any]) -> dict[str, Any]:
    """What tracetui wrote; Kineto keeps it as it was given, or the same in quotes. Empty where there is nothing."""
    found = header.get(KEY)
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def marked_steps(header: dict[str, Any], info: TraceInfo, host: Columns, device: Columns, tally: Tally) -> pl.DataFrame:
    """The steps between the boundaries in the metadata; none where it has none, or none that can be right."""
    found = own(header).get("marks")
    if found is None:
        return schema.empty(schema.STEPS)
    problem = _problem(found, info, host, device)
    if problem is not None:
        tally.missing(UNUSABLE, 1, problem)
        return schema.empty(schema.STEPS)
    at = [mark - (info.base_time or 0) for mark in found]
    first = 1 + _before(own(header))
    numbers = range(first, first + len(at) - 1)
    return pl.DataFrame(
        {
            "index": list(numbers),
            "name": [STEP.format(number) for number in numbers],
            "start": at[:-1],
            "duration": [after - before for before, after in pairwise(at)],
        },
        schema=schema.STEPS,
    )


def _before(about: dict[str, Any]) -> int:
    """How many steps of the whole recording come before those of a cut."""
    before = about.get("before")
    return before if type(before) is int and 0 <= before < MOST_STEPS else 0


def _problem(found: Any, info: TraceInfo, host: Columns, device: Columns) -> str | None:
    """Why these are no boundaries of steps; None if they are."""
    if not isinstance(found, list) or any(type(mark) is not int for mark in found):
        return "not a list of whole numbers"
    if len(found) < 2:
        return f"{len(found)} boundaries"
    if any(before >= after for before, after in pairwise(found)):
        return "not in ascending order"
    if info.base_time is None:
        return "the trace does not say which moment its zero is"
    spans = [(int(group["start"].min()), int((group["start"] + group["duration"]).max())) for group in (host, device)
             if group["start"].size]  # fmt: skip
    if info.window is not None:
        spans.append((info.window[0], sum(info.window)))
    if not spans:
        return "nothing was recorded"
    first, last = min(low for low, _ in spans), max(high for _, high in spans)
    if found[0] - info.base_time < first - SLACK_NS or found[-1] - info.base_time > last + SLACK_NS:
        return "outside the recording"
    return None


def narrowed(head: bytes, window: tuple[int, int], starts: Sequence[int] | None) -> bytes:
    """The text before the events of a cut: only the boundaries of the steps in it, which keep their numbers.

    It says that it is a cut, so that nobody takes it for the run's whole recording.

    Args:
        head: that text of the whole trace.
        window: start and end of the cut, ns on the trace's clock.
        starts: start times of the steps that are kept, ns; None for all that lie in the window.
    """
    written = header(head)
    about, base = own(written), written.get("baseTimeNanoseconds")
    found = about.get("marks")
    if isinstance(found, list) and type(base) is int and all(type(mark) is int for mark in found):
        kept = [
            step
            for step, (start, end) in enumerate(pairwise(mark - base for mark in found))
            if (start < window[1] and end > window[0] if starts is None else start in starts)
        ]
        left = found[kept[0] : kept[-1] + 2] if kept else []
        before = b', "before": %d' % ((kept[0] if kept else 0) + _before(about))
        head = _MARKS.sub(lambda _: b'"marks": ' + json.dumps(left).encode() + before, head, count=1)
    if about.get("pass") is not None:
        head = _PASS.sub(rb'\1"cut of \2"', head, count=1)
    return head
