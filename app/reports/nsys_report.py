"""Prints NVIDIA's report tables: as CSV identical to that of `nsys stats`, in its column form, or as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import polars as pl

from tracetui.analysis.base.number_format import format_us
from tracetui.analysis.nsys.stats import REPORTS, known_name, nsys_report
from tracetui.analysis.nsys.values import StatsTable
from tracetui.analysis.selection import Selection
from tracetui.app.text.escaping import cell
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.fitting import cell_width, fit, pad, printable
from tracetui.parsers import Run, Trace
from tracetui.parsers.errors import instead

SCHEMA = "tracetui.nsys_report/1"
IDS = frozenset(("CorrId", "PID", "TID", "DevId", "Ctx", "GreenCtx", "Strm"))
"""Whole numbers that stay as they are in the column form; all others get thousands separators."""
NAME_WIDTH = 100
"""What nsys shows of a name in its column form."""
_ABOUT_KERNELS = ("cuda_gpu", "cuda_kern", "cuda_api_gpu", "nvtx_gpu", "nvtx_kern")


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The reports asked for, several to an option if separated by commas, under today's names.

    Raises:
        UsageError: there is no such report.
    """
    found = []
    for name in (part.strip() for entry in names for part in entry.split(",")):
        current = known_name(name)
        if current is None:
            raise UsageError(f"no report of nsys named {name!r}; {instead(name, REPORTS)}")
        found.append(current)
    return tuple(found)


def trace_for(run: Run) -> Trace:
    """Returns the recording for NVIDIA's reports: the one from nsys if the run has one, of the lowest rank."""
    recordings = run.of_kind("nsys") or run.of_kind(run.main.info.kind)
    return min(recordings, key=lambda trace: trace.info.rank or 0)


def render(sel: Selection, names: Sequence[str], form: str, limit: int | None, *, ascii: bool) -> tuple[str, list[str]]:
    """The reports as text, and lines about what they don't hold.

    Args:
        sel: the trace and what of it the numbers are about.
        names: out of `REPORTS`.
        form: ``csv``, ``text`` or ``json``.
        limit: rows of each report; None for all.
        ascii: no other characters.
    """
    tables = [nsys_report(sel, name) for name in names]
    where = sel.trace.source.path.name
    notes = [
        f"{where} does not contain {table.lacks}: {table.name} has no rows" for table in tables if table.rows.is_empty()
    ]
    notes += _graphs_left_out(sel, names)
    if form == "json":
        return _json(sel, tables, limit), notes
    one = _csv if form == "csv" else _text
    return "\n".join(one(table, limit, ascii=ascii) for table in tables), notes


def _graphs_left_out(sel: Selection, names: Sequence[str]) -> list[str]:
    graphs = sel.device.filter(pl.col("kind") == "graph")["duration"]
    if not len(graphs) or not any(name.startswith(_ABOUT_KERNELS) for name in names):
        return []
    spent = format_us(int(graphs.sum()) / 1000)
    return [
        f"{len(graphs):,} runs of CUDA graphs ({spent} of GPU time) were recorded whole; NVIDIA's reports leave them "
        "out, --section kernels ranges counts them; nsys profile --cuda-graph-trace=node records their kernels"
    ]


def _csv(table: StatsTable, limit: int | None, *, ascii: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.rows.columns)
    digits = [table.digits(column) for column in table.rows.columns]
    for row in _head(table, limit).iter_rows():
        writer.writerow([_plain(value, places, ascii=ascii) for value, places in zip(row, digits, strict=True)])
    return out.getvalue()


def _plain(value: object, places: int, *, ascii: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.{places}f}"
    return cell(value, ascii=ascii) if isinstance(value, str) else str(value)


def _text(table: StatsTable, limit: int | None, *, ascii: bool) -> str:
    """The table under its title, as wide as it is: numbers to the right, names to the left and cut."""
    head = _head(table, limit)
    columns = []
    for title in head.columns:
        places, is_text = table.digits(title), head[title].dtype == pl.String
        values = head[title].cast(pl.String).to_list() if title in IDS else head[title].to_list()
        cells = [_shown(value, places, ascii=ascii) for value in values]
        width = max(map(cell_width, [title, *cells]))
        shown = [pad(cell, width, right=not is_text) for cell in cells]
        columns.append([title.center(width).ljust(width), "-" * width, *shown])
    lines = [" " + "  ".join(parts) for parts in zip(*columns, strict=True)]
    left = table.rows.height - head.height
    more = [f" ({left:,} more rows)"] if left else []
    return "\n".join([f" ** {table.title} ({table.name}):", "", *lines, *more]) + "\n"


def _shown(value: object, places: int, *, ascii: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.{places}f}"
    if isinstance(value, int):
        return f"{value:,}"
    return fit(printable(str(value), ascii=ascii), NAME_WIDTH, ascii=ascii)


def _json(sel: Selection, tables: Sequence[StatsTable], limit: int | None) -> str:
    from tracetui.app.reports.json_report import to_json

    reports = [
        {
            "name": table.name,
            "title": table.title,
            "columns": table.rows.columns,
            "rows": list(_head(table, limit).iter_rows(named=True)),
            "count": table.rows.height,
        }
        for table in tables
    ]
    return to_json({"schema": SCHEMA, "path": str(sel.trace.source.path), "base": sel.describe(), "reports": reports})


def _head(table: StatsTable, limit: int | None) -> pl.DataFrame:
    return table.rows if limit is None else table.rows.head(limit)
