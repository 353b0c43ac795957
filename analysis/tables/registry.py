"""Every table by its id, and the sections of the report that list a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from types import ModuleType

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
SECTIONS: dict[str, Table] = {
    "kernels": kernels.KERNELS,
    "kernel_groups": kernels.KERNEL_GROUPS,
    "memops": kernels.MEMOPS,
    "operators": program.OPERATORS,
    "modules": program.MODULES,
    "module_kernels": program.MODULE_KERNELS,
    "host_functions": program.HOST_FUNCTIONS,
    "api": program.API_CALLS,
    "ranges": program.RANGES,
    "range_tree": program.RANGE_TREE,
    "range_tree_kernels": program.RANGE_TREE_KERNELS,
    "communication": kernels.COMMUNICATION,
    "collectives": collectives.COLLECTIVES,
    "critical_path": critical_path.STRETCHES,
    "gaps": critical_path.GAPS,
    "counters": counters.COUNTER_LAUNCHES,
    "configurations": configurations.CONFIGURATIONS,
    "roofline": counters.ROOFLINE,
    "findings": findings.FINDINGS,
    "source_lines": counters.SOURCE_LINES,
    "threads": system.THREADS,
    "cpu_functions": system.CPU_FUNCTIONS,
    "os_calls": system.OS_CALLS,
    "gpu_samples": system.GPU_SAMPLES,
    "unified_memory": system.UNIFIED_MEMORY,
    "ranks": ranks.RANKS,
    "waiting": ranks.WAITING,
    "stragglers": ranks.STRAGGLERS,
    "transfers": ranks.TRANSFERS,
    "stages": ranks.STAGES,
}
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
