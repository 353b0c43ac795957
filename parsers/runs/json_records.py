"""Dataclasses from decoded JSON: known keys are taken, unknown ones left, wrong values counted and left at the default.

Fields may be bool, str, int, float, Any, dataclasses, tuples and dicts of these, and each of them or None.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from tracetui.parsers.tally import Tally

_WRONG = object()


@lru_cache(maxsize=64)
def _hints(cls: type) -> dict[str, Any]:
    from tracetui.parsers.trace import Note

    return get_type_hints(cls, localns={"Note": Note})


def record(cls: Any, value: dict[Any, Any], tally: Tally, where: str = "") -> Any:
    """A dataclass from the keys it knows; a value of another type leaves the default.

    Args:
        cls: the dataclass; every field has a default.
        value: a decoded JSON object.
        tally: counts what was left out.
        where: the path to it in the document, for the notes.
    """
    found = {}
    hints = _hints(cls)
    for known in fields(cls):
        if (given := value.get(known.name)) is None:
            continue
        place = f"{where}.{known.name}" if where else known.name
        converted = _converted(hints[known.name], given, place, tally)
        if converted is _WRONG:
            tally.skipped("value of run.json of another type than it should have", 1, f"{place}: {str(given)[:40]}")
        else:
            found[known.name] = converted
    return cls(**found)


def _converted(kind: Any, value: Any, where: str, tally: Tally) -> Any:
    """The value as the type that a field has, or `_WRONG`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:
        (kind,) = (argument for argument in arguments if argument is not NoneType)
        return _converted(kind, value, where, tally)
    if kind is Any:
        return value
    if is_dataclass(kind):
        return record(kind, value, tally, where) if isinstance(value, dict) else _WRONG
    if origin is tuple:
        return _list(arguments[0], value, where, tally)
    if origin is dict:
        return _mapping(arguments[1], value, where, tally)
    if kind is bool or kind is str:
        return value if isinstance(value, kind) else _WRONG
    return _number(kind, value)


def _list(kind: Any, value: Any, where: str, tally: Tally) -> Any:
    if not isinstance(value, (list, tuple)):
        return _WRONG
    items = [_converted(kind, item, f"{where}[{n}]", tally) for n, item in enumerate(value)]
    if kind in (int, float) and _WRONG in items:  # a shape without one of its sizes is another shape
        return _WRONG
    tally.skipped("entry of a list in run.json of another type than it should have", items.count(_WRONG), where)
    return tuple(item for item in items if item is not _WRONG)


def _mapping(kind: Any, value: Any, where: str, tally: Tally) -> Any:
    if not isinstance(value, dict):
        return _WRONG
    items = {str(key): _converted(kind, item, f"{where}.{key}", tally) for key, item in value.items()}
    wrong = sum(item is _WRONG for item in items.values())
    tally.skipped("value of run.json of another type than it should have", wrong, where)
    return {key: item for key, item in items.items() if item is not _WRONG}


def _number(kind: Any, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1 << 63:  # neither is NaN
        return _WRONG
    if kind is float:
        return float(value)
    return int(value) if value == int(value) else _WRONG
