"""The JSON layout of one file: where the events start, and the text before, between and after them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
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
BOM = b"\xef\xbb\xbf"


class Layout(Struct, frozen=True):
    """The exact bytes between two events: from the closing brace of one to the first quote of the next."""

    separator: bytes

    def begins_event(self, words: NDArray[np.uint64], begin: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which keys, given by their positions, have the separator before them (compares eight bytes of it)."""
        head = self.separator[:8]
        mask = np.uint64((1 << 8 * len(head)) - 1)
        before = words[np.maximum(begin - len(self.separator), 0)]
        found: NDArray[np.bool_] = (before & mask) == np.uint64(int.from_bytes(head, "little"))
        return found


KINETO = Layout(b'},\n  {\n    "')


def events_start(head: bytes | bytearray, searched: int = 0) -> int | None:
    """The position where the content of the events array starts, or None; the first `searched` bytes are skipped."""
    if match := _EVENTS_KEY.search(head, searched):
        return match.end()
    if match := _LIST_START.match(head):
        return match.end()
    return None


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
    return _loads(text + "]}", drop="traceEvents")


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
