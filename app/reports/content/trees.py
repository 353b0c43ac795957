"""The trees of modules and of ranges, made short: instances of one class, and numbered ranges, as one line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import UNSET

from tracetui.analysis.base.number_format import format_percent
from tracetui.analysis.tables.program import MODULES, RANGE_TREE
from tracetui.app.reports.content.charts import modules_chart, ranges_chart
from tracetui.app.reports.layout import WIDTH, Layout
from tracetui.app.reports.parts import Block, Part, shown, value_cell
from tracetui.app.tables import trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.report.model import Trace
    from tracetui.analysis.tables.table import Field

CHART_WIDTH = WIDTH - 2


def modules(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The module tree with the instances of one class under one parent merged."""
    rows = trees.tree_rows(trace.modules or ())
    if not any(row.class_name for row in rows if row.path):
        return
    nodes = trees.merged_modules(row for row in rows if row.path)
    kept = trees.largest(nodes, layout.limit)
    by_path = trees.work_by_path(trace.module_kernels or [])
    lines: list[tuple[int, trees.Merged | trees.Work]] = []
    for node in kept:
        lines.append((node.depth, node))
        below = trees.below_module(trees.work_of(by_path, node.paths), layout.range_kernels or None)
        lines += [(node.depth + down, work) for down, work in below]
    on_gpu = any(node.device_total_us for node in kept)
    unknown = set() if any(node.backward_device_us for node in kept) else {"backward_device_ns"}
    unknown |= set() if on_gpu else {"occupancy_percent", "tensor_core_percent"}
    if by_path:  # the names need the room, and what is below a module says what is its own
        unknown |= {"occupancy_percent", "tensor_core_percent", "device_self_ns"}
    fields = MODULES.chosen(name for name in MODULES.reports if name not in unknown)
    lost = trees.not_attributed_percent(nodes)
    tree_block = _tree(
        Block(
            MODULES.title, "operators below, kernels marked -" if by_path else MODULES.base, whole=len(nodes),
            shown=len(kept), after=(f"{format_percent(lost)} of GPU time is of no module.",) if lost else (),
            chart=None if by_path else modules_chart(rows, CHART_WIDTH, ascii=layout.ascii),
        ),
        fields, lines, layout,
    )  # fmt: skip
    wide = {"device_self_ns"} if on_gpu else set()
    columns = (replace(at, wide=one.name in wide) for at, one in zip(tree_block.columns, fields, strict=True))
    yield replace(tree_block, columns=tuple(columns))


def range_tree(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Ranges by the ranges around them; left out beside a module tree, and where no range is inside another."""
    rows = trees.tree_rows(trace.range_tree or ())
    has_modules = any(row.class_name for row in trees.tree_rows(trace.modules or ()))
    if not trace.range_tree_kernels and (has_modules or not any(row.depth for row in rows)):
        return
    nodes = trees.merged_ranges(rows)
    kept = trees.largest(nodes, layout.limit)
    by_path = trees.work_by_path(trace.range_tree_kernels or [])
    lines: list[tuple[int, trees.Merged | trees.Work]] = []
    for node in kept:
        lines.append((node.depth, node))
        below = trees.below_range(trees.work_of(by_path, node.paths), layout.range_kernels or None)
        lines += [(node.depth + down, work) for down, work in below]
    elsewhere = any(row.device_meanwhile_us not in (None, row.device_total_us) for row in rows)
    kernels_shown = trace.range_tree_kernels is not UNSET
    # there is no room for both columns and the names
    left_out = {"device_meanwhile_ns"} if not elsewhere else {"device_self_ns"}
    left_out |= {"device_self_ns"} if kernels_shown else set()
    fields = RANGE_TREE.chosen(name for name in RANGE_TREE.reports if name not in left_out)
    yield _tree(
        Block(
            RANGE_TREE.title, "kernels marked -" if kernels_shown else RANGE_TREE.base, whole=len(nodes),
            shown=len(kept), after=(_ANY_THREAD,) if elsewhere else (),
            chart=None if kernels_shown else ranges_chart(rows, CHART_WIDTH, ascii=layout.ascii),
        ),
        fields, lines, layout,
    )  # fmt: skip


_ANY_THREAD = (
    "GPU total: what the range's own thread launched in it. Any thread: what any thread of the program launched while "
    "it was open, which is the time of a backward pass, whose kernels autograd launches."
)


def _tree(
    block: Block, fields: Sequence[Field], lines: Sequence[tuple[int, trees.Merged | trees.Work]], layout: Layout
) -> Block:
    """The block with its columns, the last of which has the labels."""
    cells = [
        [
            *(value_cell(one, getattr(row, one.json_key), ascii=layout.ascii) for one in fields[:-1]),
            layout.text(row.label),
        ]
        for _, row in lines
    ]
    return replace(block, columns=tuple(map(shown, fields)), cells=cells, depths=tuple(depth for depth, _ in lines))
