"""Finds the strings of a chunk, which of the keys that are read they are, and which events they belong to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.parsers.arrays import Bools, Bytes, Ints, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.parsers.chrome.chunks import Chunk


TOP_LEVEL = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id")
ARGUMENTS = (
    "correlation", "External id", "external id", "Sequence number", "Python module id",
    "device", "stream", "context", "registers per thread", "shared memory", "blocks per SM",
    "est. achieved occupancy %", "bytes", "grid", "block", "Input Dims", "Input type", "Call stack",
    "Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Id", "Device Type",
    "correlation_id", "graph node id", "cuda_graph_node_id",
    "hlo_op", "hlo_module", "tf_op", "step_num", "kernel_details", "memcpy_details", "Memset_details",
    "memset_details", "context_id", "size",
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "In split size", "Out split size",
    "Process Group Name", "Process Group Description", "Process Group Ranks", "Seq", "Src Rank", "Dst Rank",
    "Concrete Inputs", "kernel", "kernel_file", "correlationId", "deviceId", "streamId", "contextId", "BeginNs",
)  # fmt: skip
ARGS = "args"
ALL = (*TOP_LEVEL, ARGS, *ARGUMENTS)

PREFIX, TAIL = 4, 8
"""How many bytes of a key are compared at its start, and at its end including the quote and the colon."""
CLOSING = len('":')
_SLOT_BITS = 12
_SHIFT = np.uint32(32 - _SLOT_BITS)


def _little_endian(text: bytes) -> int:
    return int.from_bytes(text, "little")


class KeyTable:
    """Groups strings by their first four bytes (which tell nearly all keys apart) and compares the rest after."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._full: dict[str, tuple[np.uint64, np.uint64, int]] = {}
        self._tails: dict[str, np.uint64] = {}
        prefixes: dict[int, int] = {}
        self._code: dict[str, int] = {}
        for name in names:
            text = name.encode() + b'":'  # a key shorter than four bytes is compared with its closing bytes
            prefix = _little_endian(text[:4])
            self._code[name] = prefixes.setdefault(prefix, len(prefixes) + 1)
            head = text[:8]
            self._tails[name] = np.uint64(_little_endian(text[-8:]))
            self._full[name] = (np.uint64(_little_endian(head)), np.uint64((1 << 8 * len(head)) - 1), len(name))
        self.codes = len(prefixes) + 1
        self._multiplier = self._perfect_multiplier(list(prefixes))
        self._slots = np.zeros(1 << _SLOT_BITS, np.uint8)
        self._prefix = np.zeros(256, np.uint32)
        for prefix, code in prefixes.items():
            self._slots[(prefix * int(self._multiplier) & 0xFFFFFFFF) >> int(_SHIFT)] = code
            self._prefix[code] = prefix

    @staticmethod
    def _perfect_multiplier(prefixes: list[int]) -> np.uint32:
        """A factor that sends every prefix to a slot of its own."""
        for factor in range(0x9E3779B1, 0x9E3779B1 + 2_000_000, 2):
            if len({(prefix * factor & 0xFFFFFFFF) >> int(_SHIFT) for prefix in prefixes}) == len(prefixes):
                multiplier: np.uint32 = np.uint32(factor & 0xFFFFFFFF)
                return multiplier
        raise AssertionError("no perfect hash for the key table")

    def classify(self, first4: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """The code of each string by its first four bytes, 0 where no key begins so."""
        slot = (first4 * self._multiplier) >> _SHIFT
        code: NDArray[np.uint8] = self._slots[slot]
        code *= self._prefix[code] == first4
        return code

    def code(self, name: str) -> int:
        """The code of the group that holds this key's strings."""
        return self._code[name]

    @staticmethod
    def is_told_by_prefix(name: str) -> bool:
        """Whether the four bytes that `classify` compares hold the whole key and its closing quote."""
        return len(name) < PREFIX

    def matches(self, name: str, words: NDArray[np.uint64], begin: Ints) -> Bools:
        """Which strings of a group are this key, compared by its bytes, closing quote and colon."""
        head, mask, size = self._full[name]
        same: Bools
        if size + CLOSING <= TAIL:
            same = (words[begin] & mask) == head
            return same
        # the first four bytes are known to match; these are the last six, the quote and the colon
        same = words[begin + (size + CLOSING - TAIL)] == self._tails[name]
        if size + CLOSING > PREFIX + TAIL:
            same &= (words[begin] & mask) == head
        return same


TABLE = KeyTable(ALL)


class Vocabulary:
    """Maps strings of a chunk to the position of the known word they are, or -1."""

    _MIX_HEAD, _MIX_TAIL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)

    def __init__(self, words: tuple[str, ...]) -> None:
        signatures = np.array([self._signature_of(word.encode()) for word in words], np.uint64)
        self._order = np.argsort(signatures)
        self._signatures = signatures[self._order]
        if np.unique(signatures).size != len(words):
            raise AssertionError("two words of a vocabulary look alike")

    @classmethod
    def _signature_of(cls, word: bytes) -> int:
        padded = np.frombuffer(word + bytes(16), np.uint8)
        view = np.ndarray((padded.size - 8,), "<u8", padded, 0, (1,))
        return int(cls._signatures_at(view, np.zeros(1, np.int64), np.array([len(word)]))[0])

    @classmethod
    def _signatures_at(cls, words: NDArray[np.uint64], begin: Ints, length: Ints) -> NDArray[np.uint64]:
        """Length, first eight and last eight bytes of each string, mixed."""
        short = np.minimum(length, 8).astype(np.uint64) << np.uint64(3)
        head = words[begin] << (np.uint64(64) - short)
        tail = words[begin + np.maximum(length - 8, 0)] << (np.uint64(64) - short)
        mixed: NDArray[np.uint64] = (head * cls._MIX_HEAD) ^ (tail * cls._MIX_TAIL) ^ length.astype(np.uint64)
        return mixed

    def lookup(self, words: NDArray[np.uint64], begin: Ints, length: Ints) -> Ints:
        """The position of each string's word, or -1."""
        signature = self._signatures_at(words, begin, length)
        at = np.minimum(np.searchsorted(self._signatures, signature), self._signatures.size - 1)
        return np.where(self._signatures[at] == signature, self._order[at], -1)


