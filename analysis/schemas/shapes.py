"""A short notation for the shapes of JSON, and the JSON Schema that it stands for.

A shape is a word (``text``, ``whole``, ``number``, ``flag``, ``any``; with ``?`` it may be null), a list of one shape,
a dict (an object; a key that ends in ``?`` may be missing), `Maybe`, `Map`, `Rows` or `Either`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracetui.analysis.report.shorten import DETAILS
from tracetui.analysis.tables.registry import TABLES
from tracetui.analysis.tables.table import UNITS

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.tables.table import Field, Table

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Shape = Any
"""A word, a list of one shape, a dict of shapes, or one of the classes below."""
WORDS = {"text": "string", "whole": "integer", "number": "number", "flag": "boolean"}
OF_JSON: dict[str, Json] = {
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "whole": {"type": "integer"},
    "real": {"type": "number"},
    "number": {"type": "number"},
    "words": {"type": "array", "items": {"type": "string"}},
    "whole list": {"type": "array", "items": {"type": "integer"}},
    "list": {"type": "array"},
    "object": {"type": "object"},
}
"""The schema of a column by `Field.json_type`."""


@dataclass(frozen=True)
class Maybe:
    """A shape that may be null."""

    shape: Shape


@dataclass(frozen=True)
class Map:
    """An object whose keys are names out of the recording, all of one shape."""

    shape: Shape


@dataclass(frozen=True)
class Rows:
    """A list of rows of a declared table."""

    table: str
    """Its id."""
    more: dict[str, Shape] | None = None
    """Keys that its rows have besides."""
    without: tuple[str, ...] = ()
    """Keys that they lack."""
    other: Shape = None
    """The shape of keys that depend on the input: a sweep's axes."""


@dataclass(frozen=True)
class Either:
    """One of several shapes."""

    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Told:
    """A shape with what it means."""

    shape: Shape
    about: str


def schema_of(name: str, title: str, shape: Shape, *, closed: bool = False) -> Json:
    """The JSON Schema of a whole output.

    Args:
        name: what its ``schema`` key says; empty where it has none.
        title: one sentence on it.
        shape: its shape, without ``schema``.
        closed: whether other keys are refused. The contract may grow, so readers must not; tests do.
    """
    if name:
        shape = {"schema": Told("text", f"always {name}"), **shape}
    compiler = _Compiler(closed=closed)
    body = compiler.of(shape)
    if name:
        body["properties"]["schema"] = {"const": name}
    return {"$schema": DIALECT, "title": name or title, "description": title, **body, "$defs": compiler.tables}


class _Compiler:
    """Turns shapes into schemas; each table's row stands once, under ``$defs``."""

    def __init__(self, *, closed: bool) -> None:
        self.closed = closed
        self.tables: dict[str, Json] = {}

    def of(self, shape: Shape) -> Json:
        if isinstance(shape, Told):
            return {**self.of(shape.shape), "description": shape.about}
        if isinstance(shape, Maybe):
            return _or_null(self.of(shape.shape))
        if isinstance(shape, Map):
            return {"type": "object", "additionalProperties": self.of(shape.shape)}
        if isinstance(shape, Either):
            return {"anyOf": [self.of(one) for one in shape.shapes]}
        if isinstance(shape, Rows):
            return {"type": "array", "items": self._row(shape)}
        if isinstance(shape, list):
            return {"type": "array", "items": self.of(shape[0])}
        if isinstance(shape, dict):
            return self._object(shape)
        word = shape.removesuffix("?")
        if word == "any":
            return {}
        return _or_null({"type": WORDS[word]}) if shape.endswith("?") else {"type": WORDS[word]}

    def _object(self, shape: dict[str, Shape]) -> Json:
        found: Json = {
            "type": "object",
            "properties": {key.removesuffix("?"): self.of(value) for key, value in shape.items()},
            "required": [key for key in shape if not key.endswith("?")],
        }
        return {**found, "additionalProperties": False} if self.closed else found

    def _row(self, rows: Rows) -> Json:
        table = TABLES[rows.table]
        if rows.more is None and not rows.without and rows.other is None:
            if table.id not in self.tables:
                self.tables[table.id] = self._row_of(table, rows)
            return {"$ref": f"#/$defs/{table.id}"}
        return self._row_of(table, rows)

    def _row_of(self, table: Table, rows: Rows) -> Json:
        fields = [field for field in table.data_fields if field.json_key not in rows.without]
        more = rows.more or {}
        found: Json = {
            "type": "object",
            "description": f"one of the {table.noun}",
            "properties": {
                **{field.json_key: _column(field) for field in fields},
                **{key.removesuffix("?"): self.of(shape) for key, shape in more.items()},
            },
            "required": [
                *(field.json_key for field in fields if field.json_key not in DETAILS.get(table.id, ())),
                *(key for key in more if not key.endswith("?")),
            ],
        }
        names = [field.json_key for field in fields if field.name == table.key]
        if names:
            found["x-key"] = names[0]
        if rows.other is not None:
            return {**found, "additionalProperties": self.of(rows.other)}
        return {**found, "additionalProperties": False} if self.closed else found


def _column(field: Field) -> Json:
    found = dict(OF_JSON[field.json_type])
    if field.null:
        found = _or_null(found)
    found["description"] = field.about
    if unit := UNITS.get(field.kind):
        found["x-unit"] = unit
    return found


def _or_null(schema: Json) -> Json:
    if isinstance(kind := schema.get("type"), str):
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
