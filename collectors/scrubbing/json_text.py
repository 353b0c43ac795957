"""Rewrites the strings of a JSON file while streaming it: even a trace of gigabytes needs only a few megabytes.

Everything outside strings is copied unchanged, so that times and sizes are the same to the last digit.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator

from tracetui.collectors.scrubbing import keys
from tracetui.collectors.scrubbing.marks import DAMAGED, TORN
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers.chrome.classify import DEVICE_CATEGORIES, HOST_CATEGORIES
from tracetui.parsers.chrome.tokens import ALL

LONGEST = 32 << 20
"""What looks like a longer string is not one: a quote is missing somewhere."""
LOOK_AHEAD = 256
"""A string this close to the end of a piece may turn out to be a key when the next piece arrives."""
CACHED = 1 << 19
_TOKEN = re.compile(rb'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"([ \t\r\n]*:)?', re.DOTALL)
"""A string ends on the line that it starts on, so a missing quote misleads only up to the end of its line."""
_BETWEEN = re.compile(rb"\s*[:,}\]](?:[\s,:{}\[\]0-9.eE+-]|true|false|null|NaN|Infinity)*")
"""What stands between two strings: in quotes behind a word without any, it tells that a quote is missing."""
_OUTSIDE = b" \t\r\n,:{}[]0123456789.eE+-", b"trufalsnNaIity"
"""Letters of which everything outside of strings consists, and those of its words."""
BOM = b"\xef\xbb\xbf"
_LITERALS = re.compile(rb"\b(?:true|false|null|NaN|Infinity|N/A|inf|nan|Inf|NAN|None|undefined)\b")
"""Words that stand for a value, those that the reader takes for null among them."""
_CONTROL = bytes(range(9)) + bytes((11, 12)) + bytes(range(14, 32))
_BLANKS = b" \t\r\n"
_DISORDER = tuple(b'"" :": [": ]" }" "[ "{ {", {"} {"] :",", :","} :","]'.split())
"""What is no JSON where each string is a quote and numbers are left out: two strings side by side, two colons, …"""
_NO_STRUCTURE = bytes(set(range(256)) - set(b'":,{}[]'))
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BEFORE_KEY, _BEFORE_VALUE = (b"{", b","), (b":", b"[", b",")
_ENDS = re.compile(rb"[ \t\r\n]*(?:[,}\]]|\Z)")
_STRAY = re.compile(rb"[^\s\"{}\[\],:](?:[^\"{}\[\],]*[^\s\"{}\[\],:])?")
"""A value that has lost its quotes."""
_NESTING = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_WORD = re.compile(rb"(?:[^\s\"{}\[\],:\\]|\\.?)+", re.DOTALL)
_ODD = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\udc80-\udcff]|\\[^\"\\/bfnrtu]")
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_LETTERS = re.compile(r"\\u[0-9a-fA-F]{4}|\\[^u]|[^\W_]")
_OF_EVENTS = frozenset(b"ph cat ts dur pid tid id s bp args".split())
"""Keys with which an event may begin: behind damage, they tell a reader where the next one does."""
_KEYS = frozenset(key.encode() for key in ALL)
_WORDS = _KEYS | {word.encode() for word in (*HOST_CATEGORIES, *DEVICE_CATEGORIES, *string.ascii_letters)}
"""Whole strings that tell what an event is, letters as its phase among them, and nothing of anybody."""
_IN_WORD = bytes(set(range(256)) - set(b' \t\r\n\f\v"{}[],:'))
_OPENING = re.compile(rb"[ \t\r\n]*([{\[])")
_HARMLESS = frozenset({keys.NAME, keys.VALUE, keys.KEPT, keys.KEPT_NUMBERS, keys.HASH, keys.PROGRAM})
_METADATA = ("process_name", "thread_name", "process_labels")
_METADATA_BYTES = tuple(name.encode() for name in _METADATA)
"""Events that name a process or thread: their argument `name` may be a whole command line."""


class JsonScrubber:
    """Turns the pieces of one file into the pieces of its copy."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._cache: dict[tuple[str, bytes], tuple[bytes, tuple[tuple[str, int], ...]]] = {}
        self._kind = keys.VALUE
        """The kind of the key whose value comes next."""
        self._key = b""
        self._sign = b"{"
        """What stands before the current position, outside of strings; a quote behind a value."""
        self._keyed = False
        """Whether what came before the current position in the same container had a key."""
        self._named = ""
        """The last value of a key `name`, if it says that the next one names a process or thread."""
        self._seen: dict[bytes, bool | None] = {}
        """Whether a string stays unchanged under any key; None if it is a key of something private."""
        self._depth = 0
        """How deep the current position is inside a value that is left out."""

    def scrub(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yields the copy, piece by piece."""
        held = b""
        first = True
        for piece in pieces:
            held += piece
            if first and held.startswith(BOM):
                yield BOM
                held = held[len(BOM) :]
            elif first and BOM.startswith(held):
                continue
            first = False
            cut = _end_of_objects(held)
            quick = self._quickly(held[:cut]) if cut and not self._depth else None
            if quick is not None:
                yield quick
            else:
                # cut after an object, never inside a string, so that every string can be judged whole
                out, cut = self._some(held[:cut] if cut else held, final=bool(cut))
                yield from out
            held = held[cut:]
            if len(held) > LONGEST:
                yield b"" if self._depth else self._outside(held)
                held = b""
        out, used = self._some(held, final=True)
        yield from out
        yield b"" if self._depth else self._outside(held[used:])

    def _quickly(self, text: bytes) -> bytes | None:
        """Copies whole objects fast, looking one by one only at the strings that change.

        Returns None where splitting at the quotes is not enough: escaped quotes, damage, keys of private values.
        """
        parts = text.split(b'"')
        if b'\\"' in text or len(parts) % 2 == 0:
            return None
        outside = b"".join(parts[::2])
        if b"/" in outside or outside.translate(None, b"".join(_OUTSIDE)):
            return None  # a quote is missing
        structure = b'"'.join(parts[::2]).translate(None, _NO_STRUCTURE)
        if any(found in structure for found in _DISORDER) or _is_torn(text):
            return None
        strings = dict.fromkeys(parts[1::2])  # in their order: what is learned from one counts for the next
        for inner in [inner for inner in strings if inner not in self._seen]:
            if len(self._seen) >= CACHED:
                self._seen.clear()
            is_private = keys.kind_of(inner.decode("utf-8", "replace")) not in _HARMLESS
            self._seen[inner] = None if is_private else self._redactor.is_harmless(_decoded(inner))
        seen = self._seen
        changing = {inner for inner in strings if not seen.get(inner)}
        if any(seen.get(inner, False) is None for inner in changing):
            return None
        for n in [n for n in range(1, len(parts), 2) if parts[n] in changing] if changing else ():
            kind = self._kind_at(parts, n)
            parts[n] = self._rewritten(kind, parts[n], b'"' + parts[n] + b'"')[1:-1]
        self._key, self._kind, self._named, self._sign = b"", keys.VALUE, "", b"}"
        self._keyed = False
        return b'"'.join(parts) if changing else text

    def _kind_at(self, parts: list[bytes], n: int) -> str:
        """The kind of a string between quotes, by the key before it."""
        if parts[n + 1].lstrip().startswith(b":"):
            return keys.VALUE  # a key itself
        at = n
        while at > 0 and b":" not in parts[at - 1]:
            if _closes(parts[at - 1]):
                return keys.VALUE
            at -= 2  # an element of a list
        at -= 2
        if at < 0 or _closes(parts[at + 1]):
            return keys.VALUE
        kind = keys.kind_of(parts[at].decode("utf-8", "replace"))
        if parts[max(at, 0)] == b"name" and any(
            part in _METADATA_BYTES for part in parts[max(at % 2, at - 16) : at : 2]
        ):
            return keys.VALUE
        return kind

    def _some(self, text: bytes, *, final: bool) -> tuple[list[bytes], int]:
        """Scrubs as much of the start of a text as can be judged yet, and returns how long that part is."""
        out: list[bytes] = []
        position = 0
        limit = len(text) if final else len(text) - LOOK_AHEAD
        while True:
            if self._depth:
                position = self._leave(text, position)
                if self._depth:
                    return out, position
            found = _TOKEN.search(text, position)
            if found is None or (found.end() > limit and not final):
                break
            before = text[position : found.start()]
            if not _is_plain(before) and _BETWEEN.fullmatch(found[1]) is not None:  # the quotes have changed sides
                out.append(self._outside(before, is_string=True) + b'"')
                if found[1].lstrip().startswith(b":"):  # what stands before it is a key, or the end of one
                    self._key = before.strip(b' \t\r\n,{[:"')
                    kind = keys.kind_of(self._key.decode("utf-8", "replace"))
                    self._kind = keys.LOST if kind in _HARMLESS and self._key not in _OF_EVENTS else kind
                position = found.start() + 1
                continue
            out.append(self._outside(before))
            position = found.end()
            sign = self._sign
            if found[2] is not None:
                self._sign, self._keyed = b":", True
                misplaced = sign not in _BEFORE_KEY
                kind = keys.LOST if misplaced or self._is_torn_apart(found[1]) else keys.VALUE
                out.append(self._rewritten(kind, found[1], found[0][: -len(found[2])]) + found[2])
                lost = (misplaced and found[1] not in _KEYS) or _is_torn(found[1])
                self._key, self._kind = (
                    found[1],
                    keys.LOST if lost else keys.kind_of(found[1].decode("utf-8", "replace")),
                )
                opening = _OPENING.match(text, position) if self._kind in keys.EMPTIED else None
                if opening:
                    out.append(b" {}" if opening[1] == b"{" else b" []")
                    self._redactor.count(self._kind)
                    self._kind = keys.VALUE
                    position, self._depth = opening.end(), 1
            else:
                self._sign = b'"'
                misplaced = sign not in _BEFORE_VALUE or (sign == b"," and self._keyed)
                if misplaced or _ENDS.match(text, position) is None:  # it may be what stands between two strings
                    self._kind = keys.LOST
                    out.append(b'"' + self._masked(found[1]) + b'"')
                    continue
                if self._kind != keys.NAME and self._is_torn_apart(found[1]):
                    self._kind = keys.LOST
                out.append(self._value(found[1], found[0]))
        rest = text.find(b'"', position)
        end = len(text) if rest < 0 else rest
        if rest < 0 and not final:  # a word or number may go on in the next piece
            end = max(position, len(text.rstrip(_IN_WORD)))
        out.append(self._outside(text[position:end]))
        return out, end

    def _leave(self, text: bytes, position: int) -> int:
        """The position where the value that is left out ends, or up to which it has been followed."""
        for match in _NESTING.finditer(text, position):
            mark = match[0]
            if match.end() == len(text) and mark.startswith(b'"') and _TOKEN.fullmatch(mark) is None:
                return match.start()  # a string that goes on in the next piece
            if mark in (b"{", b"["):
                self._depth += 1
            elif mark in (b"}", b"]"):
                self._depth -= 1
                if not self._depth:
                    return match.end()
            position = match.end()
        return position

    def _value(self, inner: bytes, whole: bytes) -> bytes:
        kind = self._kind
        if self._key == b"name":
            if self._named in _METADATA and kind == "name":
                kind = keys.VALUE
            self._named = inner.decode("ascii", "replace") if len(inner) < 20 else ""
        return self._rewritten(kind, inner, whole)

    def _rewritten(self, kind: str, inner: bytes, whole: bytes) -> bytes:
        """The string in quotes, without what must not be shown."""
        if kind == keys.LOST:
            return b'"' + self._masked(inner) + b'"'
        known = self._cache.get((kind, inner))
        if known is None:
            known = self._judged(kind, inner, whole)
            if len(self._cache) >= CACHED:
                self._cache.clear()
            self._cache[kind, inner] = known
        for what, times in known[1]:
            self._redactor.count(what, times)
        return known[0]

    def _judged(self, kind: str, inner: bytes, whole: bytes) -> tuple[bytes, tuple[tuple[str, int], ...]]:
        """The string without what must not be shown, and what was removed from it."""
        counts, self._redactor.counts = self._redactor.counts, Counter()
        text = _decoded(inner)
        result = keys.replaced(self._redactor, kind, text)
        found, self._redactor.counts = tuple((+self._redactor.counts).items()), counts
        return b"null" if result is None else whole if result == text else _encoded(result), found

    def _outside(self, text: bytes, *, is_string: bool = False) -> bytes:
        """Handles what lies between strings: numbers and brackets, but anything at all in a damaged file.

        Args:
            text: what lies there.
            is_string: whether it ends with a string's text, whose first quote is missing or on an earlier line.
        """
        if _closes(text):  # the value of the last key has ended
            self._key, self._kind = b"", keys.VALUE
        if said := text.strip(_BLANKS):
            self._sign = said[-1:]
            self._keyed &= not any(bracket in said for bracket in (b"{", b"}", b"[", b"]"))
        if _is_plain(text):
            return text
        before, quote, behind = text.partition(b'"')
        if quote and is_string and self._kind == keys.NAME:  # a name of several lines
            name = self._redactor.name(_text(behind)).encode("utf-8", "surrogateescape")
            return before + quote + name.replace(b'"', b"")
        shown = _STRAY.sub(lambda match: self._unquoted(match[0]), before)
        if quote:  # a string without an end, in which a number is as private as a word
            shown += quote + self._masked(behind)
        self._kind = keys.LOST
        self._redactor.unjudged.setdefault(" ".join(_text(shown).split()), DAMAGED)
        return shown

    def _is_torn_apart(self, inner: bytes) -> bool:
        """Whether odd bytes stand in the middle of something private, which then has no known form."""
        return _is_torn(inner) and self._redactor.would_change(_ODD.sub("", _text(inner)))

    def _masked(self, text: bytes) -> bytes:
        """The text without its letters and digits: what damage left of its form tells a reader what it told before."""
        if text in _WORDS:
            return text
        self._redactor.count(TORN)
        return _WORD.sub(lambda match: match[0] if match[0] in _OF_EVENTS else _form(match[0]), text)

    def _unquoted(self, text: bytes) -> bytes:
        if _is_plain(text) or not _LETTER.search(text):
            return text
        if self._kind in _HARMLESS or self._kind == keys.LOST:
            return self._masked(text)
        result = keys.replaced(self._redactor, self._kind, _text(text))
        return b"null" if result is None else result.encode("utf-8", "surrogateescape")


def _form(word: bytes) -> bytes:
    """A word with each letter as x and each digit as 0; escapes and bytes that are no UTF-8 stay what they are."""
    return _LETTERS.sub(lambda match: _same_form(match[0]), _text(word)).encode("utf-8", "surrogateescape")


def _same_form(letter: str) -> str:
    if letter.startswith("\\"):
        return "\\u0078" if len(letter) > 2 else letter
    return "0" if letter.isdecimal() else "x"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _decoded(inner: bytes) -> str:
    """The decoded text of a string; the raw text if its escapes are damaged."""
    text = _text(inner)
    if "\\" not in text:
        return text
    try:
        decoded = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return decoded if isinstance(decoded, str) else text


def _encoded(text: str) -> bytes:
    try:
        return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character, escaped in the original
        return json.dumps(text).encode("ascii")


def _is_plain(outside: bytes) -> bool:
    """Whether a text is what stands between strings: numbers, brackets, and the words of JSON."""
    return not outside.translate(None, _OUTSIDE[0]) or not _LITERALS.sub(b"", outside).translate(None, _OUTSIDE[0])


def _closes(between: bytes) -> bool:
    """Whether an object or a list ends between two strings."""
    return b"}" in between or b"]" in between


def _end_of_objects(text: bytes) -> int:
    """The position where the last object in a text ends; 0 if the quotes of its line can't tell."""
    end = len(text)
    for _ in range(4):
        end = text.rfind(b"}", 0, end)
        if end <= 0:
            return 0
        line = text[text.rfind(b"\n", 0, end) + 1 : end]
        if b"\\" in line:
            line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
        if line.count(b'"') % 2 == 0:
            return end + 1
    return 0


def _is_torn(text: bytes) -> bool:
    """Whether a text has what no JSON holds: control characters, no UTF-8, or a backslash before no escape."""
    if len(text.translate(None, _CONTROL)) < len(text) or (b"\\" in text and b"\\" in _ESCAPE.sub(b"", text)):
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False