_QUOTE, _COMMA, _BACKSLASH, _OPEN_BRACE, _CLOSE_BRACE, _COLON, _SPACE = b'",\\{}: '
_LOWER, _LETTER_A, _LETTERS = np.uint8(32), np.uint8(ord("a")), np.uint8(26)
FEW = 64
"""Of so many events one is left to the decoder rather than that all braces are counted."""
_ENDS_VALUE = np.zeros(256, np.bool_)
_ENDS_VALUE[[_COMMA, _CLOSE_BRACE, *range(_SPACE + 1)]] = True


_NEEDLESS = re.compile(rb"\\(?:u00(?:3\d|[46][1-9A-Fa-f]|[57][\dAa]|5[Ff]|2[035DdEeFf])|/)")
"""Escapes of what keys and categories consist of: letters, digits, blanks, ``_``, ``.``, ``-``, ``#``, ``%``, ``/``."""


class Irregular(Exception):  # noqa: N818  a change of path, not a failure
    """The fast path can't read the chunk exactly; its events are decoded one by one."""


@dataclass(slots=True)
class Field:
    """One key's occurrences in a chunk, at most one per event, in event order."""

    event: Ints | None
    """The event of each occurrence; None if every event has one."""
    at: Ints
    """The position where each value starts."""
    key: Ints
    """The key's number among all keys of the chunk."""


