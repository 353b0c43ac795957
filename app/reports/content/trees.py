"""The trees of modules and of ranges, made short: instances of one class, and numbered ranges, as one line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import UNSET

from tracetui.analysis.base.number_format import format_percent
from tracetui.analysis.tables.program import MODULES, RANGE_TREE
from tracetui.app.reports.content.charts import modules_chart, ranges_chart
from tracetui.app.reports.layout import WIDTH
from tracetui.app.reports.parts import Block, cell, shown
from tracetui.app.tables.module_tree import merged_tree, merged_work, work_below
from tracetui.app.tables.range_tree import largest, merged_kernels, merged_ranges
from tracetui.app.text.names import told_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.report.model import Trace
    from tracetui.analysis.tables.table import Field
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part
    from tracetui.app.tables.module_tree import MergedModule
    from tracetui.app.tables.range_tree import MergedRange

CHART_WIDTH = WIDTH - 2


def modules(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The module tree with the instances of one class under one parent merged."""
    rows = [row for row in trace.modules or () if row["path"]]
    if not any(row["class_name"] for row in rows):
        return
    tree = merged_tree(rows, layout.limit)
    below = merged_work(_told_apart(trace.module_kernels or ()))
    lines: list[tuple[int, Json]] = []
    for node in tree.shown:
        lines.append((node.depth, _of_module(node)))
        work = work_below(below, node.paths, layout.range_kernels or None) if below else []
        lines += [(node.depth + down, _of_work(row)) for down, row in work]
    kernels_shown = bool(below)
    on_gpu = any(node.device_total_us for node in tree.shown)
    unknown = {"backward_device_ns"} - ({"backward_device_ns"} if tree.has_backward else set())
    unknown |= set() if on_gpu else {"occupancy_percent", "tensor_core_percent"}
    if kernels_shown:  # the names need the room, and what is below a module says what is its own
        unknown |= {"occupancy_percent", "tensor_core_percent", "device_self_ns"}
    fields = MODULES.chosen(name for name in MODULES.reports if name not in unknown)
    lost = tree.not_attributed_percent
    tree_block = _tree(
        Block(
            MODULES.title, "operators below, kernels marked -" if kernels_shown else MODULES.base, whole=tree.whole,
            shown=len(tree.shown), depths=tuple(depth for depth, _ in lines),
            after=(f"{format_percent(lost)} of GPU time is of no module.",) if lost else (),
            chart=None if kernels_shown else modules_chart(trace.modules or (), CHART_WIDTH, ascii=layout.ascii),
        ),
        fields, [row for _, row in lines], layout,
    )  # fmt: skip
    wide = {"device_self_ns"} if on_gpu else set()
    columns = (replace(at, wide=one.name in wide) for at, one in zip(tree_block.columns, fields, strict=True))
    yield replace(tree_block, columns=tuple(columns))


def _of_module(node: MergedModule) -> Json:
    return {
        "device_total_us": node.device_total_us,
        "device_self_us": node.device_self_us,
        "backward_device_us": node.backward_us,
        "host_total_us": node.host_total_us,
        "occupancy_percent": node.occupancy.percent,
        "tensor_core_percent": node.tensor_core.percent,
        "calls": node.calls or None,
        "name": node.label,
    }


def _of_work(row: Json) -> Json:
    """An operator or a kernel below a module; of the host nothing is known there."""
    return {
        "device_total_us": row["device_us"],
        "backward_device_us": row["backward_device_us"],
        "host_total_us": None,
        "calls": row["calls"],
        "name": row["label"],
    }


