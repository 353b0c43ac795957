"""Reads the values of a chunk over whole arrays: decimal text as numbers, strings as a Polars series without a copy.

`words` is a view of the buffer as one little-endian uint64 per byte position: ``words[p]`` holds bytes p to p + 7, so
that a number is read eight digits at a time (SIMD within a register). Readers of numbers take the positions where
values start and return (values, plain): `plain` is False where the text is not a plain decimal that fits, and the
caller must read that value some other way. Bytes after the last value must be readable: buffers have padding.

Strings go through Arrow's C data interface: its utf8_view layout has 16 bytes per string. A text of up to 12 bytes is
in the view itself; a longer one has its length, first four bytes, buffer number and offset there
(https://arrow.apache.org/docs/format/Columnar.html). This uses ctypes because pyarrow would cost every reader 50 MB.
"""

from __future__ import annotations

import ctypes
from itertools import count
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetui.parsers.arrays import Bools, Bytes, Floats, Ints, Words

_U = np.uint64
_ZEROS, _SIXES, _HIGH_NIBBLES = _U(0x3030303030303030), _U(0x0606060606060606), _U(0xF0F0F0F0F0F0F0F0)
_PAIR_MASK, _PAIR_MULTIPLY, _QUAD_MULTIPLY = _U(0x000000FF000000FF), _U(0x000F424000000064), _U(0x0000271000000001)
_POWERS = np.array([10**i for i in range(20)], dtype=np.uint64)
_U3, _U8, _U10, _U16, _U32, _U64 = _U(3), _U(8), _U(10), _U(16), _U(32), _U(64)
MAX_DIGITS = 18
"""The most digits of a whole number: 10**18 - 1 fits in int64."""
_MICROSECOND_DIGITS = 16
"""The most digits of microseconds, as a clock shows them today: a thousand times as many ns fit in uint64."""
_LARGEST = _U(2**63 - 1)

_MINUS, _DOT = 45, 46
_ENDS = np.zeros(256, np.bool_)
_ENDS[list(b" \t\r\n,]}")] = True
"""What may follow a number; an exponent does not, and neither does what damage puts there."""
_NS_PER_US = _U(1000)


def _eight(word: Words) -> tuple[Words, Words]:
    """Returns (how many leading bytes are digits, their value) for each word; overwrites `word`."""
    word ^= _ZEROS
    # a byte is a digit iff neither it nor it + 6 has a high nibble; the lowest that isn't marks the end
    other = word + _SIXES
    other |= word
    other &= _HIGH_NIBBLES
    other &= ~other + _U(1)
    other -= _U(1)
    bits = np.bitwise_count(other)
    bits &= 0x78
    count = bits.astype(np.uint64)
    word <<= _U64 - count  # NumPy defines a shift by 64 as 0
    tens = word >> _U8
    word *= _U10
    word += tens
    tens = word >> _U16
    tens &= _PAIR_MASK
    tens *= _QUAD_MULTIPLY
    word &= _PAIR_MASK
    word *= _PAIR_MULTIPLY
    word += tens
    word >>= _U32
    count >>= _U3
    return count, word


def _whole(words: Words, at: Ints) -> tuple[Words, Words]:
    """Returns (digits, value) of the digit runs at these positions; the value is wrong beyond `MAX_DIGITS`."""
    count, value = _eight(words[at])
    longer = np.flatnonzero(count == _U8)
    position = _U8
    while longer.size and position <= _U16:
        more, part = _eight(words[at[longer] + int(position)])
        value[longer] = value[longer] * _POWERS[more] + part
        count[longer] += more
        longer = longer[more == _U8]
        position += _U8
    return count, value


def _signed(value: Words, negative: Bools | None) -> Ints:
    result = value.view(np.int64)
    return result if negative is None else np.where(negative, -result, result)


def _after_minus(buffer: Bytes, at: Ints) -> tuple[Ints, Bools | None]:
    """Returns the positions after any leading minus, and which had one (None if none had)."""
    negative = buffer[at] == _MINUS
    if negative.any():
        return at + negative, negative
    return at, None


def integers(buffer: Bytes, words: Words, at: Ints, closing: int | None = None) -> tuple[Ints, Bools]:
    """Whole numbers as int64.

    What is followed by a fraction, an exponent, or anything but `closing` or the end of a value is not plain.
    """
    at, negative = _after_minus(buffer, at)
    count, value = _whole(words, at)
    following = buffer[at + count.view(np.int64)]
    plain = (count > 0) & (count <= MAX_DIGITS)
    plain &= _ENDS[following] if closing is None else following == closing
    return _signed(value, negative), plain


