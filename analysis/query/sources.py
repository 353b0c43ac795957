"""Makes the frames that a query names: a recording's own as they are, the report's tables from the report's rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import polars as pl
from msgspec import Struct
from msgspec.structs import asdict

from tracetui.analysis.findings.config import Config
from tracetui.analysis.query.ask import SECONDS, Answer, Stop, ask
from tracetui.analysis.query.frames import ABOUT, OF_JSON, frames, plain
from tracetui.analysis.report.model import Communication, CriticalPath
from tracetui.analysis.report.report import report, trace_report
from tracetui.analysis.selection import Scope, select
from tracetui.analysis.tables.program import MODULE_KERNELS
from tracetui.analysis.tables.registry import OF_RUNS, SECTIONS
from tracetui.parsers import Run, Trace

WHOLE = Scope()
_POLARS: dict[str, Any] = {
    "varchar": pl.String(),
    "boolean": pl.Boolean(),
    "bigint": pl.Int64(),
    "double": pl.Float64(),
    "varchar[]": pl.List(pl.String()),
    "bigint[]": pl.List(pl.Int64()),
}


def frames_of(
    run: Run, trace: Trace, config: Config | None = None, scope: Scope = WHOLE
) -> Callable[[Collection[str]], dict[str, pl.DataFrame]]:
    """Returns what makes frames of these names.

    Args:
        run: the tables of several ranks are about it.
        trace: the recording of it that all other frames are of.
        config: thresholds of the rules.
        scope: what of the recording they have. If not everything, frames have their column ``row`` already, which
            counts in the whole recording.
    """

    def made(names: Collection[str]) -> dict[str, pl.DataFrame]:
        known = frames()
        tables = [known[name].section for name in names if name not in ABOUT]
        rows: dict[str, Any] = {}
        if of_trace := [name for name in tables if name not in OF_RUNS]:
            below = MODULE_KERNELS.id in of_trace
            asked = {"modules" if name == MODULE_KERNELS.id else name for name in of_trace}
            rows |= asdict(trace_report(trace, scope, asked, run=run, config=config, range_kernels=below))
        if of_run := [name for name in tables if name in OF_RUNS]:
            rows |= asdict(report(run, replace(scope, window=None), of_run, config=config).run)
        recorded = [name for name in names if name in ABOUT]
        found = {name: getattr(trace, name) for name in recorded}
        if scope != WHOLE:
            found = _within(trace, scope, recorded)
        return found | {name: _table(name, _rows(rows.get(name))) for name in tables}

    return made


def answer_of(
    run: Run,
    trace: Trace,
    sql: str,
    config: Config | None = None,
    *,
    scope: Scope = WHOLE,
    limit: int | None = None,
    seconds: float = SECONDS,
    stop: Stop | None = None,
) -> Answer:
    """Runs a query over one recording of a run.

    Args:
        run: the tables of several ranks are about it.
        trace: the recording of it that all other frames are of.
        sql: the query.
        config: thresholds of the rules.
        scope: what of the recording the frames have.
        limit: at most so many rows.
        seconds: how long it may run.
        stop: ends it from another thread.

    Raises:
        QueryError: it is refused, wrong, or exceeds a limit.
    """
    numbered = ABOUT if scope == WHOLE else ()
    made = frames_of(run, trace, config, scope)
    return ask(sql, list(frames()), made, numbered=numbered, limit=limit, seconds=seconds, stop=stop)


def _within(trace: Trace, scope: Scope, names: Collection[str]) -> dict[str, pl.DataFrame]:
    """A recording's frames restricted to a scope; ``row`` is the number of a row in the whole frame."""
    selection = select(trace, scope)

    def rows_of(name: str) -> pl.DataFrame:
        if name in ("host", "device"):
            return selection.host if name == "host" else selection.device
        if name == "steps":
            return trace.steps.with_row_index("row").join(selection.steps, on="start", how="semi")
        if name == "memory":
            return selection.within_memory(trace.memory.with_row_index("row"))
        # what is about an activity or an event goes with it
        frame: pl.DataFrame = getattr(trace, name).with_row_index("row")
        device = selection.device["row"].implode()
        if name == "counters":
            return frame.filter(pl.col("device_row").is_in(device) | pl.col("device_row").is_null())
        host = selection.host["row"].implode()
        return frame.filter(pl.col("device").is_in(device) | pl.col("host").is_in(host))

    return {name: rows_of(name).with_columns(pl.col("row").cast(pl.Int64)) for name in names}


def _rows(section: Any) -> list[dict[str, Any]]:
    """A section's rows: a list as it is; the critical path's and the communication's are inside an object."""
    if isinstance(section, CriticalPath):
        return section.stretches
    if isinstance(section, Communication):
        return section.kernels
    return [asdict(row) if isinstance(row, Struct) else row for row in section or ()]


def _table(section: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = {field.json_key: _POLARS[OF_JSON[field.json_type]] for field in plain(SECTIONS[section])}
    return pl.DataFrame(
        {
            name: pl.Series(name, [row.get(name) for row in rows], dtype=dtype, strict=False)
            for name, dtype in columns.items()
        },
        schema=columns,
    )
