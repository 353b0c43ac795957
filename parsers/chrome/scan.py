"""The fast path: turns one chunk's events into columns without a Python object per event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.parsers import categories, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.chrome import classify
from tracetui.parsers.chrome.chunks import Chunk
from tracetui.parsers.chrome.collectives import columns_of, described_in
from tracetui.parsers.chrome.columns import NULL, OPTIONAL, OTHER_KIND, Columns
from tracetui.parsers.chrome.tokens import Field, Irregular, Tokens, Vocabulary
from tracetui.parsers.chrome.values import integers, nanoseconds, reals, strings

Reader = Callable[[NDArray[np.uint8], NDArray[np.uint64], Ints], tuple[NDArray[Any], Bools]]

_QUOTE, _BRACKET = ord('"'), ord("[")
_STREAM = np.uint64(int.from_bytes(b'"stream ', "little"))
"""What precedes the number of a stream, where it stands for a thread."""
SHORT = 10**7
"""A number below this and the comma after it fit into the eight bytes that are compared."""
TIME_LIMIT = 2**61
LONGEST = 2**53
"""ns: no event takes 104 days, and sums of such durations would not fit 64 bits."""
"""Times beyond 73 years are damage; below, sums of two still fit in int64."""


def _spellings(words: dict[str, str]) -> dict[str, str]:
    """Categories as files spell them: lower case today, capitalised in 2020."""
    return {spelling: kind for word, kind in words.items() for spelling in (word, word.capitalize())}


_HOST = _spellings(classify.HOST_CATEGORIES)
_DEVICE = _spellings({word: word for word in (*classify.DEVICE_CATEGORIES, *sorted(classify.NAMED_CATEGORIES))})
_IGNORED = tuple(s for word in sorted(classify.IGNORED_CATEGORIES) for s in (word, word.capitalize()))
_WORDS = (*_HOST, *_DEVICE, *_IGNORED, "fwdbwd", "forward_backward")
_CATEGORIES = Vocabulary(_WORDS)
_NAMES = Vocabulary(("[memory]",))
# what each category number means, with one more entry at the end for "unknown" (-1)
_HOST_KIND = np.array([schema.HOST_KINDS.index(_HOST[w]) if w in _HOST else 255 for w in _WORDS] + [255], np.uint8)
_DEVICE_KIND = np.array([classify.device_kind(_DEVICE.get(w, "")) for w in _WORDS] + [OTHER_KIND], np.uint8)
_IS_HOST = _HOST_KIND < 255
_ANNOTATION = schema.HOST_KINDS.index("annotation")
_IS_IGNORED = np.array([w in _IGNORED for w in _WORDS] + [False])
_IS_FLOW = np.array([w in ("fwdbwd", "forward_backward") for w in _WORDS] + [False])

_LEFT_PHASES = np.ones(256, np.bool_)  # metadata, counters, begin, end, async and unknown events: few, of many forms
_LEFT_PHASES[list(b"XiIstfpPNODRcvV(),=")] = False

HOST_INTS = {"correlation": "correlation", "external_id": "External id", "sequence": "Sequence number",
             "module_id": "Python module id"}  # fmt: skip
DEVICE_INTS = {"device": "device", "stream": "stream", "context": "context", "correlation": "correlation",
               "external_id": "External id", "registers": "registers per thread", "shared_memory": "shared memory",
               "bytes": "bytes", "graph_node": "graph node id"}  # fmt: skip
DEVICE_REALS = {"occupancy_percent": "est. achieved occupancy %", "blocks_per_sm": "blocks per SM"}
MEMORY_INTS = {"device_type": "Device Type", "device": "Device Id", "address": "Addr", "bytes": "Bytes",
               "allocated": "Total Allocated", "reserved": "Total Reserved"}  # fmt: skip
HOST_TEXTS = {"input_shapes": "Input Dims", "input_types": "Input type"}
CONCRETE = {"concrete_inputs": "Concrete Inputs"}
HOST_NAMES = {"stack": "Call stack", "kernel": "kernel", "kernel_file": "kernel_file"}
# older or other spellings of an argument, read if those before are absent
ALIASES = {
    "External id": ("external id",), "correlation": ("correlation_id", "correlationId"),
    "graph node id": ("cuda_graph_node_id",), "Memset_details": ("memset_details",), "bytes": ("size",),
    "device": ("deviceId",), "stream": ("streamId",), "context": ("contextId",),
}  # fmt: skip
XLA_TEXTS = {"hlo_op": "hlo_op", "hlo_module": "hlo_module", "tf_op": "tf_op", "step_num": "step_num",
             "kernel_details": "kernel_details", "memcpy_details": "memcpy_details",
             "memset_details": "Memset_details", "xla_context": "context_id"}  # fmt: skip
"""What XLA's profiler says about an event, always as strings."""


