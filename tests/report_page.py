"""The tables of docs/reference/report.md that say what the keys of a declared table mean, from the declarations."""

import re
from pathlib import Path

from tracetui.analysis.tables.registry import TABLES
from tracetui.analysis.tables.table import UNITS, Field, Table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "report.md"
WORDS = {
    "text": "text",
    "status": "text",
    "flag": "yes/no",
    "count": "count",
    "number": "number",
    "list": "list",
    **{kind: "bytes" if unit == "bytes" else unit for kind, unit in UNITS.items()},
}
"""What a value is, in a word, by kind."""
BY_TYPE = {"list": "list", "object": "object", "words": "list of texts", "whole list": "list of numbers"}
"""The same of values whose type tells more than their kind."""
_BETWEEN = re.compile(r"(<!-- keys of (\w+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def type_of(field: Field) -> str:
    """``µs``, or ``list of texts, may be null``."""
    word = BY_TYPE.get(field.json_type) or WORDS[field.kind]
    return f"{word}, may be null" if field.null else word


def keys_of(table: Table) -> str:
    """The keys of a table's rows, each with its type and meaning."""
    lines = ["| key | type | meaning |", "|---|---|---|"]
    lines += [f"| `{field.json_key}` | {type_of(field)} | {field.about} |" for field in table.data_fields]
    return "\n".join(lines) + "\n"


def documented(page: str) -> list[str]:
    """The ids of the tables whose keys stand on the page, in its order."""
    return [found[1] for found in _BETWEEN.findall(page)]


def report_page() -> str:
    """docs/reference/report.md with the keys as they are declared now."""
    return _BETWEEN.sub(lambda found: found[1] + keys_of(TABLES[found[2]]) + found[3], PAGE.read_text(encoding="utf-8"))
