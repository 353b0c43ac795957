"""Loads pickles of plain containers without trusting them: checks every opcode before anything is built.

The C unpickler is fast but trusts what it reads: a memo index makes it allocate, a deeply nested tuple as a key makes
it recurse until the stack overflows, a global makes it import. `load_plain` first walks the opcodes (a regular
expression skips runs of them at memory speed), refuses what a memory snapshot never contains, and only then unpickles.
"""

from __future__ import annotations

import gc
import io
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

MAX_NESTED_TUPLES = 1000
"""The most tuples of anything but two small numbers; hashing nested ones recurses in C."""
MAX_LARGE_NUMBERS = 1000
"""The most numbers beyond 64 bits; as keys of a dict many can share one hash, and each is compared with all."""
MAX_PROTOCOL = 5
_NAME_LENGTH = 80

_SHORT_TEXT = b"".join(
    (
        rb"\x8c(?:",
        b"|".join(
            b"(?=[%s-%s])(?:%s)"
            % (
                re.escape(bytes([high])),
                re.escape(bytes([high + 15])),
                b"|".join(re.escape(bytes([size])) + b".{%d}" % size for size in range(high, high + 16)),
            )
            for high in range(0, 256, 16)
        ),
        b")",
    )
)
"""SHORT_BINUNICODE of each length, found by the high half of the length first."""
_RUN = re.compile(
    b"(?:"
    + b"|".join(
        (
            rb"[\x94})\]uesaNdl01\x88\x89\x8f\x90]+",  # containers, None, True, False, and into the memo
            rb"[hq].",  # memo
            rb"K.(?:(?:K.|M..)\x86)?",  # a small number, or a tuple of two: the id of a memory pool
            rb"\((?:K.K.t|I\d{1,19}\nI\d{1,19}\nt)?",  # MARK, or that tuple as protocols 0 and 1 write it
            rb"\x8a(?:\x06.{6}|\x07.{7}|\x08.{8}|\x05.{5}|\x04.{4}|\x03...|\x02..|\x01.|\x00|\x09.{9})",
            rb"[jJ]....|r...\x00",  # a memo of 16 million places is affordable
            rb"M..",
            rb"G.{8}",
            _SHORT_TEXT,
        )
    )
    + b"){1,2000}",
    re.DOTALL,
)
_FIXED = {ord(c): size for c, size in zip("KhqMjJG", (2, 2, 2, 3, 5, 5, 9), strict=True)}
_SIZED = {
    0x8C: 1, 0x8A: 1, ord("U"): 1, ord("C"): 1,
    ord("X"): 4, ord("T"): 4, ord("B"): 4, 0x8B: 4,
    0x8D: 8, 0x8E: 8,
}  # fmt: skip
"""Bytes of the length that precedes the content of an opcode."""
_NUMBERS = frozenset(b"\x8a\x8b")
_LINES = frozenset(b"IFSVLg")
_TUPLES = frozenset(b"t\x85\x86\x87")
_CALLS = {
    ord("R"): "REDUCE", ord("b"): "BUILD", ord("o"): "OBJ", 0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 0x82: "EXT1",
    0x83: "EXT2", 0x84: "EXT4",
}  # fmt: skip
_STRANGE = {
    0x91: "a frozenset", 0x96: "a bytearray", 0x97: "an out-of-band buffer", 0x98: "an out-of-band buffer",
    ord("2"): "a duplicated value",
}  # fmt: skip
_ASKS = frozenset(b"c\x93iPQ")
"""GLOBAL, STACK_GLOBAL, INST, PERSID, BINPERSID: the unpickler itself stops at them and can say what they need."""


class Refused(Exception):  # noqa: N818  the pickle is not ours to load, which is no error of the program
    """The pickle contains something other than plain containers; the message says what."""


class Loaded(Struct, frozen=True):
    """The content of a pickle."""

    value: Any
    """Null if the pickle ends early."""
    damage: str = ""
    """Why it could not be loaded whole: ``truncated after 1,234 bytes``."""
    pieces: tuple[object, ...] = ()
    """For a damaged pickle: every object that was started, in order; containers may be incomplete."""


def load_plain(data: bytes, tick: Callable[[int], None] | None = None) -> Loaded:
    """Loads a pickle of dicts, lists, tuples, sets, strings, bytes and numbers.

    Args:
        data: the whole pickle, protocol 0 to 5.
        tick: called from time to time with the number of bytes checked so far; may raise to stop.

    Raises:
        Refused: it contains something else, or would harm the program that loads it; nothing in it was executed.
    """
    damage, end, frame = _scan(data, tick)
    if damage:
        # the opcode that ends too late must not ask for the memory that its length speaks of
        data = data[:end]
    if frame is not None:
        # the unpickler would read nothing from a frame that the file cuts short
        rest = len(data) - frame - 9
        data = b"".join((data[: frame + 1], rest.to_bytes(8, "little"), data[frame + 9 :]))
    unpickler = _Plain(io.BufferedReader(io.BytesIO(data), 1 << 20))
    try:
        return Loaded(unpickler.load())
    except Refused:
        raise
    except MemoryError:
        raise Refused("a pickle that asks for more memory than there is") from None
    except Exception as error:  # the unpickler raises nearly anything on bytes that make no sense
        pieces = tuple(piece for _, piece in sorted(unpickler.memo.copy().items()))
        return Loaded(None, damage or f"damaged ({type(error).__name__})", pieces)


