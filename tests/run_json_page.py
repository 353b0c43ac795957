"""docs/reference/run-json.md from the structs that read run.json: ``python tests/run_json_page.py`` writes it anew."""

import ast
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "parsers" / "runs" / "manifest.py"
PAGE = ROOT / "docs" / "reference" / "run-json.md"
INTRODUCTION = """\
# run.json

What `tracetui profile` writes beside its recordings: which run it was, on what, in which state, doing what, and how it
ended. Schema `tracetui.run/1`. It is there from the first second (`status` is `running`) and complete at the end.
Made from `parsers/runs/manifest.py` by `make docs`.

Sizes are bytes, clocks Hz, temperatures °C, powers mW, voltages mV, currents mA; times are ns. What is not known is
null or absent, never 0. Readers ignore keys that they don't know; a value of another type counts as null.
It stays on your machine; `tracetui scrub run.json` makes a copy without host, paths, commands and UUIDs.
"""
OURS = {"clean_steps", "contradicted", "host_of", "noted", "notes", "clean_hosts", "profiled_steps", "samples"}
"""What is no key of the file."""


class Field(NamedTuple):
    name: str
    type: str
    text: str


SAMPLES = ROOT / "docs" / "reference" / "samples-json.md"
SAMPLES_HEAD = """\
# samples.json

Which lines a program's threads were in while its steps ran without a profiler, as `tracetui profile` has them sampled
from outside ([profile.md](../profile.md)). Schema `tracetui.samples/1`; made from `parsers/runs/samples.py` by
`make docs`. Times are ns; a place is a number from 0 on in another list of the file. `tracetui scrub` makes a copy
without the names of people in paths.

"""


def samples_page() -> str:
    """The page of samples.json."""
    source = ROOT / "parsers" / "runs" / "samples.py"
    return SAMPLES_HEAD + tables(source, ("Samples", "Frame", "Stack", "Thread", "Stay"), ("consistent",))


def tables(source: Path, names: tuple[str, ...], ours: tuple[str, ...] = ()) -> str:
    """A table of each of these structs of a module, without the attributes that are no keys of the file."""
    known = classes(source)
    lines = []
    for name in names:
        said, fields = known[name]
        lines += [f"**{name}**: {said}", "", "| key | type | |", "|---|---|---|"]
        for field in fields:
            if field.name not in ours:
                text = field.text.replace("|", "\\|")
                lines.append(f"| `{field.name}` | {_type(field.type, known)} | {text} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def classes(source: Path = SOURCE) -> dict[str, tuple[str, list[Field]]]:
    """Each struct: what it is, and its fields in order."""
    found: dict[str, tuple[str, list[Field]]] = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = (ast.get_docstring(node) or "", _fields(node))
    return found


def _fields(node: ast.ClassDef) -> list[Field]:
    fields = []
    for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.FunctionDef) and statement.returns and not statement.name.startswith("_"):
            about = " ".join((ast.get_docstring(statement) or "").split())
            fields.append(Field(statement.name, ast.unparse(statement.returns), about))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = str(after.value.value) if is_text else ""  # type: ignore[union-attr]
            fields.append(Field(statement.target.id, ast.unparse(statement.annotation), " ".join(text.split())))
    return fields


def page() -> str:
    """The whole page."""
    known = classes()
    order = ["RunManifest"]
    lines = [INTRODUCTION]
    for name in order:
        said, fields = known[name]
        title = "The file" if name == "RunManifest" else name
        lines += [f"## {title}", "", said, "", "| key | type | |", "|---|---|---|"]
        for field in fields:
            if field.name in OURS:
                continue
            inner = [other for other in known if other in field.type.replace("[", " ").replace(",", " ").split()]
            inner += [other for other in known if f"[{other}," in field.type and other not in inner]
            order.extend(other for other in inner if other not in order)
            text = " ".join([field.text, *(f"See [{other}](#{other.lower()})." for other in inner)]).strip()
            lines.append(f"| `{field.name}` | {_type(field.type, known)} | {text.replace('|', chr(92) + '|')} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _type(text: str, known: dict[str, tuple[str, list[Field]]]) -> str:
    """A Python type as JSON's."""
    text = text.removesuffix(" | None")
    if text.startswith("tuple["):
        return f"list of {_type(text[6:].removesuffix('...]').rstrip(', '), known)}"
    if text.startswith("dict["):
        return f"object of {_type(text[5:-1].partition(', ')[2], known)}"
    names = {"str": "text", "Whole": "whole number", "Number": "number", "bool": "true/false", "Any": "anything"}
    return "object" if text in known else names[text]


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
