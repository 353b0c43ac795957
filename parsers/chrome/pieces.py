"""Divides JSON text into events one by one, around damage, and repairs damaged ones if possible."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tracetui.parsers.chrome.layout import TWICE, UNDECODABLE, last_list
from tracetui.parsers.tally import Tally

Event = dict[str, Any]


class Real(str):
    """A number with a fraction or an exponent, as it is written: as a float it would lose digits."""

    __slots__ = ()


class Again(dict[str, Any]):
    """No event: here begins another list of events, which counts instead of what came before, as in JSON."""

    def __init__(self, between: Event) -> None:
        self.between = between
        """The file's keys between the two lists."""


_DECODER = json.JSONDecoder(strict=False, parse_float=Real)
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BARE_WORD = re.compile(r"(:\s*)(?:N/A|-?inf|-?nan|-?Inf|-?NAN|None|undefined)(?=\s*[,}\]])")
_BLANKS = re.compile(r"[\s,]*")
_BLANK = re.compile(r"\s*")
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_EVENT = re.compile(r'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|s|args|bp)"\s*:')
_EMPTY = r"(?:\s*,\s*\{\s*\})*"
"""Empty objects, which are no events, with the commas before them."""
_CLOSING = re.compile(_EMPTY + r"[\s,]*(?:\].*)?", re.DOTALL)
_ENDING = re.compile(_EMPTY)
CANDIDATES = 8
"""So many places are tried, the last ones: dictionaries within an event begin as events do."""
NEAR = 1 << 12
"""Characters behind an event that are searched for the next one where no comma stands between them."""
_RESUME = re.compile(r'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|s|args|bp)"\s*:)')


def json_text(value: Any) -> str | None:
    """A decoded value as JSON; None for null, and for what is nested too deep to be walked through."""
    try:
        return None if value is None else json.dumps(_with_floats(value), ensure_ascii=False)
    except RecursionError:
        return None


def _with_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_floats(item) for key, item in value.items()}
    return float(value) if isinstance(value, Real) else value


def split(text: bytes, position: int, tally: Tally) -> Iterator[tuple[int, Event]]:
    """Yields the events of a piece of JSON one by one; counts what can't be decoded and goes on with the next event."""
    return ((place, event) for place, _, event in pieces(text, position, tally))


def pieces(text: bytes, position: int, tally: Tally) -> Iterator[tuple[int, str, Event]]:
    """Yields (position, text, event) as `split` does; the text is the file's, repaired if necessary."""
    # a byte that is no UTF-8 stays apart until its event is decoded, so that positions can be counted in bytes
    content = text.decode("utf-8", "surrogateescape")
    places = _Places(content, position)
    at = looked = 0
    while True:
        blanks = _BLANKS.match(content, at)
        at = blanks.end() if blanks else at
        if at >= len(content):
            return
        if content[at] == "]":  # the end of the list, or a bracket that is here because of damage
            found, between, looked = last_list(content, at) if at >= looked else (None, {}, looked)
            blanks = _BLANKS.match(content, at + 1)
            if found is not None:
                at = found
                tally.repaired(TWICE)
                yield places.byte(at), "", Again(between)
            elif blanks and content.startswith("{", blanks.end()):
                at = blanks.end()
            elif resume := places.resume(at):
                at = resume.end()
            else:
                return
            continue
        shown, event, end = _piece(content, at, places, tally)
        if isinstance(event, dict):
            yield places.byte(at), shown, event
        elif event is None and end == len(content):
            tally.skipped("event cut off by the end of the file", 1, _valid(content[at:end]))
        else:
            tally.skipped("event that is no valid JSON object", 1, _valid(content[at:end]))
        at = end


class _Places:
    """Where the next event begins behind damage, and where a character stands in the file; both asked for in order."""

    def __init__(self, content: str, position: int) -> None:
        self._content, self._position = content, position
        self._plain = content.isascii()
        self._at = 0
        self._resume: re.Match[str] | None = None
        self._looked = False

    def resume(self, at: int) -> re.Match[str] | None:
        """The end of the first event that another follows, from here on."""
        if not self._looked or (self._resume is not None and self._resume.start() < at):
            self._resume, self._looked = _RESUME.search(self._content, at), True
        return self._resume

    def byte(self, at: int) -> int:
        """The position of a character."""
        if not self._plain:
            self._position += len(self._content[self._at : at].encode("utf-8", "surrogateescape")) - (at - self._at)
            self._at = at
        return self._position + at