@contextmanager
def no_collecting() -> Iterator[None]:
    """Pauses the cycle collector: millions of new containers without garbage would keep it busy for seconds."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class _Plain(pickle.Unpickler):
    """An unpickler that builds nothing that needs a class."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="utf-8", errors="replace")

    def find_class(self, module: str, name: str) -> Any:
        """Refuses every class."""
        raise Refused(f"a pickle that needs {f'{module}.{name}'[:_NAME_LENGTH]}")

    def persistent_load(self, pid: Any) -> Any:
        """Refuses references to objects outside the file."""
        raise Refused("a pickle that refers to objects outside of it")


def _scan(data: bytes, tick: Callable[[int], None] | None) -> tuple[str, int, int | None]:
    """Walks the opcodes up to STOP, or up to one that the unpickler is sure to stop at.

    Returns:
        What is wrong ("" for nothing), where the intact opcodes end, and where the frame starts that is cut short.
    """
    size, position, tuples, large, rounds = len(data), 0, 0, 0, 0
    frame: int | None = None
    frame_end = 0
    run = _RUN.match
    while position < size:
        if match := run(data, position):
            position = match.end()
            rounds += 1
            if tick is not None and not rounds & 127:
                tick(position)
            continue
        op = data[position]
        if op == 0x2E:
            return "", position, frame if frame_end > size else None
        if op in _FIXED:
            end = position + _FIXED[op]
        elif op in _SIZED:
            start = position + 1 + _SIZED[op]
            end = start + int.from_bytes(data[position + 1 : start], "little")
            large += op in _NUMBERS and end - start > 9
        elif op == 0x95:
            end = position + 9
            if end <= size:  # of a frame whose own length is cut off, nothing is there
                frame, frame_end = position, end + int.from_bytes(data[position + 1 : end], "little")
        elif op in _TUPLES:
            tuples += 1
            if tuples > MAX_NESTED_TUPLES:
                raise Refused("a pickle of nested tuples")
            end = position + 1
        elif op == ord("r"):
            end = position + 5
            _check_memo(int.from_bytes(data[position + 1 : end], "little"), position)
        elif op in _LINES or op == ord("p"):
            end = data.find(b"\n", position) + 1 or size + 1
            if op == ord("p") and end <= size:
                _check_memo(_number(data[position + 1 : end - 1]), position)
            if op in b"IL" and end - position > 4096:
                raise Refused("a pickle of a number with thousands of digits")
            large += op in b"IL" and end - position > 24
        elif op == 0x80:
            end = position + 2
            if end <= size and data[position + 1] > MAX_PROTOCOL:
                raise Refused(f"a pickle of protocol {data[position + 1]}, newer than any known one")
        elif op in _ASKS:
            return "", position, frame if frame_end > size else None
        elif op in _CALLS:
            raise Refused(f"a pickle that calls something ({_CALLS[op]})")
        elif op in _STRANGE:
            raise Refused(f"a pickle with {_STRANGE[op]}")
        else:
            return f"damaged at byte {position:,}", position, frame if frame_end > position else None
        if large > MAX_LARGE_NUMBERS:
            raise Refused("a pickle of numbers beyond 64 bits")
        if end > size:
            break
        position = end
    return f"truncated after {size:,} bytes", position, frame if frame_end > position else None


def _check_memo(index: int, position: int) -> None:
    """Refuses large memo indexes: each object takes at least a few bytes, so they only serve to exhaust memory."""
    if index > position // 3 + 1:
        raise Refused("a pickle with a memo index beyond its size")


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) < 20 else 1 << 62


def recovered(pieces: Sequence[object]) -> dict[str, Any] | None:
    """The snapshot as far as it was read, marked ``cut`` if the end of its history is lost; None if it has nothing.

    Entries are dicts in the memo, in file order. The list of a device's history precedes its entries, and an entry's
    own list of frames follows it. So an empty list right before an entry starts the next device's history, unless it is
    the previous entry's list of frames.
    """
    segments: list[object] = []
    histories: list[list[object]] = []
    annotations: list[object] = []
    before: Any = None
    last: dict[Any, Any] = {}
    seen_entry = False
    for piece in pieces:
        if isinstance(piece, dict):
            if "total_size" in piece and "blocks" in piece:
                segments.append(piece)
            elif "action" in piece:
                # a list already filled holds the entry, one that was cut off is still empty
                begins = isinstance(before, list) and before is not last.get("frames")
                if not histories or (begins and (not before or before[0] is piece)):
                    histories.append([])
                histories[-1].append(piece)
                last, seen_entry = piece, True
            elif "stage" in piece and "name" in piece:
                annotations.append(piece)
        before = piece
    if not segments and not seen_entry:
        return None
    found: dict[str, Any] = {"device_traces": histories, "external_annotations": annotations, "cut": True}
    if segments:
        found["segments"] = segments
    return found
