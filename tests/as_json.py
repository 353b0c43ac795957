"""What the analysis reports, as the JSON that the commands print."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from tracetui.analysis.report import report as reports
from tracetui.analysis.report import sweep as sweeps


def report(*args: Any, **more: Any) -> dict[str, Any]:
    """The report of a run."""
    return to_builtins(reports.report(*args, **more))


def sweep_report(*args: Any, **more: Any) -> dict[str, Any]:
    """The report of a sweep."""
    return sweeps.sweep_json(sweeps.sweep_report(*args, **more))


def trace_report(*args: Any, **more: Any) -> dict[str, Any]:
    """One trace's part of it."""
    return to_builtins(reports.trace_report(*args, **more))
