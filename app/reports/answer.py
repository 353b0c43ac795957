"""Writes the result of a query as text, Markdown, CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from tracetui.analysis.base.json_values import Json
from tracetui.analysis.query.ask import Answer, Column
from tracetui.analysis.query.frames import frames
from tracetui.analysis.tables.table import Kind
from tracetui.app.reports.layout import GAP, WIDTH, Layout, Shown
from tracetui.app.tables.columns import cell_text
from tracetui.app.text.escaping import any_cell, cell, code, plain
from tracetui.app.text.fitting import cell_width

SCHEMA = "tracetui.query/1"
NUMBERS = ("bigint", "integer", "smallint", "tinyint", "hugeint", "uinteger", "ubigint", "double", "float", "decimal")
"""How the types of numbers begin."""
_BY_UNIT: dict[str, Kind] = {"ns": "time", "bytes": "bytes", "%": "percent"}
_MOMENTS = ("start", "time", "offset")
LEAST_NAME = 16
"""The columns that a text needs at least, where a table is to be read."""


def kind_of(column: Column, read: Collection[str] = ()) -> Kind:
    """The kind of a column's values: by its type, its name's end, and the column of the frames `read` that it is of."""
    if not column.type.startswith(NUMBERS) or column.type.endswith("]"):
        return "text"
    of = column.name if column.of is None else column.of
    for name in (column.name, of):
        if name.endswith(("_ns", "_us")):
            return "time"
        if name.endswith("_percent") or name == "percent":
            return "percent"
        if name.endswith("_bytes") or name == "bytes":
            return "bytes"
    return _BY_UNIT.get(_unit(of, read), "number")


def scale_of(column: Column, kind: Kind) -> int:
    """What a time is multiplied by to be ns."""
    name = column.name if column.name.endswith(("_ns", "_us")) else column.of or ""
    return 1000 if kind == "time" and name.endswith("_us") else 1


def unit_of(column: Column, read: Collection[str]) -> str | None:
    """The unit of a column's plain numbers; None where none is known."""
    kind = kind_of(column, read)
    return "us" if scale_of(column, kind) != 1 else next((unit for unit, of in _BY_UNIT.items() if of == kind), None)


def _unit(name: str, read: Collection[str]) -> str:
    """The unit that all frames with a column of this name give it; none of a moment, which a short time can't tell."""
    if name in _MOMENTS:
        return ""
    known = frames()
    units = {column.unit for frame in read for column in known[frame].columns if column.name == name}
    return units.pop() if len(units) == 1 else ""


def answer_json(answer: Answer, origin: Json) -> Json:
    """The result as the JSON contract; `origin` says what was asked of which recording."""
    names = [column.name for column in answer.columns]
    return {
        "schema": SCHEMA,
        **origin,
        "frames": list(answer.frames),
        "columns": [
            {"name": column.name, "type": column.type, "unit": unit_of(column, answer.frames)}
            for column in answer.columns
        ],
        "rows": [dict(zip(names, row, strict=True)) for row in answer.rows],
        "more": answer.more,
    }


def answer_csv(answer: Answer) -> str:
    """The result as CSV: plain numbers, unknown values empty, no cell that a spreadsheet takes for a formula."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([cell(column.name) for column in answer.columns])
    writer.writerows([[any_cell(unnested(value)) for value in row] for row in answer.rows])
    return out.getvalue()


def answer_text(answer: Answer, layout: Layout) -> str:
    """The result as a table of at most 80 columns; where its columns don't fit, a block of lines for each row."""
    titles = [column.name for column in answer.columns]
    cells = _cells(answer, layout)
    shown = [
        Shown(layout.text(column.name), right=_is_number(column), share=0 if _is_number(column) else 1)
        for column in answer.columns
    ]
    lines = layout.table(shown, cells) if _fits(shown, cells) else _blocks(titles, cells, layout)
    return "\n".join([*lines, *_rest(answer)]) + "\n"


def answer_markdown(answer: Answer, layout: Layout) -> str:
    """The result as a table of Markdown."""
    lines = [
        "| " + " | ".join(plain(column.name) for column in answer.columns) + " |",
        "|" + "|".join("--:" if _is_number(column) else ":--" for column in answer.columns) + "|",
    ]
    for row, values in zip(_cells(answer, layout), answer.rows, strict=True):
        texts = [
            code(text) if isinstance(value, str) and text else plain(text)
            for text, value in zip(row, values, strict=True)
        ]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join([*lines, *(["", *rest] if (rest := _rest(answer)) else [])]) + "\n"


def _is_number(column: Column) -> bool:
    return column.type.startswith(NUMBERS) and not column.type.endswith("]")


def _cells(answer: Answer, layout: Layout) -> list[list[str]]:
    kinds = [kind_of(column, answer.frames) for column in answer.columns]
    scales = [scale_of(column, kind) for kind, column in zip(kinds, answer.columns, strict=True)]
    return [
        [
            value_text(value, kind, scale, ascii=layout.ascii)
            for value, kind, scale in zip(row, kinds, scales, strict=True)
        ]
        for row in answer.rows
    ]


def value_text(value: object, kind: Kind, scale: int, *, ascii: bool) -> str:
    """A value of a result as text."""
    if scale != 1 and isinstance(value, (int, float)):
        value = round(value * scale, 6)  # whole ns, which a product may miss by the last bit
    return cell_text(unnested(value), kind, ascii=ascii)


def unnested(value: object) -> Any:
    """A value without nesting: a launch's size as 4x384x1, a list as words, an object as JSON."""
    if isinstance(value, list):
        if all(isinstance(item, int) for item in value):
            return "x".join(map(str, value))
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value


def _fits(columns: Sequence[Shown], cells: Sequence[Sequence[str]]) -> bool:
    needs = [max(cell_width(row[at]) for row in ([one.title for one in columns], *cells)) for at in range(len(columns))]
    least = [min(need, LEAST_NAME) if one.share else need for need, one in zip(needs, columns, strict=True)]
    return sum(least) + len(GAP) * len(columns) <= WIDTH


def _blocks(titles: Sequence[str], cells: Sequence[Sequence[str]], layout: Layout) -> list[str]:
    width = min(max(cell_width(layout.text(title)) for title in titles) + 2, WIDTH // 2)
    lines: list[str] = []
    for number, row in enumerate(cells, 1):
        lines += [*([""] if lines else []), f"row {number}"]
        for title, text in zip(titles, row, strict=True):
            lines += layout.field(f"  {layout.text(title)}", text, width=width + 2)
    return lines


def _rest(answer: Answer) -> list[str]:
    if not answer.rows:
        return ["no rows"]
    return [f"the first {len(answer.rows):,} rows; --limit 0 for all"] if answer.more else []