@dataclass(slots=True)
class Part:
    """The result of scanning one chunk."""

    groups: dict[str, Columns]
    parsed: int = 0
    """How many events were read completely."""
    decode: list[tuple[int, bytes]] = field(default_factory=list)
    """(position, text) of events left to the JSON decoder."""
    has_escapes: bool = False


def scan(chunk: Chunk) -> Part:
    """Reads a chunk.

    Raises:
        Irregular: the chunk's events must be read one by one.
    """
    return ChunkScan(chunk).part()


class ChunkScan:
    """The columns of one chunk's events, read as they are asked for."""

    def __init__(self, chunk: Chunk) -> None:
        text = chunk.buffer[: chunk.end]
        if text.max(initial=0) > 127:
            try:
                str(text.data, "utf-8")
            except UnicodeDecodeError as error:
                raise Irregular("invalid UTF-8") from error
        self._chunk = chunk
        self.tokens = tokens = Tokens(chunk)
        self._values: dict[str, NDArray[Any]] = {}
        self._present: set[str] = set()
        is_complete = tokens.phase == ord("X")
        category = self._number("cat", _CATEGORIES)
        kind = _DEVICE_KIND[category]
        ignored = _IS_IGNORED[category]
        host = is_complete & _IS_HOST[category]
        device = is_complete & ~host & ~ignored
        instant = (tokens.phase == ord("i")) | (tokens.phase == ord("I"))
        memory = instant & (self._number("name", _NAMES) == 0) if instant.any() else instant
        flow = ((tokens.phase == ord("s")) | (tokens.phase == ord("f"))) & _IS_FLOW[category]
        left = (is_complete & ignored) | _LEFT_PHASES[tokens.phase]

        self.start, self.has_start = self._times("ts")
        self.duration, has_duration = self._times("dur")
        tokens.odd |= is_complete & ~has_duration
        if found := tokens.field("BeginNs"):  # times and arguments in rocprof's words
            tokens.odd[tokens.event_of(found)] = True
        tokens.odd |= (host | device | memory | flow) & ~self.has_start
        tokens.odd |= is_complete & ((self.duration < 0) | (self.duration > LONGEST))
        self._kind, self._category_codes = kind, category
        self.rows = {"host": host, "device": device, "memory": memory, "flows": flow}
        self._left = left

    def part(self) -> Part:
        """Every column of the chunk."""
        tokens = self.tokens
        # reading the columns marks odd events, so rows are chosen afterwards: an odd one leaves its group
        names = self._names()
        common = {"process": self.repeated("pid"), "thread": self.repeated("tid"), "name": names}
        readers = {
            "host": self._host, "device": self._device, "memory": self._memory, "flows": self._flows,
        }  # fmt: skip
        pending = {name: read for name, read in readers.items() if self.rows[name].any()}
        for name in pending:
            self._prepare(name, names)
        described = described_in(self)
        groups: dict[str, Columns] = {}
        for name, read in pending.items():
            rows = np.flatnonzero(self.rows[name] & ~tokens.odd)
            if rows.size:
                groups[name] = read(rows, common)
        if described is not None and (rows := np.flatnonzero(described & ~tokens.odd)).size:
            groups["collectives"] = {"offset": self._offsets(rows), **columns_of(self, rows)}
        decode = np.flatnonzero(self._left | tokens.odd)
        return Part(
            groups,
            parsed=tokens.events - decode.size,
            decode=[self.event_text(event) for event in decode.tolist()],
            has_escapes=tokens.has_escapes,
        )

    def sorts(self, words: tuple[int, int, int, int, int]) -> NDArray[np.uint8]:
        """Gives each event one of five numbers: unknown, host, annotation of the host, device, profiler's own."""
        other, host, annotation, device, own = words
        kind = _HOST_KIND[self._category_codes]
        found = np.where(_IS_HOST[self._category_codes], host, other).astype(np.uint8)
        found[kind == _ANNOTATION] = annotation
        found[_DEVICE_KIND[self._category_codes] != OTHER_KIND] = device
        found[_IS_IGNORED[self._category_codes]] = own
        return found

    def _prepare(self, group: str, names: NDArray[np.uint32]) -> None:
        """Reads a group's arguments for the whole chunk."""
        wanted = {"host": HOST_INTS, "device": DEVICE_INTS, "memory": MEMORY_INTS, "flows": {"": "id"}}[group]
        for key in wanted.values():
            self.ints(key)
        if group == "host":
            for key in HOST_TEXTS.values():
                self.texts(key, raw=True)
            for key in CONCRETE.values():
                if self._field(key):
                    self.texts(key, raw=True, events=categories.matching(names, schema.SAYING))
            for key in HOST_NAMES.values():
                self.texts(key, raw=False)
        if group == "device":
            for key in DEVICE_REALS.values():
                self._read(key, reals)
            for key in ("grid", "block"):
                self._dim3(key)
            for key in XLA_TEXTS.values():
                if self._field(key):
                    self.texts(key, raw=False)

    def _host(self, rows: Ints, common: dict[str, Any]) -> Columns:
        result = self._placed(rows, common)
        result["kind"] = _HOST_KIND[self._category_codes[rows]]
        for column, key in {**HOST_INTS, **HOST_TEXTS, **CONCRETE, **HOST_NAMES}.items():
            if key in self._present:  # a column that this chunk lacks need not be kept
                result[column] = self._values[key][rows]
        return result

    def _device(self, rows: Ints, common: dict[str, Any]) -> Columns:
        result = self._placed(rows, common)
        result["kind"] = self._kind[rows]
        for column, key in DEVICE_INTS.items():
            if column not in OPTIONAL or key in self._present:
                result[column] = self.ints(key)[rows]
        for column, key in XLA_TEXTS.items():
            if key in self._present:
                result[column] = self._values[key][rows]
        for column, key in DEVICE_REALS.items():
            result[column] = self._read(key, reals)[rows]
        for key in ("grid", "block"):
            result[key] = self._dim3(key)[rows]
        return result

    def _placed(self, rows: Ints, common: dict[str, Any]) -> Columns:
        return {
            "name": common["name"][rows], "start": self.start[rows], "duration": self.duration[rows],
            "process": common["process"][rows], "thread": common["thread"][rows],
            "offset": self._offsets(rows),
        }  # fmt: skip

    def _memory(self, rows: Ints, common: dict[str, Any]) -> Columns:
        result: Columns = {"time": self.start[rows]}
        for column in ("process", "thread"):
            result[column] = common[column][rows]
        for column, key in MEMORY_INTS.items():
            result[column] = self.ints(key)[rows]
        return result

    def _flows(self, rows: Ints, common: dict[str, Any]) -> Columns:
        return {
            "id": self.ints("id")[rows], "process": common["process"][rows], "thread": common["thread"][rows],
            "time": self.start[rows], "begins": self.tokens.phase[rows] == ord("s"),
        }  # fmt: skip

    def _offsets(self, rows: Ints) -> Ints:
        """Where events begin in the file."""
        return self.tokens.begins[rows] + self._chunk.position

    def _number(self, key: str, vocabulary: Vocabulary) -> Ints:
        """The number of the word that each event has as its value of a key; -1 for none or an unknown one."""
        number = np.full(self.tokens.events, -1, np.int64)
        if found := self.tokens.field(key):
            begin, length = self.tokens.text(found)
            number[self.tokens.event_of(found)] = vocabulary.lookup(self.tokens.words, begin, length)
        return number

    def _names(self) -> NDArray[np.uint32]:
        """One category code per host or device event."""
        tokens, wanted = self.tokens, self.rows["host"] | self.rows["device"]
        codes = np.full(tokens.events, categories.NULL_CODE, np.uint32)
        if found := tokens.field("name"):
            begin, length = tokens.text(found)
            event = tokens.event_of(found)
            chosen = wanted[event]
            series = strings(tokens.buffer, tokens.words, begin[chosen], length[chosen])
            codes[event[chosen]] = categories.encode(series)
        tokens.odd |= wanted & (codes == categories.NULL_CODE)
        return codes

    def _times(self, key: str) -> tuple[Ints, Bools]:
        """Returns (values, whether there is one) per event; the value is 0 if there is none."""
        values, present = np.zeros(self.tokens.events, np.int64), np.zeros(self.tokens.events, np.bool_)
        if found := self.tokens.field(key):
            read, plain = nanoseconds(self.tokens.buffer, self.tokens.words, found.at)
            plain &= np.abs(read) < TIME_LIMIT
            at = slice(None) if found.event is None else found.event
            values[at], present[at] = read, plain
        return values, present

    def ints(self, key: str) -> Ints:
        """One whole number per event, `NULL` if the key is absent."""
        values: Ints = self._read(key, integers)
        return values

    def repeated(self, key: str) -> Ints:
        """As `ints`, for a number that rarely changes from event to event: reads only the changes."""
        tokens = self.tokens
        found = tokens.field(key)
        if found is None or found.event is not None:
            return self.ints(key)
        text = tokens.words[found.at]  # differences beyond eight digits don't show: such numbers are read one by one
        changes = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), text[1:] != text[:-1])))
        if 2 * changes.size > tokens.events:
            return self.ints(key)
        read, plain = integers(tokens.buffer, tokens.words, found.at[changes])
        if not plain.all() or np.abs(read).max() >= SHORT:
            return self.ints(key)
        return np.repeat(read, np.diff(changes, append=tokens.events))

    def _read(self, key: str, reader: Reader) -> NDArray[Any]:
        """One number per event, null if the key is absent; a value that isn't plain makes its event odd."""
        if key in self._values:
            return self._values[key]
        tokens = self.tokens
        found = self._field(key)
        dtype, null = (np.float64, np.nan) if reader is reals else (np.int64, NULL)
        if found is None:
            values = np.full(tokens.events, null, dtype)
        else:
            self._present.add(key)
            read, plain = reader(tokens.buffer, tokens.words, found.at)
            if reader is integers and not plain.all():
                self._read_quoted(key, found, read, plain)
            if not plain.all():
                tokens.odd[tokens.event_of(found)[~plain]] = True
            if found.event is None:
                values = read
            else:
                values = np.full(tokens.events, null, dtype)
                values[found.event] = read
        self._values[key] = values
        return values

    def _read_quoted(self, key: str, found: Field, read: Ints, plain: Bools) -> None:
        """Fills in whole numbers in quotes: XLA writes all so, PyTorch in 2021 threads and streams."""
        tokens = self.tokens
        quoted = np.flatnonzero(tokens.buffer[found.at] == _QUOTE)
        at = found.at[quoted]
        if key == "tid":
            at = at + np.where(tokens.words[at] == _STREAM, len("stream "), 0)
        read[quoted], plain[quoted] = integers(tokens.buffer, tokens.words, at + 1, _QUOTE)

    def _field(self, key: str) -> Field | None:
        """The occurrences of a key, or of another spelling if it has none."""
        found = self.tokens.field(key)
        for other in ALIASES.get(key, ()):
            found = found or self.tokens.field(other)
        return found

    def _dim3(self, key: str) -> NDArray[np.int32]:
        """Three numbers per event, -1 where the key is absent."""
        if key in self._values:
            return self._values[key]
        tokens = self.tokens
        values = np.full((tokens.events, 3), -1, np.int32)
        if found := tokens.field(key):
            event, at = tokens.event_of(found), found.at + 1
            plain = tokens.buffer[found.at] == ord("[")
            for axis in range(3):
                at = at + (tokens.buffer[at] == ord(" "))
                read, whole = integers(tokens.buffer, tokens.words, at)
                plain &= whole & (read >= 0) & (read < 2**31)
                values[event, axis] = np.where(plain, read, -1)
                digits = np.floor(np.log10(np.maximum(np.where(plain, read, 0), 1))).astype(np.int64) + 1
                at = at + digits
                plain &= tokens.buffer[at] == (ord(",") if axis < 2 else ord("]"))
                at = at + 1
            tokens.odd[event[~plain]] = True
        self._values[key] = values
        return values

    def texts(self, key: str, raw: bool, events: Bools | None = None) -> NDArray[np.uint32]:
        """One category code per event: of a string value, or of a value's JSON text where `raw`; null if empty.

        Where only some `events` are wanted, the others' are null.
        """
        if key in self._values:
            return self._values[key]
        codes = np.full(self.tokens.events, categories.NULL_CODE, np.uint32)
        if found := self._field(key):
            found = found if events is None else self.tokens.only(found, events)
            begin, length = self.tokens.raw_values(found) if raw else self.tokens.text(found)
            if raw:  # null is no text, and an object's own keys would end it too early
                first = self.tokens.buffer[found.at]
                self.tokens.odd[self.tokens.event_of(found)[(first != _BRACKET) & (first != _QUOTE)]] = True
            filled = length > 0
            series = strings(self.tokens.buffer, self.tokens.words, begin[filled], length[filled])
            codes[self.tokens.event_of(found)[filled]] = categories.encode(series)
            self._present.add(key)
        self._values[key] = codes
        return codes

    def event_text(self, event: int) -> tuple[int, bytes]:
        """Returns (position in the file, text) of an event."""
        tokens = self.tokens
        begin = int(tokens.ends[event - 1]) + 1 if event else 0
        text = tokens.buffer[begin : int(tokens.ends[event]) + 1].tobytes()
        brace = text.find(b"{")
        return self._chunk.position + begin + brace, text[brace:]