def range_tree(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Ranges by the ranges around them; left out beside a module tree, and where no range is inside another."""
    rows = trace.range_tree or []
    listed_kernels = trace.range_tree_kernels
    if not (tree_is_shown(trace) or listed_kernels):
        return
    nodes = merged_ranges(rows)
    kept = largest(nodes, layout.limit)
    apart = _told_apart(listed_kernels or ())
    lines: list[tuple[int, Json]] = []
    for node in kept:
        lines.append((node.depth, _of_range(node)))
        kernels = merged_kernels(apart, node.paths)
        lines += [(node.depth + 1, row) for row in _kernel_rows(kernels, layout.range_kernels or None)]
    elsewhere = launched_elsewhere(rows, "device_total_us")
    kernels_shown = listed_kernels is not UNSET
    # there is no room for both columns and the names
    left_out = {"device_meanwhile_ns"} if not elsewhere else {"device_self_ns"}
    left_out |= {"device_self_ns"} if kernels_shown else set()
    fields = RANGE_TREE.chosen(name for name in RANGE_TREE.reports if name not in left_out)
    base = "kernels marked -" if kernels_shown else RANGE_TREE.base
    yield _tree(
        Block(
            RANGE_TREE.title, base, whole=len(nodes), shown=len(kept), depths=tuple(depth for depth, _ in lines),
            after=(_ANY_THREAD,) if elsewhere else (),
            chart=None if kernels_shown else ranges_chart(rows, CHART_WIDTH, ascii=layout.ascii),
        ),
        fields, [row for _, row in lines], layout,
    )  # fmt: skip


_ANY_THREAD = (
    "GPU total: what the range's own thread launched in it. Any thread: what any thread of the program launched while "
    "it was open, which is the time of a backward pass, whose kernels autograd launches."
)


def _told_apart(kernels: Sequence[Json]) -> list[Json]:
    """The rows with short names that differ where the kernels do."""
    told = told_apart(kernels)
    return [{**row, "short_name": told[row["name"]]} for row in kernels]


def _of_range(node: MergedRange) -> Json:
    return {
        "device_total_us": node.device_total_us,
        "device_meanwhile_us": node.device_meanwhile_us,
        "device_self_us": node.device_self_us,
        "host_total_us": node.host_total_us if node.calls else None,
        "calls": node.calls or None,
        "label": node.label,
    }


def _kernel_rows(kernels: Sequence[Json], limit: int | None) -> Iterator[Json]:
    """The first kernels of a range, and the rest as one line."""
    rest = kernels[limit:] if limit else ()
    for row in kernels[: limit or None]:
        yield {
            "device_total_us": row["device_us"],
            "device_meanwhile_us": row["device_meanwhile_us"],
            "host_total_us": None,
            "calls": row["calls"],
            "label": f"- {row['short_name'] or row['name']}",
        }
    if rest:
        keys = {"device_total_us": "device_us", "device_meanwhile_us": "device_meanwhile_us", "calls": "calls"}
        sums = {key: sum(row[of] for row in rest) for key, of in keys.items()}
        yield {**sums, "host_total_us": None, "label": f"- {len(rest)} more"}


def launched_elsewhere(rows: Sequence[Json], own: str) -> bool:
    """Whether other threads launched work while a range was open; otherwise that column repeats `own`."""
    return any(row["device_meanwhile_us"] is not None and row["device_meanwhile_us"] != row[own] for row in rows)


def _tree(block: Block, fields: Sequence[Field], rows: Sequence[Json], layout: Layout) -> Block:
    cells = [[cell(one, row, ascii=layout.ascii) for one in fields] for row in rows]
    return replace(block, columns=tuple(map(shown, fields)), cells=cells)


def tree_is_shown(trace: Trace) -> bool:
    """Whether the tree says more than the list of ranges, and no modules say it better."""
    has_modules = any(row["class_name"] for row in trace.modules or ())
    return any(row["depth"] for row in trace.range_tree or ()) and not has_modules


def shown_ranges(rows: list[Json], limit: int | None) -> list[Json]:
    """The first ranges, and behind them the GPU time that is in none."""
    kept = rows[:limit]
    return kept if rows[-1]["instances"] or len(kept) == len(rows) else [*kept[:-1], rows[-1]]
