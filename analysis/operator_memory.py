"""Which operators allocate: memory taken and given back, own and with what they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, add_up, count, row_ids
from tracetui.analysis.attribution.operator_tree import operator_tree
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.parsers.categories import decode

if TYPE_CHECKING:
    from tracetui.analysis.attribution.operator_tree import OperatorTree
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

DEVICE_TYPES = {0: "CPU", 1: "GPU"}
"""By c10::DeviceType; other devices are left out."""
_GPU = 1
_LAYOUT = {
    "device": pl.String,
    "name": pl.String,
    "calls": pl.UInt32,
    "self_increase_bytes": pl.Int64,
    "increase_bytes": pl.Int64,
    "self_allocations": pl.Int64,
    "allocations": pl.Int64,
    "self_allocated_bytes": pl.Int64,
    "allocated_bytes": pl.Int64,
}


def gpu_memory(sel: Selection, nodes: OperatorTree) -> dict[str, Ints]:
    """What each node itself added to the memory of all GPUs: ``memory`` less what it freed, ``allocated`` without.

    Empty where the recording has no allocator events of a GPU.
    """
    if not (sel.trace.memory["device_type"] == _GPU).any():
        return {}
    rows = sel.memory.filter((pl.col("device_type") == _GPU) & pl.col("operator").is_not_null())
    node, change = _changes(nodes, rows)
    size = nodes.tree.rows.size
    return {"memory": add_up(node, change, size), "allocated": add_up(node, np.maximum(change, 0), size)}


def _changes(nodes: OperatorTree, rows: pl.DataFrame) -> tuple[Ints, Ints]:
    """The node that each allocator event belongs to, -1 for none, and by how many bytes the memory grew."""
    node = nodes.tree.nodes_of(row_ids(rows["operator"]))
    node = np.where((node < 0) | nodes.kept[node], node, nodes.tree.parent[node])
    return node, rows["bytes"].fill_null(0).to_numpy()


def operator_memory(sel: Selection, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """One row per device (``GPU0``, ``CPU``) and operator that allocated or freed, the most allocated first.

    An allocator event belongs to the innermost operator around it. ``increase_bytes`` is what was allocated less what
    was freed, ``allocated_bytes`` only the former, ``allocations`` how often; ``self_…`` leaves out operators inside
    (torch-tb-profiler's memory view, `MemoryParser`). A call inside another of its name adds nothing to the totals.
    """
    nodes = operator_tree(sel, conventions)
    tree, size = nodes.tree, nodes.codes.size
    owned = np.where(nodes.operator, nodes.name, NONE)
    totals = owned if conventions.recursion_counts_again else np.where(tree.outermost(nodes.name), owned, NONE)
    events = sel.memory.filter(pl.col("device_type").is_in(list(DEVICE_TYPES)) & pl.col("operator").is_not_null())
    frames = [pl.DataFrame(schema=_LAYOUT)]
    for (kind, device), rows in events.group_by("device_type", "device", maintain_order=True):
        node, change = _changes(nodes, rows)
        columns: dict[str, object] = {
            "device": [f"GPU{device}" if kind == 1 else "CPU"] * size,
            "name": decode(nodes.codes.astype(np.uint32)).cast(pl.String),
            "calls": count(np.where(nodes.in_scope, owned, NONE), size).astype(np.uint32),
        }
        for what, values in (
            ("increase_bytes", change),
            ("allocations", (change > 0).astype(np.int64)),
            ("allocated_bytes", np.maximum(change, 0)),
        ):
            own = add_up(node, values, tree.rows.size)
            columns[f"self_{what}"] = add_up(owned, own, size)
            columns[what] = add_up(totals, tree.with_descendants(own), size)
        table = pl.DataFrame(columns).select(*_LAYOUT)
        frames.append(table.filter(pl.any_horizontal(pl.col(*list(_LAYOUT)[3:]) != 0)))
    return pl.concat(frames).sort("device", "allocated_bytes", "name", descending=[True, True, False])