def nanoseconds(buffer: Bytes, words: Words, at: Ints) -> tuple[Ints, Bools]:
    """Decimal microseconds as int64 nanoseconds, exact; digits below 1 ns are dropped towards zero.

    Eight or more decimals are a float printed in full (XLA's ``48.637999999999998``): it is first rounded to
    picoseconds, the unit it was made from.
    """
    at, negative = _after_minus(buffer, at)
    count, value = _whole(words, at)
    plain = (count > 0) & (count <= _MICROSECOND_DIGITS)
    end = at + count.view(np.int64)
    value *= _NS_PER_US
    dot = buffer[end] == _DOT
    if dot.any():
        digits, fraction = _eight(words[end + 1])
        if not (digits == _U3).all():
            long = np.flatnonzero(dot & (digits == _U8))
            fraction[long] = (fraction[long] + _U(50)) // _U(100) * _U(100)
            short = digits <= _U3
            up, down = np.where(short, _U3 - digits, _U(0)), np.where(short, _U(0), digits - _U3)
            fraction = np.where(short, fraction * _POWERS[up], fraction // _POWERS[down])
            if long.size:
                digits[long], whole = _long_fraction(words, end[long] + 1)
                plain[long] &= whole
        if dot.all():
            value += fraction
            end = end + 1 + digits.view(np.int64)
        else:
            value += np.where(dot, fraction, _U(0))
            end = end + np.where(dot, 1 + digits.view(np.int64), 0)
    plain &= value <= _LARGEST
    plain &= _ENDS[buffer[end]]
    return _signed(value, negative), plain


def _long_fraction(words: Words, at: Ints) -> tuple[Words, Bools]:
    """Returns (digits of the runs of at least eight that start here, whether they end before the 24th)."""
    second, _ = _eight(words[at + 8])
    third, _ = _eight(words[at + 16])
    third[second < _U8] = 0
    return _U8 + second + third, third < _U8


def reals(buffer: Bytes, words: Words, at: Ints) -> tuple[Floats, Bools]:
    """Decimal numbers as float64, to within one unit in the last place; exponents are not plain."""
    at, negative = _after_minus(buffer, at)
    count, value = _whole(words, at)
    plain = (count > 0) & (count <= MAX_DIGITS)
    end = at + count.view(np.int64)
    result = value.astype(np.float64)
    dot = buffer[end] == _DOT
    if dot.any():
        first, high = _eight(words[end + 1])
        second, low = _eight(words[end + 9])
        second = np.where(first == _U8, second, _U(0))
        digits = first + second
        scaled = np.where(second > 0, high * _POWERS[second] + low, high)
        # one division of exact integers rounds once, so up to 15 digits come out as float() would give them
        power = np.where(dot, _POWERS[digits], _U(1)).astype(np.float64)
        result = (result * power + np.where(dot, scaled, _U(0))) / power
        end = end + np.where(dot, 1 + digits.view(np.int64), 0)
        plain &= ~dot | (digits < _U16)
    plain &= _ENDS[buffer[end]]
    return (result if negative is None else np.where(negative, -result, result)), plain


INLINE = 12


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

_numbers = count(1)
_alive: dict[int, tuple[Any, ...]] = {}
"""The buffers that each array handed to Polars points into, kept until Polars releases the array."""


@_ReleaseSchema  # type: ignore[untyped-decorator]
def _release_schema(pointer: Any) -> None:
    pointer.contents.release = _ReleaseSchema()


@_ReleaseArray  # type: ignore[untyped-decorator]
def _release_array(pointer: Any) -> None:
    _alive.pop(pointer.contents.private_data, None)
    pointer.contents.release = _ReleaseArray()


class _Exporter:
    """One utf8_view array for a consumer of the Arrow PyCapsule interface."""

    def __init__(self, views: NDArray[np.uint64], text: NDArray[np.uint8]) -> None:
        sizes = np.array([text.size], np.int64)
        pointers = (ctypes.c_void_p * 4)(None, views.ctypes.data, text.ctypes.data, sizes.ctypes.data)
        number = next(_numbers)
        _alive[number] = (views, text, sizes, pointers)
        self._schema = _Schema(b"vu", b"", None, 0, 0, None, None, _release_schema, None)
        self._array = _Array(len(views), 0, 0, 4, 0, pointers, None, None, _release_array, number)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        schema = _capsule(ctypes.addressof(self._schema), b"arrow_schema", None)
        array = _capsule(ctypes.addressof(self._array), b"arrow_array", None)
        return schema, array


def strings(text: NDArray[np.uint8], words: NDArray[np.uint64], begin: Ints, length: Ints) -> pl.Series:
    """Returns the strings that start at `begin` with these lengths, as a String series that points into `text`.

    `text` must be valid UTF-8 there; `words` is its view as one uint64 per byte position, readable 12 bytes past the
    last string's end.
    """
    views = np.empty((begin.size, 2), np.uint64)
    size = length.astype(np.uint64)
    # the first four bytes go next to the length; bytes past the string's end are shifted out
    lead_bits = (np.minimum(size, np.uint64(4))) << np.uint64(3)
    lead = words[begin] & ((np.uint64(1) << lead_bits) - np.uint64(1))
    views[:, 0] = size | (lead << np.uint64(32))
    rest_bits = np.clip(length - 4, 0, 8).astype(np.uint64) << np.uint64(3)
    rest = words[begin + 4] << (np.uint64(64) - rest_bits)
    rest >>= np.uint64(64) - rest_bits
    views[:, 1] = np.where(length <= INLINE, rest, begin.astype(np.uint64) << np.uint64(32))
    return pl.Series(_Exporter(views, text))
