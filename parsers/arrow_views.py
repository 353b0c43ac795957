"""Makes strings inside a byte buffer a Polars series without a copy, through Arrow's C data interface.

Arrow's utf8_view layout has 16 bytes per string. A text of up to 12 bytes is in the view itself; a longer one has its
length, first four bytes, buffer number and offset there (https://arrow.apache.org/docs/format/Columnar.html).
This uses ctypes because pyarrow would cost every reader 50 MB.
"""

from __future__ import annotations

import ctypes
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def strings(
    text: NDArray[np.uint8], words: NDArray[np.uint64], begin: NDArray[np.int64], length: NDArray[np.int64]
) -> pl.Series:
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
