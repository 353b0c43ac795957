"""Ranges in the text report: by name, and as a tree where no nn.Module tells what the program's parts are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.quantities import UNKNOWN, format_count
from tracetui.app.reports.charts import indented, ranges_chart
from tracetui.app.reports.text_table import WIDTH, Column, Page
from tracetui.app.tables.range_tree import largest, merged_ranges, spelled

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json


def ranges(trace: Json, page: Page) -> list[str]:
    """Annotations: what the author of the program named."""
    rows = trace["ranges"]
    if not rows:
        return []
    columns = [
        Column("host total"), Column("GPU time"), Column("GPU ops"), Column("instances"),
        Column("range", right=False, share=1),
    ]  # fmt: skip
    cells = [
        [
            page.time(row["host_total_us"]),
            page.time(row["device_us"]),
            format_count(row["gpu_ops"]),
            format_count(row["instances"]) if row["instances"] else UNKNOWN,
            spelled(row),
        ]
        for row in shown_ranges(rows, page.limit)
    ]
    return [page.heading("Ranges", "record_function, NVTX", len(cells), len(rows)), *page.table(columns, cells)]


def shown_ranges(rows: list[Json], limit: int | None) -> list[Json]:
    """The first ranges, and behind them the GPU time that is in none."""
    shown = rows[:limit]
    return shown if rows[-1]["instances"] or len(shown) == len(rows) else [*shown[:-1], rows[-1]]


def range_tree(trace: Json, page: Page) -> list[str]:
    """Ranges by the ranges around them; left out beside a module tree, and where no range is inside another."""
    rows = trace["range_tree"]
    if not tree_is_shown(trace):
        return []
    nodes = merged_ranges(rows)
    shown = largest(nodes, page.limit)
    columns = [
        Column("GPU total"), Column("GPU self"), Column("host total"), Column("calls"),
        Column("range", right=False, share=1),
    ]  # fmt: skip
    cells = [
        [
            page.time(node.device_total_us),
            page.time(node.device_self_us),
            page.time(node.host_total_us) if node.calls else UNKNOWN,
            format_count(node.calls) if node.calls else UNKNOWN,
            "  " * node.depth + node.label,
        ]
        for node in shown
    ]
    title = page.heading("Ranges as a tree", "numbered ones merged", len(shown), len(nodes))
    chart = indented(ranges_chart(rows, WIDTH - 2, ascii=page.ascii)) if page.charts else []
    return [title, *page.table(columns, cells), *(["", *chart] if chart else [])]


def tree_is_shown(trace: Json) -> bool:
    """Whether the tree says more than the list of ranges, and no modules say it better."""
    has_modules = any(row["class_name"] for row in trace.get("modules") or ())
    return any(row["depth"] for row in trace.get("range_tree") or ()) and not has_modules