class Tokens:
    """Finds strings and events in one chunk.

    Raises:
        Irregular: quotes or events don't add up.
    """

    def __init__(self, chunk: Chunk) -> None:
        if chunk.layout is None:
            raise Irregular("no separator")
        self.buffer = chunk.buffer
        self.size = chunk.end
        text = self.buffer[: self.size]
        self.words: Words = np.ndarray((self.buffer.size - 8,), "<u8", self.buffer, 0, (1,))
        first4 = np.ndarray((self.buffer.size - 4,), "<u4", self.buffer, 0, (1,))

        quotes = np.flatnonzero(text == _QUOTE)
        self.has_escapes = bool((text == _BACKSLASH).any())
        if self.has_escapes:
            if _NEEDLESS.search(text.data):
                raise Irregular("letters written as escapes, which keys and categories are not compared with")
            quotes = quotes[~self._escaped(quotes)]
        if quotes.size % 2:
            raise Irregular("odd number of quotes")
        self.begin = quotes[0::2] + 1
        """The position where each string's text starts."""
        self.close = quotes[1::2]
        """The position of its closing quote."""

        after = self.buffer[self.close + 1]
        # between two damaged quotes strings and separators swap places, so an even number of quotes can still be wrong
        if ((after | _LOWER) - _LETTER_A < _LETTERS).any():
            raise Irregular("a letter behind a closing quote")
        self._key = np.flatnonzero(after == _COLON)
        """The strings that are keys, read or not."""
        self._key_begin = self.begin[self._key]
        first = np.flatnonzero(chunk.layout.begins_event(self.words, self._key_begin))
        """The key with which each event but the first starts."""
        self.ends: Ints = np.append(self._key_begin[first] - len(chunk.layout.separator), self.size - 1)
        """The closing brace of each event."""
        self.events = self.ends.size
        self.first = self._first_brace(text)
        """Where the first event begins."""
        self.begins: Ints = np.append(self.first, self.ends[:-1] + chunk.layout.separator.index(b"{"))
        """The opening brace of each event."""
        if self._is_anything_between():
            raise Irregular("something that is no event")
        self._every = np.arange(self.events)
        self._key_event = np.repeat(self._every, np.diff(first, prepend=0, append=self._key.size))
        code = TABLE.classify(first4[self._key_begin])
        self._order = np.argsort(code, kind="stable")
        self._cuts = np.zeros(TABLE.codes + 1, np.int64)
        np.cumsum(np.bincount(code, minlength=TABLE.codes), out=self._cuts[1:])

        phases = self._keys("ph")
        self._arguments, again = self._first_arguments()
        if not self._is_one_per_event(phases):
            raise Irregular("events and phases don't pair")
        self.phase: Bytes = self.buffer[self.begin[self._key[phases] + 1]]
        """The letter of each event's ``ph``."""
        self.odd = self._key_begin[phases] + len('ph": "') < self.begin[self._key[phases] + 1]
        self.odd |= self.buffer[self.begin[self._key[phases] + 1] + 1] != _QUOTE
        self.odd |= self._in_arguments(phases, self._every)
        self.odd[again] = True
        self.odd[self._with_objects(text)] = True
        """Events that only a JSON decoder reads correctly: so far, those whose phase is no single letter, with
        arguments twice, or with an object that is not their arguments."""

    def _escaped(self, quotes: Ints) -> Bools:
        """Which quotes follow an odd number of backslashes."""
        escaped = np.zeros(quotes.size, np.bool_)
        for number in np.flatnonzero(self.buffer[quotes - 1] == _BACKSLASH).tolist():
            position = int(quotes[number]) - 1
            while position >= 0 and self.buffer[position] == _BACKSLASH:
                position -= 1
                escaped[number] ^= True
        return escaped

    @staticmethod
    def _first_brace(text: Bytes) -> int:
        for part in (text[:4096], text):
            if (found := np.flatnonzero(part == _OPEN_BRACE)).size:
                return int(found[0])
        return 0

    def _is_anything_between(self) -> bool:
        """Whether something stands before the first event, or an empty object or a lone brace ends another's text."""
        before = self.buffer[: self.first]
        if not ((before <= _SPACE) | (before == _COMMA)).all():
            return True
        last = self.ends - 1
        while (blank := self.buffer[last] <= _SPACE).any():
            last = last - blank
        ends_with = self.buffer[last]
        return bool(((ends_with == _OPEN_BRACE) | (ends_with == _COMMA)).any())

    def _keys(self, name: str) -> Ints:
        """Which of the keys are this one."""
        code = TABLE.code(name)
        found = self._order[self._cuts[code] : self._cuts[code + 1]]
        if found.size and not TABLE.is_told_by_prefix(name):
            same = TABLE.matches(name, self.words, self._key_begin[found])
            if not same.all():
                found = found[same]
        return found

    def _is_one_per_event(self, keys: Ints) -> bool:
        return keys.size == self.events and bool((self._key_event[keys] == self._every).all())

    def _first_arguments(self) -> tuple[Ints, Ints]:
        """The key of each event's arguments (of events without any a number above all keys), and who has them twice."""
        first = np.full(self.events, self._key.size)
        found = self._keys(ARGS)[::-1]
        event = self._key_event[found]
        first[event] = found
        return first, event[1:][event[1:] == event[:-1]]

    def _with_objects(self, text: Bytes) -> Ints:
        """The events with an object besides their arguments: its keys are none of the event's own."""
        opened = text == _OPEN_BRACE
        opened[self.begins] = False
        opened[self._values(ARGS, self._keys(ARGS))] = False
        return self.event_at(self._outside(np.flatnonzero(opened)))

    def _in_arguments(self, keys: Ints, event: Ints) -> Bools:
        """Which of these keys, given with their events, may stand among the arguments, not beside them."""
        behind = self._arguments if event is self._every else self._arguments[event]
        found: Bools = keys > behind
        if FEW * np.count_nonzero(found) > self.events:  # in a layout that writes the arguments first
            found[found] = self._depth(self._key_begin[keys[found]]) > self._depth(self.ends[event[found]])
        return found

    def _depth(self, at: Ints) -> Ints:
        """How many braces are open before each of these positions."""
        text = self.buffer[: self.size]
        opened, closed = (self._outside(np.flatnonzero(text == brace)) for brace in (_OPEN_BRACE, _CLOSE_BRACE))
        return np.searchsorted(opened, at) - np.searchsorted(closed, at)

    def _outside(self, at: Ints) -> Ints:
        """Those of some positions that are outside of strings."""
        string = np.searchsorted(self.begin, at, side="right") - 1
        return at[(string < 0) | (at >= self.close[string])]

    def field(self, name: str) -> Field | None:
        """A key's occurrences, or None; marks events as odd that have it twice, or not where it belongs."""
        keys = self._keys(name)
        if not keys.size:
            return None
        complete = self._is_one_per_event(keys)
        event = self._every if complete else self._key_event[keys]
        if name in TOP_LEVEL and (inner := self._in_arguments(keys, event)).any():
            self.odd[event[inner]] = True
        if complete:
            return Field(None, self._values(name, keys), keys)
        again = event[1:] == event[:-1]
        if again.any():
            self.odd[event[1:][again]] = True
            first = np.concatenate(([True], ~again))
            keys, event = keys[first], event[first]
        return Field(event, self._values(name, keys), keys)

    def _values(self, name: str, keys: Ints) -> Ints:
        """The positions where the values of these keys start: after the colon and at most one blank.

        After more blanks the reader finds no plain number or string, and so marks the event odd.
        """
        at = self._key_begin[keys]
        at += len(name) + len('":')
        at += self.buffer[at] <= _SPACE
        return at

    def only(self, field: Field, events: Bools) -> Field:
        """The occurrences in these events."""
        event = self.event_of(field)
        kept = events[event]
        return Field(event[kept], field.at[kept], field.key[kept])

    def text(self, field: Field) -> tuple[Ints, Ints]:
        """Returns (start, length) of string values.

        A value that is not a string, or doesn't end where a value ends, marks its event odd.
        """
        value = np.minimum(self._key[field.key] + 1, self.begin.size - 1)
        begin, close = field.at + 1, self.close[value]
        # a quote that should have been escaped ends the string too early; no value continues with a letter
        strange = (self.buffer[field.at] != _QUOTE) | ~_ENDS_VALUE[self.buffer[close + 1]]
        if strange.any():
            self.odd[self.event_of(field)[strange]] = True
            close = np.where(strange, begin, close)
        return begin, close - begin

    @property
    def values(self) -> Ints:
        """The position behind the colon of each key, read or not."""
        return self.close[self._key] + 2

    def event_at(self, position: Ints) -> Ints:
        """The event number at each position."""
        return np.searchsorted(self.ends, position)

    def event_of(self, field: Field) -> Ints:
        """The event number of each occurrence."""
        return self._every if field.event is None else field.event

    def raw_values(self, field: Field) -> tuple[Ints, Ints]:
        """Returns (start, length) of the JSON text of values that may be lists, up to the next key or event's end."""
        following = field.key + 1
        last = following == self._key.size
        end = np.where(last, self.size, self._key_begin[np.where(last, 0, following)] - 1)
        end = np.minimum(end, self.ends[self.event_of(field)])
        while True:
            before = self.buffer[end - 1]
            blank = (before <= _SPACE) | (before == _COMMA) | (before == _CLOSE_BRACE)
            if not blank.any():
                return field.at, end - field.at
            end = end - blank
