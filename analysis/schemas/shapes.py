"""A short notation for the shapes of JSON, and the JSON Schema that it stands for.

A shape is a type (`str`, `int | None`, `object` for anything, that of a struct's field), a list of one shape, a dict
(an object; a key that ends in ``?`` may be missing), `Maybe`, `Map`, `Rows` or `Either`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import UnsetType

from tracetui.analysis.base.conventions import CATEGORIES
from tracetui.analysis.base.json_values import Json
from tracetui.analysis.report.model import Cost
from tracetui.analysis.report.shorten import DETAILS
from tracetui.analysis.tables.registry import TABLES
from tracetui.analysis.tables.table import UNITS, Field, Table

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Shape = Any
"""A type, a list of one shape, a dict of shapes, or one of the classes below."""
OF_JSON: dict[str, Json] = {
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "whole": {"type": "integer"},
    "real": {"type": "number"},  # with a fraction, even if it is .0
    "number": {"type": "number"},  # as the source has it
    "words": {"type": "array", "items": {"type": "string"}},
    "whole list": {"type": "array", "items": {"type": "integer"}},
    "list": {"type": "array"},
    "object": {"type": "object"},
}
"""The schema of a column by `Field.json_type`."""
OF_PYTHON: dict[Shape, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


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
        shape = {"schema": Told(str, f"always {name}"), **shape}
    compiler = _Compiler(closed=closed)
    body = compiler.of(shape)
    if name:
        body["properties"]["schema"] = {"const": name}
    return {"$schema": DIALECT, "title": name or title, "description": title, **body, "$defs": compiler.tables}


def fields_of(struct: type) -> dict[str, Shape]:
    """The keys of a struct with the types of their values; ``schema`` apart, which every output has."""
    hints = get_type_hints(struct, include_extras=True)
    keys = getattr(struct, "__struct_encode_fields__", hints)
    pairs = zip(keys, hints.values(), strict=True)
    return {f"{key}?" if UnsetType in get_args(hint) else key: hint for key, hint in pairs if key != "schema"}


class _Compiler:
    """Turns shapes into schemas; each table's row stands once, under ``$defs``."""

    def __init__(self, *, closed: bool) -> None:
        self.closed = closed
        self.tables: dict[str, Json] = {}

    def of_type(self, hint: Shape) -> Json:
        """The schema of a type that a field of a struct has."""
        origin: object = get_origin(hint)
        inner = [part for part in get_args(hint) if part is not UnsetType]
        if origin is Annotated:
            meta = inner[1]
            table = (meta.extra_json_schema or {}).get("x-table")
            body = self._rows(table, inner[0]) if table else self.of(inner[0])
            return {**body, "description": meta.description} if meta.description else body
        if origin in (Union, UnionType):
            known = [part for part in inner if part is not NoneType]
            kinds = [self.of(part) for part in known]
            if {"type": "integer"} in kinds and {"type": "number"} in kinds:
                kinds.remove({"type": "integer"})
            body = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
            return body if len(known) == len(inner) else _or_null(body)
        if origin is dict:
            costs = inner[1] is Cost
            return self.of(dict.fromkeys(CATEGORIES, Cost) if costs else {} if inner[1] is Any else Map(inner[1]))
        if origin is list:
            return {"type": "array", "items": self.of(inner[0])}
        if hint in (Any, object):
            return {}
        return {"type": OF_PYTHON[hint]} if hint in OF_PYTHON else self.of(fields_of(hint))

    def _rows(self, table: str, rows: Shape) -> Json:
        """A list of rows of a declared table; of a struct, what its lists hold and what the table lacks besides."""
        (row,) = get_args(rows)
        if get_origin(row) is dict:
            return self.of(Rows(table))
        columns = {field.json_key: field for field in TABLES[table].data_fields}
        nested: dict[str, Shape] = {}
        for name, hint in fields_of(row).items():
            origin: object = get_origin(hint)
            if name not in columns:
                nested[name] = hint
            elif origin is list:
                nested[name] = Told(hint, columns[name].about)
        return self.of(Rows(table, nested or None, tuple(nested)))

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
        return self.of_type(shape)

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
