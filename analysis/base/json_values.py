"""Values as the report's JSON has them: ns become µs, what is not a number null; and what fills its structs."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from msgspec import Meta, Struct

Json = dict[str, Any]
"""A JSON object of the report."""
Part = TypeVar("Part", bound=Struct)


def us(ns: float | None) -> float | None:
    """µs of a time in ns; unknown stays unknown."""
    return None if ns is None else known(ns / 1000)


def known(value: float | None) -> float | None:
    """The value, or null where it is not a number: JSON has no NaN, and a reader expects null."""
    return value if value is not None and math.isfinite(value) else None


def key_of(column: str) -> str:
    """The report's key for a frame's column: ns become µs."""
    if column == "ns":
        return "us"
    return column.removesuffix("_ns") + "_us" if column.endswith("_ns") else column


def share_of(whole: str) -> Meta:
    """Says in the JSON schema what a percentage is of."""
    return Meta(description=f"% of {whole}")


def filled(kind: type[Part], *sources: object, **given: object) -> Part:
    """A struct of the report whose fields are what is given, else what the first source with such an attribute has.

    A field ``x_us`` is the attribute ``x_ns`` in µs, a list may be a tuple there. Where one source is None, what no
    other one has is unknown.

    Raises:
        AttributeError: no source has a field.
    """
    there = [source for source in sources if source is not None]
    for name in kind.__struct_fields__:
        if name not in given:
            own = name if any(hasattr(source, name) for source in there) else _in_ns(name)
            source = next((source for source in there if hasattr(source, own)), None)
            if source is None and len(there) == len(sources):
                raise AttributeError(f"{kind.__name__}.{name}")
            given[name] = _plain(getattr(source, own, None), in_ns=own != name)
    return kind(**given)


def _in_ns(name: str) -> str:
    return "ns" if name == "us" else name.removesuffix("_us") + "_ns"


def _plain(value: Any, *, in_ns: bool) -> object:
    if in_ns:
        return us(value)
    if isinstance(value, tuple):
        return list(value)
    return known(value) if isinstance(value, float) else value
