"""Tables of torch-tb-profiler and HolisticTraceAnalysis that nothing of ours shows, made of what our tables rest on."""

import numpy as np
import polars as pl
from other_definitions import Definitions, operator_tree

from tracetui.analysis.attribution.calltree import NONE, add_up, count, row_ids
from tracetui.analysis.base import intervals, names
from tracetui.analysis.gpu.activities import Activities
from tracetui.analysis.host import timings
from tracetui.analysis.kernels import NOT_ATTRIBUTED, size_text
from tracetui.analysis.selection import Selection
from tracetui.parsers.categories import decode
from tracetui.parsers.names.kernel_names import TORCH_TB_TENSOR_CORE_OPERATORS

DEVICE_TYPES = {0: "CPU", 1: "GPU"}
"""By c10::DeviceType; other devices are left out."""
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


def kernel_configurations(sel: Selection, conventions: Definitions) -> pl.DataFrame:
    """One row per kernel name, operator and launch configuration, the most total time first.

    ``tensor_core_eligible`` says whether the operator is known to be able to use tensor cores.
    """
    nodes = operator_tree(sel, conventions)
    node = pl.Series(nodes.device_node)
    owner = pl.select(pl.when(node >= 0).then(node)).to_series()
    listed = sel.trace.host["name"].gather(pl.Series(nodes.tree.rows)).cast(pl.String)
    could = (sel.trace.host["kind"] == "operator").to_numpy()[nodes.tree.rows]
    could &= names.matching(sel.trace.host["name"][nodes.tree.rows], TORCH_TB_TENSOR_CORE_OPERATORS.__contains__)
    rows = nodes.device_rows.with_columns(
        operator=listed.gather(owner).fill_null(NOT_ATTRIBUTED),
        tensor_core_eligible=pl.Series(could).gather(owner).fill_null(value=False),
    ).filter(pl.col("kind").is_in(["kernel", "graph"]))
    spent = pl.col("duration")
    keys = ("name", "operator", "grid", "block", "registers", "shared_memory")
    table = (
        rows.with_columns(size_text("grid"), size_text("block"))
        .group_by(keys)
        .agg(
            calls=pl.len().cast(pl.UInt32),
            total_ns=spent.sum(),
            mean_ns=spent.mean(),
            min_ns=spent.min(),
            max_ns=spent.max(),
            tensor_core_eligible=pl.col("tensor_core_eligible").any(),
            **{column: _weighted(column) for column in ("occupancy_percent", "blocks_per_sm")},
        )
        .with_columns(pl.col("name").cast(pl.String))
    )
    uses = {name: conventions.names.uses_tensor_cores(name) for name in table["name"].unique().to_list()}
    return table.with_columns(
        tensor_cores=pl.Series([uses[name] for name in table["name"].to_list()], dtype=pl.Boolean)
    ).sort("total_ns", *keys, descending=[True, *[False] * len(keys)])


def operator_memory(sel: Selection, conventions: Definitions) -> pl.DataFrame:
    """One row per device (``GPU0``, ``CPU``) and operator that allocated or freed, the most allocated first.

    An allocator event belongs to the innermost operator around it. ``increase_bytes`` is what was allocated less what
    was freed, ``allocated_bytes`` only the former, ``allocations`` how often; ``self_…`` leaves out operators inside
    (torch-tb-profiler's memory view, `MemoryParser`).
    """
    nodes = operator_tree(sel, conventions)
    tree, size = nodes.tree, nodes.codes.size
    owned = np.where(nodes.operator, nodes.name, NONE)
    events = sel.memory.filter(pl.col("device_type").is_in(list(DEVICE_TYPES)) & pl.col("operator").is_not_null())
    frames = [pl.DataFrame(schema=_LAYOUT)]
    for (kind, device), rows in events.group_by("device_type", "device", maintain_order=True):
        node = tree.nodes_of(row_ids(rows["operator"]))
        node = np.where((node < 0) | nodes.kept[node], node, tree.parent[node])
        change = rows["bytes"].fill_null(0).to_numpy()
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
            columns[what] = add_up(owned, tree.with_descendants(own), size)
        table = pl.DataFrame(columns).select(*_LAYOUT)
        frames.append(table.filter(pl.any_horizontal(pl.col(*list(_LAYOUT)[3:]) != 0)))
    return pl.concat(frames).sort("device", "allocated_bytes", "name", descending=[True, True, False])


def utilization_timeline(work: Activities, device: int, window: tuple[int, int]) -> pl.DataFrame:
    """How busy a device's kernels kept it over time: start (ns), utilization_percent.

    The window (the recording) is cut into 11 to 100 buckets of a power of ten microseconds, what is left of it
    belonging to the last one, as in torch-tb-profiler (`calculate_gpu_utilization`).
    """
    size = 1000
    while window[1] - window[0] > 100 * size:
        size *= 10
    count = (window[1] - window[0]) // size
    if count < 1:
        return pl.DataFrame(schema={"start": pl.Int64, "utilization_percent": pl.Float64})
    start = window[0] + size * np.arange(count)
    end = np.append(start[1:], window[1])
    mine = work.where(work.kernel & (work.column("device") == device))
    busy = intervals.covered(intervals.union(mine.start, mine.end), start, end)
    return pl.DataFrame({"start": start, "utilization_percent": 100 * busy / (end - start)})


def by_name(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns name, calls and timings of rows (name, duration), the longest total first."""
    return (
        frame.group_by("name")
        .agg(timings())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("total_ns", "name", descending=[True, False])
    )


def _weighted(column: str) -> pl.Expr:
    """The mean of a column weighted by duration, over the rows that have it; null where none has."""
    weight = pl.col("duration").filter(pl.col(column).is_not_null())
    return pl.when(weight.sum() > 0).then((pl.col(column) * pl.col("duration")).sum() / weight.sum())
