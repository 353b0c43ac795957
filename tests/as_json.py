"""What the analysis reports, as the JSON that the commands print."""

from typing import Any

from msgspec import convert, to_builtins

from tracetui.analysis.report import diff as diffs
from tracetui.analysis.report import report as reports
from tracetui.analysis.report import sweep as sweeps
from tracetui.analysis.report.diff import DiffReport
from tracetui.analysis.report.model import Report


def report(*args: Any, **more: Any) -> dict[str, Any]:
    """The report of a run."""
    return to_builtins(reports.report(*args, **more))


def sweep_report(*args: Any, **more: Any) -> dict[str, Any]:
    """The report of a sweep."""
    return sweeps.sweep_json(sweeps.sweep_report(*args, **more))


def trace_report(*args: Any, **more: Any) -> dict[str, Any]:
    """One trace's part of it."""
    return to_builtins(reports.trace_report(*args, **more))


def diff_report(*args: Any, **more: Any) -> dict[str, Any]:
    """The report of two runs."""
    return to_builtins(diffs.diff_report(*args, **more))


def as_structs(found: dict[str, Any]) -> Report:
    """The report of a run that JSON was made of."""
    return convert(found, Report)


def as_diff(found: dict[str, Any]) -> DiffReport:
    """The report of two runs that JSON was made of."""
    return convert(found, DiffReport)
