"""Every table by its id, and the sections of the report that list a table."""

from __future__ import annotations

from types import ModuleType

from tracetui.analysis.tables import (
    captures,
    collectives,
    comparison,
    critical_path,
    findings,
    kernels,
    memory,
    program,
    ranks,
    runs,
    sweeps,
)
from tracetui.analysis.tables.nsight import configurations, counters, system
from tracetui.analysis.tables.table import Table

MODULES: tuple[ModuleType, ...] = (
    kernels,
    collectives,
    program,
    critical_path,
    counters,
    configurations,
    memory,
    findings,
    comparison,
    runs,
    ranks,
    captures,
    sweeps,
    system,
)
TABLES: dict[str, Table] = {
    value.id: value for module in MODULES for value in vars(module).values() if isinstance(value, Table)
}
"""Every table by its id, in the order of declaration."""
_BY_KEY = {table.section or table.id: table for table in reversed(TABLES.values())}
_BY_KEY |= {"communication": kernels.COMMUNICATION, "critical_path": critical_path.STRETCHES}
SECTIONS: dict[str, Table] = {
    name: _BY_KEY[name]
    for name in (
        "kernels", "kernel_groups", "memops", "operators", "modules", "module_kernels", "host_functions",
        "host_lines", "host_stacks", "api", "ranges", "range_tree", "range_tree_kernels", "communication",
        "collectives", "critical_path", "gaps", "counters", "configurations", "roofline", "findings", "source_lines",
        "threads", "cpu_functions", "os_calls", "gpu_samples", "unified_memory", "tried", "ranks", "waiting",
        "stragglers", "transfers", "stages",
    )
}  # fmt: skip
"""The table whose rows a section of the report lists."""
OF_RUNS = frozenset({"ranks", "waiting", "stragglers", "transfers", "stages", "configurations"})
"""The sections that list a table of the run; the others are a trace's."""
COMPARED: dict[str, Table] = {
    "kernels": comparison.KERNELS,
    "operators": comparison.OPERATORS,
    "modules": comparison.MODULES,
    "ranges": comparison.RANGES,
    "kinds": comparison.KINDS,
    "split": comparison.STEP,
    "waterfall": comparison.WATERFALL,
    "findings": findings.FINDINGS,
}
"""The table whose rows a section of the diff lists."""
