"""Reads structs from JSON with msgspec; reads a document with errors piece by piece.

Unknown keys are ignored. A value of another type is counted and leaves the default, and so does null. A whole number
may be written `3.0`; numbers that fit no 64-bit integer, infinities and NaN are values of another type.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import fields

if TYPE_CHECKING:
    from tracetui.parsers.tally import Tally

Whole = Annotated[int, Meta(ge=-(2**63 - 1), le=2**63 - 1)]
"""A whole number that a column can hold."""
Number = Annotated[float, Meta(gt=-(2.0**63), lt=2.0**63)]
"""A number that can be rounded to one."""

WRONG = object()
"""Marks a value that has another type than it should have."""
_NUMBERS = (Whole, Number)
_NULL = Raw(b"null")
_OBJECT = re.compile(rb"\s*\{")
_UNREADABLE = (ValueError, RecursionError)
"""What msgspec raises for a document that it can't read; its own errors are ValueErrors."""


def members(text: str) -> dict[str, Raw] | None:
    """The values of a document that is an object, not yet read; None for another document.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deep.
    """
    try:
        return _unread(text.encode())
    except _UNREADABLE:  # Python's reader takes NaN (here a text), halves of surrogates, and says what is wrong
        value = json.loads(text, parse_constant=str, parse_float=_finite)
        return _unread(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _unread(document: bytes) -> dict[str, Raw] | None:
    kind = dict[str, Raw] if _OBJECT.match(document) else Raw
    found = _decoder(kind).decode(document)
    return found if isinstance(found, dict) else None


def _finite(text: str) -> float | str:
    return number if math.isfinite(number := float(text)) else text


@cache
def _decoder(kind: Any) -> Decoder[Any]:
    return Decoder(kind)


@cache
def _fields(cls: type[Struct]) -> dict[str, tuple[str, Any]]:
    """Name and type of each field, by its key."""
    return {known.encode_name: (known.name, known.type) for known in fields(cls)}


def record(cls: Any, values: dict[str, Raw], tally: Tally, where: str = "") -> Any:
    """A Struct from the keys it knows; a value of another type leaves the default.

    Args:
        cls: the Struct; every field has a default.
        values: the members of a JSON object.
        tally: counts what was left out.
        where: the path to it in the document, for the notes.
    """
    found = {
        name: value(kind, raw, tally, f"{where}.{key}" if where else key)
        for key, (name, kind) in _fields(cls).items()
        if (raw := values.get(key, _NULL)) != _NULL
    }
    return cls(**{name: known for name, known in found.items() if known is not WRONG})


def value(kind: Any, raw: Raw, tally: Tally, where: str) -> Any:
    """A value as the type that its field has, or `WRONG`, which is counted where it is not null."""
    found = _converted(kind, raw, tally, where)
    if found is WRONG and raw != _NULL:
        example = bytes(memoryview(raw)[:40]).decode("utf-8", "replace")
        tally.skipped("value of run.json of another type than it should have", 1, f"{where}: {example}")
    return found


def _converted(kind: Any, raw: Raw, tally: Tally, where: str) -> Any:
    """The value as the type that a field has, or `WRONG`; read in one go where nothing in it is wrong."""
    try:
        return _decoder(kind).decode(raw)
    except _UNREADABLE:
        pass
    if get_origin(kind) in (UnionType, Union):
        kind = get_args(kind)[0]
    try:
        if get_origin(kind) is tuple:
            return _list(get_args(kind)[0], _decoder(list[Raw]).decode(raw), tally, where)
        if get_origin(kind) is dict:
            return _mapping(get_args(kind)[1], _decoder(dict[str, Raw]).decode(raw), tally, where)
        if isinstance(kind, type) and issubclass(kind, Struct):
            return record(kind, _decoder(dict[str, Raw]).decode(raw), tally, where)
        if kind == Whole and (number := _decoder(Number).decode(raw)).is_integer():
            return int(number)
    except _UNREADABLE:
        pass
    return WRONG


def _list(kind: Any, raws: list[Raw], tally: Tally, where: str) -> Any:
    items = [_converted(kind, raw, tally, f"{where}[{n}]") for n, raw in enumerate(raws)]
    wrong = sum(item is WRONG for item in items)
    if wrong and kind in _NUMBERS:  # a shape without one of its sizes is another shape
        return WRONG
    tally.skipped("entry of a list in run.json of another type than it should have", wrong, where)
    return tuple(item for item in items if item is not WRONG)


def _mapping(kind: Any, raws: dict[str, Raw], tally: Tally, where: str) -> Any:
    items = {key: _converted(kind, raw, tally, f"{where}.{key}") for key, raw in raws.items()}
    wrong = sum(item is WRONG for item in items.values())
    tally.skipped("value of run.json of another type than it should have", wrong, where)
    return {key: item for key, item in items.items() if item is not WRONG}
