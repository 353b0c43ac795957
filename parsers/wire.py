"""Reads the wire format of Protocol Buffers: a message is a row of numbered fields, of which no schema is needed.

Nothing is built that the bytes do not pay for, and nothing is read beyond a message's end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

Span = tuple[int, int]

_LONGEST_VARINT = 10
_DOUBLE = struct.Struct("<d")
_SIGN, _MODULUS = 1 << 63, 1 << 64


class Damaged(ValueError):  # noqa: N818  a kind of data
    """The bytes are no message, or end within one."""


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int | Span]]:
    """The fields of a message in order: a number, and its value; of texts, messages and doubles where they lie.

    Raises:
        Damaged: a field does not end before the message does.
    """
    try:
        while at < end:
            key = data[at]
            at += 1
            if key > 127:
                key, at = _varint(data, at - 1, end)
            kind = key & 7
            if kind == 2:
                size = data[at]
                at += 1
                if size > 127:
                    size, at = _varint(data, at - 1, end)
                if at + size > end:
                    raise Damaged
                yield key >> 3, (at, at + size)
                at += size
            elif kind == 0:
                value = data[at]
                at += 1
                if value > 127:
                    value, at = _varint(data, at - 1, end)
                yield key >> 3, value
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
                if at + size > end:
                    raise Damaged
                yield key >> 3, (at, at + size)
                at += size
            else:
                raise Damaged
    except IndexError:
        raise Damaged from None


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= end:
            raise Damaged
        byte = data[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value % _MODULUS, at + place + 1
    raise Damaged


def signed(value: int) -> int:
    """A varint as a signed number of 64 bits."""
    return value - _MODULUS if value >= _SIGN else value


def double(data: bytes, span: Span) -> float | None:
    """The number in eight bytes; None in as many as there are."""
    return float(_DOUBLE.unpack_from(data, span[0])[0]) if span[1] - span[0] == _DOUBLE.size else None


def text(data: bytes, span: Span) -> str:
    """A text; what is not UTF-8 is replaced."""
    return data[span[0] : span[1]].decode("utf-8", "replace")
