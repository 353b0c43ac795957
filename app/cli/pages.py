"""The pages of the tabs with the columns that they can have, for those who choose columns in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.app.tables.columns import Column


def known_columns() -> dict[str, tuple[Column, ...]]:
    """By page, every column it may have; which of them a recording has depends on what was recorded."""
    from tracetui.app.views import diff, findings, host, kernels, modules, operators, ranges, sweep
    from tracetui.app.views.common import measured
    from tracetui.app.views.counters import columns as counter_columns
    from tracetui.app.views.memory import columns as memory_columns

    return {
        "kernels": (*kernels.COLUMNS, *measured.MEASURED),
        "launches": kernels.LAUNCHES,
        "memops": kernels.MEMOPS,
        "operators": operators.COLUMNS,
        "host": host.COLUMNS,
        "api": host.API_CALLS,
        "host_launches": host.LAUNCHES,
        "ranges": host.RANGES,
        "modules": modules.COLUMNS,
        "range_tree": ranges.COLUMNS,
        "counters": counter_columns.KERNELS,
        "counter_launches": counter_columns.LAUNCHES,
        "counter_metrics": counter_columns.METRICS,
        "memory_steps": memory_columns.STEPS,
        "memory_segments": memory_columns.SEGMENTS,
        "findings": findings.COLUMNS,
        "diff_waterfall": diff.WATERFALL,
        "diff_kernels": diff.KERNELS,
        "diff_operators": diff.COLUMNS,
        "diff_modules": diff.MODULES,
        "diff_step": diff.STEP,
        "sweep_points": sweep.NUMBERS,
    }