def _piece(content: str, at: int, places: _Places, tally: Tally) -> tuple[str, Any, int]:
    """Returns (text, value, end) of what begins here; of what is damaged the end is where the next event begins."""
    try:
        value, end = _DECODER.raw_decode(content, at)
        shown = content[at:end]
        whole = _ends_value(content, end)
    except UNDECODABLE:
        shown, value, whole = "", None, False
        end = at
    if not whole:
        resume = places.resume(at)
        piece_end = resume.start() + 1 if resume else len(content)
        if value is None:
            shown, value = _mended(_valid(content[at:piece_end]), tally)
            end = at
        if not isinstance(value, dict):
            inner = _intact(content, at + 1, piece_end, cut_off=resume is None)
            return "", value, inner if inner is not None else piece_end
        # of an event with something behind it, that is looked at next; of one that was mended, all belongs to it
        near = at < end < piece_end < end + NEAR
        if not near or _intact(content, end, piece_end, cut_off=resume is None) is None:
            end = piece_end
    if isinstance(value, dict) and _NO_UTF8.search(shown):
        shown = _valid(shown)
        value = _DECODER.decode(shown)
    if isinstance(value, dict) and "\ufffd" in shown and _NO_UTF8.search(content, at, end):
        tally.repaired("invalid UTF-8 replaced", 1, shown)
    return shown, value, end


def _intact(content: str, at: int, end: int, *, cut_off: bool) -> int | None:
    """Where an intact event begins that ends with this piece, of which what stands before it is damaged; None if none.

    A dictionary within an event ends before the event does, so it is not mistaken for one.
    """
    begins = [match.start() for match in _EVENT.finditer(content, at, end)]
    for begin in begins[: -1 - CANDIDATES : -1]:
        try:
            event, after = _DECODER.raw_decode(content, begin)
        except UNDECODABLE:
            continue
        behind = _CLOSING if cut_off else _ENDING
        is_last = after <= end and behind.fullmatch(content, after, end) is not None
        if is_last and isinstance(event, dict) and "ph" in event:
            return begin
    return None


def _valid(text: str) -> str:
    """The text with a mark in the place of bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _ends_value(content: str, end: int) -> bool:
    """Whether what ends here is followed by another value, the end of the list, or nothing."""
    blank = _BLANK.match(content, end)
    after = blank.end() if blank else end
    return after >= len(content) or content[after] in ",]{"


def decode(bounded: Iterable[tuple[int, bytes]], tally: Tally) -> Iterator[tuple[int, Event]]:
    """Decodes events whose bounds are known; between two bounds there may be something else beside an event."""
    for position, text in bounded:
        event = _decoded(text)
        if isinstance(event, dict):
            yield position, event
        else:
            yield from split(text, position, tally)


def _decoded(text: bytes) -> Any:
    """What the whole of a text is as JSON; None if it is not."""
    try:
        return _DECODER.decode(text.decode("utf-8"))
    except UNDECODABLE:  # bytes that are no UTF-8 too
        return None


def decoded(text: bytes, tally: Tally) -> tuple[str, Event | None]:
    """Returns (text, event) of one event, repaired if necessary; counts what is not an event and returns None."""
    content = shown = text.decode("utf-8", "replace")
    try:
        event = _DECODER.decode(content)
    except UNDECODABLE:
        shown, event = _mended(content, tally)
    if isinstance(event, dict):
        return shown, event
    tally.skipped("event that is no valid JSON object", 1, content)
    return shown, None


def _mended(content: str, tally: Tally) -> tuple[str, Event | None]:
    """Returns (text, event) with invalid words and escapes replaced; None if that does not make it valid JSON."""
    mended = _BARE_WORD.sub(r"\1null", _BAD_ESCAPE.sub(r"\\\\", content)).strip().rstrip(",")
    try:
        event = _DECODER.decode(mended)
    except UNDECODABLE:
        return mended, None
    if isinstance(event, dict):
        tally.repaired("words or escapes that JSON doesn't know read as null or text", 1, content)
        return mended, event
    return mended, None
