"""Outputs against their JSON Schemas, and every key of a report as text."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tracetui.analysis.schemas.outputs import json_schema

KEYS = Path(__file__).parent / "report_keys.txt"
jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema, which is in tracetui[dev]")


@cache
def validator(name: str) -> Any:
    """Refuses keys that the schema does not know, so that each key that a command prints is in it."""
    schema = json_schema(name, closed=True)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def wrong(name: str, found: object) -> list[str]:
    """Where an output differs from its schema."""
    return [f"{error.json_path}: {error.message[-200:]}" for error in validator(name).iter_errors(one_of_each(found))]


def one_of_each(found: object) -> object:
    """An output with one item of each form in its lists: a schema looks at forms, and lists have thousands of items."""
    if isinstance(found, dict):
        return {key: one_of_each(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [one_of_each(item) for item in {form(item): item for item in found}.values()]
    return found


def form(found: object) -> object:
    """The keys of a value, and the types of what it holds."""
    if isinstance(found, dict):
        return tuple((key, form(value)) for key, value in found.items())
    return frozenset(map(form, found)) if isinstance(found, list | tuple) else type(found)


def outline(schema: Any, indent: str = "") -> Iterator[str]:
    """A line for each key below a part of a schema, with its type; what it holds stands below it."""
    for key, value in schema.get("properties", {}).items():
        types = value.get("$ref", value.get("type", "any"))
        types = types if isinstance(types, str) else " or ".join(types)
        yield f"{indent}{key}{'' if key in schema['required'] else '?'}: {types}"
        yield from outline(value, f"{indent}  ")
    for inner in (*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")):
        if inner:
            kind = inner.get("$ref", inner.get("type", "any"))
            yield f"{indent}- {kind if isinstance(kind, str) else ' or '.join(kind)}"
            yield from outline(inner, f"{indent}  ")


def all_keys() -> str:
    """Every key of a report and of a diff with its type."""
    lines: list[str] = []
    for name in ("report", "diff"):
        schema = json_schema(name)
        lines += (f"{name}:", *outline(schema, "  "))
        for table, row in schema["$defs"].items():
            lines += (f"{name} #/$defs/{table}:", *outline(row, "  "))
    return "\n".join(lines) + "\n"
