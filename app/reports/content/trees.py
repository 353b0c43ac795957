"""The trees of modules and of ranges, made short: instances of one class, and numbered ranges, as one line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_percent
from tracetui.analysis.tables.program import MODULES, RANGE_TREE
from tracetui.app.reports.content.charts import modules_chart, ranges_chart
from tracetui.app.reports.layout import WIDTH
from tracetui.app.reports.parts import Block, cell, shown
from tracetui.app.tables.module_tree import merged_tree
from tracetui.app.tables.range_tree import largest, merged_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.tables.field import Field
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part

CHART_WIDTH = WIDTH - 2


def modules(trace: Json, layout: Layout) -> Iterator[Part]:
    """The module tree with the instances of one class under one parent merged."""
    rows = [row for row in trace["modules"] if row["path"]]
    if not any(row["class_name"] for row in rows):
        return
    tree = merged_tree(rows, layout.limit)
    merged = [
        {
            "device_total_us": node.device_total_us,
            "device_self_us": node.device_self_us,
            "backward_device_us": node.backward_us,
            "host_total_us": node.host_total_us,
            "occupancy_percent": node.occupancy.percent,
            "tensor_core_percent": node.tensor_core.percent,
            "calls": node.calls or None,
            "name": node.label,
        }
        for node in tree.shown
    ]
    on_gpu = any(node.device_total_us for node in tree.shown)
    unknown = {"backward_device_ns"} - ({"backward_device_ns"} if tree.has_backward else set())
    unknown |= set() if on_gpu else {"occupancy_percent", "tensor_core_percent"}
    fields = MODULES.chosen(name for name in MODULES.reports if name not in unknown)
    lost = tree.not_attributed_percent
    tree_block = _tree(
        Block(
            MODULES.title, MODULES.base, whole=tree.whole, depths=tuple(node.depth for node in tree.shown),
            after=(f"{format_percent(lost)} of GPU time is of no module.",) if lost else (),
            chart=modules_chart(trace["modules"], CHART_WIDTH, ascii=layout.ascii),
        ),
        fields, merged, layout,
    )  # fmt: skip
    wide = {"device_self_ns"} if on_gpu else set()
    columns = (replace(at, wide=one.name in wide) for at, one in zip(tree_block.columns, fields, strict=True))
    yield replace(tree_block, columns=tuple(columns))


def range_tree(trace: Json, layout: Layout) -> Iterator[Part]:
    """Ranges by the ranges around them; left out beside a module tree, and where no range is inside another."""
    rows = trace["range_tree"]
    if not tree_is_shown(trace):
        return
    nodes = merged_ranges(rows)
    kept = largest(nodes, layout.limit)
    merged = [
        {
            "device_total_us": node.device_total_us,
            "device_self_us": node.device_self_us,
            "host_total_us": node.host_total_us if node.calls else None,
            "calls": node.calls or None,
            "label": node.label,
        }
        for node in kept
    ]
    yield _tree(
        Block(
            RANGE_TREE.title, RANGE_TREE.base, whole=len(nodes), depths=tuple(node.depth for node in kept),
            chart=ranges_chart(rows, CHART_WIDTH, ascii=layout.ascii),
        ),
        RANGE_TREE.chosen(RANGE_TREE.reports), merged, layout,
    )  # fmt: skip


def _tree(block: Block, fields: Sequence[Field], rows: Sequence[Json], layout: Layout) -> Block:
    cells = [[cell(one, row, ascii=layout.ascii) for one in fields] for row in rows]
    return replace(block, columns=tuple(map(shown, fields)), cells=cells)


def tree_is_shown(trace: Json) -> bool:
    """Whether the tree says more than the list of ranges, and no modules say it better."""
    has_modules = any(row["class_name"] for row in trace.get("modules") or ())
    return any(row["depth"] for row in trace.get("range_tree") or ()) and not has_modules


def shown_ranges(rows: list[Json], limit: int | None) -> list[Json]:
    """The first ranges, and behind them the GPU time that is in none."""
    kept = rows[:limit]
    return kept if rows[-1]["instances"] or len(kept) == len(rows) else [*kept[:-1], rows[-1]]
