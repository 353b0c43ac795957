"""Makes the frames that a query names: a recording's own as they are, the report's tables from the report's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.query.frames import ABOUT, OF_JSON, frames, plain
from tracetui.analysis.report.report import report, trace_report
from tracetui.analysis.selection import Scope
from tracetui.analysis.tables.registry import OF_RUNS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tracetui.analysis.findings.config import Config
    from tracetui.parsers import Run, Trace

_POLARS: dict[str, Any] = {
    "varchar": pl.String(),
    "boolean": pl.Boolean(),
    "bigint": pl.Int64(),
    "double": pl.Float64(),
    "varchar[]": pl.List(pl.String()),
    "bigint[]": pl.List(pl.Int64()),
}


def frames_of(
    run: Run, trace: Trace, config: Config | None = None
) -> Callable[[Collection[str]], dict[str, pl.DataFrame]]:
    """Returns what makes frames of these names.

    Args:
        run: the tables of several ranks are about it.
        trace: the recording of it that all other frames are of.
        config: thresholds of the rules.
    """

    def made(names: Collection[str]) -> dict[str, pl.DataFrame]:
        known = frames()
        tables = [known[name].section for name in names if name not in ABOUT]
        rows: dict[str, Any] = {}
        if of_trace := [name for name in tables if name not in OF_RUNS]:
            rows |= trace_report(trace, Scope(), of_trace, run=run, config=config)
        if of_run := [name for name in tables if name in OF_RUNS]:
            rows |= report(run, Scope(), of_run, config=config)["run"]
        found: dict[str, pl.DataFrame] = {name: getattr(trace, name) for name in names if name in ABOUT}
        return found | {name: _table(name, _rows(rows.get(name))) for name in tables}

    return made


def _rows(section: Any) -> list[dict[str, Any]]:
    """A section's rows: a list as it is; the critical path's and the communication's are inside an object."""
    if isinstance(section, dict):
        return section.get("stretches") or section.get("kernels") or []
    return section or []


def _table(section: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = {field.json_key: _POLARS[OF_JSON[field.json_type]] for field in plain(SECTIONS[section])}
    return pl.DataFrame(
        {
            name: pl.Series(name, [row.get(name) for row in rows], dtype=dtype, strict=False)
            for name, dtype in columns.items()
        },
        schema=columns,
    )
