"""Single tables of a sweep, chosen by name: in text, Markdown and CSV."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.report.sets.capture_tables import matrix_rows
from tracetui.analysis.report.sets.sweep import speedup_rows
from tracetui.analysis.tables import captures, sweeps
from tracetui.app.reports.content.captures import capture_parts, matrix_parts
from tracetui.app.reports.content.sweeps.sweep import (
    comparison_blocks,
    fitting,
    is_invalid,
    points_block,
    spelled,
    sweep_csv,
)
from tracetui.app.reports.content.sweeps.variants import kind_blocks
from tracetui.app.reports.csv_report import captures_csv, plain_csv
from tracetui.app.reports.layout import Shown
from tracetui.app.reports.parts import Block, Sentences, Title, cell, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.tables.table import Table
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part

FLAT = {"phases": captures.PHASES, "categories": captures.CATEGORIES, "top_kernels": captures.TOP_KERNELS}
"""Tables with a row per capture and phase or kernel."""
SECTIONS = ("points", "comparisons", "kinds", "captures", "matrix", *FLAT)
"""What ``sweep --section`` takes: the sweep's own tables, then those of captures."""


def section_parts(found: Json, sections: Sequence[str], layout: Layout) -> Iterator[Part]:
    """Some sections of the sweep, one of `SECTIONS` each."""
    yield Title(f"tracetui sweep: {Path(found['path']).name or found['path']}")
    for name in sections:
        if name in ("points", "comparisons"):
            blocks = [points_block(found, layout)] if name == "points" else comparison_blocks(found, layout)
            for block in blocks:
                yield replace(block, cells=block.cells[: layout.limit], whole=len(block.cells))
        elif name == "kinds":
            yield from kind_blocks(found, layout)
        elif name == "captures":
            yield from capture_parts(found["captures"], layout) if found["captures"] else ()
        elif name == "matrix":
            yield from matrix_parts(found["captures"], layout)
        else:
            yield from _flat(found, FLAT[name], layout)
        if not _filled(found, name):
            yield Sentences((f"Nothing for {name}: {NOTHING.get(name, NO_RANGES)}",))


NO_RANGES = "no recording of Nsight Systems with ranges in this sweep."
NOTHING = {
    "points": "no points.",
    "comparisons": "no two variants to compare.",
    "kinds": "no two variants whose recordings have GPU work.",
    "matrix": "no recordings of Nsight Systems with ranges, or names without a pattern.",
}


def _filled(found: Json, name: str) -> bool:
    if name == "matrix":
        return bool(matrix_rows(found["captures"])[1])
    return bool(found[name]) and not (name in ("comparisons", "kinds") and is_invalid(found))


def _flat(found: Json, table: Table, layout: Layout) -> Iterator[Part]:
    """A table of captures with a column for each axis."""
    rows = found[table.section]
    if table is captures.PHASES:  # the whole capture has no means
        rows = [row for row in rows if row["phase"] != captures.WHOLE or row["outcome"] not in ("measured", "cut")]
    if not rows:
        return
    fields = table.chosen(table.reports)
    if any(row.get("outcome", "measured") != "measured" for row in rows):
        fields = (*fields, table.field("outcome"))
    columns = [*(Shown(axis, right=False) for axis in found["axes"]), *map(shown, fields)]
    cells = [
        [
            *(spelled(row.get(axis)) for axis in found["axes"]),
            *(cell(one, row, ascii=layout.ascii) for one in fields),
        ]
        for row in rows[: layout.limit]
    ]
    kept, cells = fitting(columns, cells, ("Ranges", "Calls", "CPU%", "GPU%"))
    ended = dict.fromkeys(f"{label_of(row, found['axes'])}: {row['reason']}" for row in rows if row.get("reason"))
    yield Block(table.title, note=table.base, columns=tuple(kept), cells=cells, whole=len(rows), after=tuple(ended))


def label_of(row: Json, axes: Sequence[str]) -> str:
    """``model small, ctx 128``."""
    return ", ".join(f"{axis} {spelled(row[axis])}" for axis in axes if row.get(axis) is not None)


def section_csv(found: Json, section: str) -> str:
    """One section, one line per row; the axes first where they are its rows' own."""
    if section == "points":
        return sweep_csv(found)
    if section == "comparisons":
        return plain_csv(speedup_rows(found), sweeps.SPEEDUPS.csv_header)
    if section == "kinds":
        return plain_csv(found["kinds"], sweeps.KINDS.csv_header)
    if section == "captures":
        return captures_csv(found["captures"])
    if section == "matrix":
        header, rows = matrix_rows(found["captures"])
        return plain_csv(rows, header)
    return plain_csv(found[section], (*found["axes"], *FLAT[section].csv_header))
