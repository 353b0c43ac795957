"""Where the rows of declared tables stand in the report's JSON, and which of their values may be null there."""

from collections.abc import Iterator
from typing import Any

from tracetui.analysis.tables import captures, findings, runs, sweeps
from tracetui.analysis.tables.registry import COMPARED, OF_RUNS, TABLES
from tracetui.analysis.tables.registry import SECTIONS as TABLES_OF
from tracetui.analysis.tables.table import Table

OF_RUN: dict[str, Table] = {name: TABLES_OF[name] for name in sorted(OF_RUNS)}
"""The tables of the run itself, by its report's key."""
OF_SWEEPS = (
    runs.SWEEP_POINTS, sweeps.SPEEDUPS, sweeps.KINDS, captures.PHASES, captures.CATEGORIES, captures.TOP_KERNELS,
)  # fmt: skip
"""Tables that only the report of a sweep has."""
LISTS: dict[str, Table] = {
    table.section or table.id: table
    for table in TABLES.values()
    if table.data and table not in COMPARED.values() and table not in (*OF_RUN.values(), *OF_SWEEPS)
} | {"findings": findings.FINDINGS}
"""The tables of a trace's part of the report, by the path to their rows."""


def rows_at(trace: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """The rows of a trace's part of the report at a path of `LISTS`; none where the trace has no such section."""
    found: Any = trace
    for key in path.split("."):
        found = None if found is None else found.get(key)
    return found or []


def may_be_null(tables: dict[str, Table]) -> set[str]:
    """The values that are declared as perhaps unknown, as ``section.key``."""
    return {f"{path}.{field.json_key}" for path, table in tables.items() for field in table.data_fields if field.null}


def nulls(path: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """The values that are null in one of the rows, as ``section.key``."""
    for found in rows:
        yield from (f"{path}.{key}" for key, item in found.items() if item is None)
