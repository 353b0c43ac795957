"""The sections about what nsys recorded beside CUDA, each as a table; where there is none, how to record it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.tables.nsight.counters import SOURCE_LINES
from tracetui.analysis.tables.registry import SECTIONS as TABLES
from tracetui.app.reports.content.charts import samples_chart
from tracetui.app.reports.layout import WIDTH, Layout
from tracetui.app.reports.parts import Part, Sentences, listed
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tracetui.analysis.report.model import Trace

NOTHING = {
    "threads": "No thread activity: record with nsys profile --cpuctxsw=process-tree --sample=process-tree.",
    "cpu_functions": "No CPU samples: record with nsys profile --sample=process-tree.",
    "os_calls": "No calls of the operating system: record with nsys profile --trace=cuda,nvtx,osrt.",
    "gpu_samples": "No samples of the GPU: record with nsys profile --gpu-metrics-devices=all.",
    "unified_memory": "No unified memory was moved, or it was not traced: record with nsys profile "
    "--cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true.",
}
"""What is said of a section without rows."""
EXPORT_FIRST = "This section reads the export again: nsys export --type=sqlite FILE, then give the .sqlite."
CHART_WIDTH = WIDTH - 2
WHOLE_TIME = "(all of the time)"


def _section(name: str) -> Callable[[Trace, Layout], Iterable[Part]]:
    def parts(trace: Trace, layout: Layout) -> Iterator[Part]:
        rows = getattr(trace, name)
        if not rows:
            from tracetui.parsers.nsys.beside import REPORTS

            is_report = trace.source.path.lower().endswith(REPORTS)
            yield Sentences((EXPORT_FIRST if is_report else NOTHING[name],))
            return
        if name == "gpu_samples":
            rows = [{**row, "kernel": WHOLE_TIME if row["calls"] is None else row["kernel"]} for row in rows]
        block = listed(TABLES[name], rows, layout)
        if name == "gpu_samples" and layout.charts:
            block = replace(block, chart=samples_chart(rows[0], CHART_WIDTH, ascii=layout.ascii))
        # what no row knows says nothing
        known = [any(row[place] != "-" for row in block.cells) for place in range(len(block.columns))]
        yield replace(
            block,
            columns=tuple(column for column, there in zip(block.columns, known, strict=True) if there),
            cells=[[cell for cell, there in zip(row, known, strict=True) if there] for row in block.cells],
            values=[[value for value, there in zip(row, known, strict=True) if there] for row in block.values],
        )

    return parts


def source_lines(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The lines of each kernel of ncu's source page."""
    for kernel in dict.fromkeys(row["kernel"] for row in trace.source_lines or ()):
        rows = [row for row in trace.source_lines or () if row["kernel"] == kernel]
        yield listed(SOURCE_LINES, rows, layout, heading=short_name(kernel))


SECTIONS: dict[str, Callable[[Trace, Layout], Iterable[Part]]] = {
    "source_lines": source_lines,
    **{name: _section(name) for name in NOTHING},
}
