"""The sections about what nsys recorded beside CUDA. They read the file again, and so only where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracetui.analysis.report.rows import table_rows
from tracetui.analysis.tables.nsight import system
from tracetui.analysis.tables.nsight.counters import SOURCE_LINES as SOURCE_LINES_TABLE

if TYPE_CHECKING:
    import polars as pl

    from tracetui.analysis.selection import Selection
    from tracetui.analysis.tables.table import Table

ON_REQUEST = ("gaps", "threads", "cpu_functions", "os_calls", "gpu_samples", "unified_memory")
"""Their names, and that of the list of gaps; each is a method of `Sections`."""


SOURCE_LINES = "source_lines"
"""The section of ncu's source page, which has nothing else."""


class BesideSections:
    """The sections of one selection that are read when asked for; empty where the file has nothing of the kind."""

    sel: Selection
    limit: int | None

    def threads(self) -> tuple[Any, int | None]:
        """Who keeps the CPU: a row per thread."""
        from tracetui.analysis.nsys.threads import threads

        return self._listed(threads(self.sel), system.THREADS)

    def cpu_functions(self) -> tuple[Any, int | None]:
        """Where CPU samples found the threads: a row per function and thread."""
        from tracetui.analysis.nsys.threads import cpu_functions

        return self._listed(cpu_functions(self.sel), system.CPU_FUNCTIONS)

    def os_calls(self) -> tuple[Any, int | None]:
        """What the threads waited for in the operating system: a row per function and thread."""
        from tracetui.analysis.nsys.threads import os_calls

        return self._listed(os_calls(self.sel), system.OS_CALLS)

    def gpu_samples(self) -> tuple[Any, int | None]:
        """The GPU's sampled metrics: a row per GPU, then per kernel."""
        from tracetui.analysis.nsys.gpu_samples import gpu_samples

        return self._listed(gpu_samples(self.sel), system.GPU_SAMPLES)

    def unified_memory(self) -> tuple[Any, int | None]:
        """Migrations of unified memory by cause, and page faults."""
        from tracetui.analysis.nsys.unified_memory import unified_memory

        return self._listed(unified_memory(self.sel), system.UNIFIED_MEMORY)

    def source_lines(self) -> tuple[Any, int | None]:
        """Where in the source a kernel waits and how it accesses memory."""
        from tracetui.analysis.counters.source_lines import source_lines

        return self._listed(source_lines(self.sel.trace), SOURCE_LINES_TABLE)

    def _listed(self, frame: pl.DataFrame, table: Table) -> tuple[Any, int | None]:
        return table_rows(frame, table, self.limit), frame.height
