"""Operators by name or by module: host and device time, what they allocate, and whether they use tensor cores."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import NONE, add_up, codes_of, count, dense, row_ids
from tracetui.analysis.attribution.module_tree import module_tree
from tracetui.analysis.attribution.operator_tree import OperatorTree, operator_tree
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.gpu.occupancy import tensor_cores_known
from tracetui.analysis.kernels import (
    NOT_ATTRIBUTED,
    kernel_rows,
    labels,
    operator_names,
    or_null,
    path_numbers,
    summarize,
)
from tracetui.analysis.selection import Selection
from tracetui.analysis.tables.kernels import UNCLEAR, USES
from tracetui.parsers import schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.categories import decode
from tracetui.parsers.links import lookup
from tracetui.parsers.nesting import nearest

MEMORY = ("memory_self_bytes", "memory_total_bytes", "allocated_self_bytes", "allocated_total_bytes")


def operators(sel: Selection, by_shape: bool = False, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """One row per operator name (and input shapes), the most device time first; without a GPU, the most host time.

    ``host_self_ns`` is the calls' duration less that of operators and modules directly inside and less their own API
    calls; ``host_total_ns`` their whole duration. ``device_self_ns`` is the time of kernels, copies and fills that the
    operator itself launched (several streams add up), ``device_total_ns`` includes operators inside. As in
    torch-tb-profiler (`OperatorNode.fill_stats`), but a call inside one of the same name adds nothing to the totals.
    ``kernels`` counts the activities of ``device_self_ns``, ``percent`` is its share of the device time in scope, and
    ``tensor_core_percent`` the part of it in kernels that use tensor cores.

    ``memory_self_bytes`` is what its own allocator events add on the GPUs, frees subtracted: torch's
    ``self_cuda_memory_usage``; ``memory_total_bytes`` adds those of operators inside, and ``allocated_…_bytes`` leaves
    frees out. They are null where the recording has no allocator events of a GPU.

    What a compiled program (XLA) launches belongs to its operations, which may have no host event at all.
    """
    nodes = operator_tree(sel, conventions)
    label, keys = _labels(nodes, sel.trace.host, by_shape)
    size = len(next(iter(keys.values())))
    called = nodes.operator & nodes.in_scope
    totals = nodes.operator & nodes.tree.outermost(label)
    tree = nodes.tree
    compiled = nodes.device_rows["operation"].is_not_null().to_numpy()
    self_ns, kernels, tensor_core_ns = _launched(nodes, ~compiled)

    def per_label(values: Ints, chosen: Bools) -> Ints:
        return add_up(np.where(chosen, label, -1), values, size)

    held = gpu_memory(sel, nodes)
    frame = pl.DataFrame(
        {
            **keys,
            "calls": count(np.where(called, label, -1), size).astype(np.uint32),
            "host_self_ns": per_label(nodes.host_self, called),
            "host_total_ns": per_label(tree.duration, called & totals),
            "device_self_ns": per_label(self_ns, nodes.operator),
            "device_total_ns": per_label(tree.with_descendants(nodes.device_self), totals),
            "kernels": per_label(kernels, nodes.operator).astype(np.uint32),
            "tensor_core_eligible": count(np.where(nodes.operator & nodes.eligible, label, -1), size) > 0,
            "tensor_core_ns": per_label(tensor_core_ns, nodes.operator),
            "tensor_core_total_ns": per_label(tree.with_descendants(nodes.tensor_core_self), totals),
            **{f"{what}_self_bytes": per_label(own, nodes.operator) for what, own in held.items()},
            **{f"{what}_total_bytes": per_label(tree.with_descendants(own), totals) for what, own in held.items()},
        }
    )
    if compiled.any():
        frame = _with_operations(frame, nodes, compiled)
    if not held:
        frame = frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in MEMORY)
    frame = frame.filter((pl.col("calls") > 0) | (pl.col("kernels") > 0))
    lost = _not_attributed(nodes, frame.schema)
    all_device = nodes.device_rows["duration"].sum()
    names_tell = pl.lit(tensor_cores_known(sel.trace))
    return (
        pl.concat([frame, lost])
        .with_columns(
            percent=_share("device_self_ns", pl.lit(all_device)),
            tensor_core_percent=pl.when(names_tell).then(_share("tensor_core_ns", pl.col("device_self_ns"))),
            tensor_core_total_percent=pl.when(names_tell).then(
                _share("tensor_core_total_ns", pl.col("device_total_ns"))
            ),
        )
        .drop("tensor_core_ns", "tensor_core_total_ns")
        .sort("device_self_ns", "host_self_ns", "name", descending=[True, True, False])
    )


def tensor_core_eligible_percent(sel: Selection, conventions: Conventions = TRACETUI) -> float | None:
    """The share of kernel time that eligible operators launched, of all kernel time that operators launched.

    Each kernel counts once: with the innermost eligible operators, those that have no other inside
    (`_get_tc_eligible_ops_kernel_ratio` of torch-tb-profiler). None without such kernels.
    """
    nodes = operator_tree(sel, conventions)
    kernel = nodes.device_rows["kind"].to_physical().to_numpy() == schema.DEVICE_KINDS.index("kernel")
    node = np.where(kernel, nodes.device_node, -1)
    spent = add_up(node, nodes.device_rows["duration"].fill_null(0).to_numpy(), nodes.tree.rows.size)
    inside = nodes.tree.of_children(nodes.eligible.astype(np.int64)) > 0
    total = int(spent[nodes.operator].sum())
    return 100 * int(spent[nodes.eligible & ~inside].sum()) / total if total else None


def _launched(nodes: OperatorTree, chosen: Bools) -> tuple[Ints, Ints, Ints]:
    """Time, number and time on tensor cores of the chosen device activities that each node launched itself."""
    if chosen.all():
        return nodes.device_self, nodes.kernels, nodes.tensor_core_self
    node, size = np.where(chosen, nodes.device_node, -1), nodes.tree.rows.size
    spent = nodes.device_rows["duration"].fill_null(0).to_numpy()
    return add_up(node, spent, size), count(node, size), add_up(node, np.where(nodes.on_tensor_cores, spent, 0), size)


def _with_operations(frame: pl.DataFrame, nodes: OperatorTree, compiled: Bools) -> pl.DataFrame:
    """Adds what the operations of compiled programs launched: to the row of their name, else to one of their own.

    A total already holds what was launched inside a host event of the operation's name.
    """
    rows, node = nodes.device_rows.filter(compiled), nodes.device_node[compiled]
    number = lookup(nodes.codes, rows["operation"].to_physical().to_numpy().astype(np.int64))
    within = np.zeros(node.size, np.bool_)
    while (node >= 0).any():
        within |= (node >= 0) & (nodes.name[node] == number)
        node = np.where(node >= 0, nodes.tree.parent[node], -1)
    spent, on_tensor_cores = pl.col("duration"), pl.Series(nodes.on_tensor_cores[compiled])
    operations = (
        rows.select(
            pl.col("operation").cast(pl.String).alias("name"),
            "duration",
            outside=pl.Series(~within),
            uses=on_tensor_cores,
        )
        .group_by("name")
        .agg(
            device_self_ns=spent.sum(),
            device_total_ns=spent.filter("outside").sum(),
            kernels=pl.len().cast(pl.UInt32),
            tensor_core_ns=spent.filter("uses").sum(),
            tensor_core_total_ns=spent.filter(pl.col("uses") & pl.col("outside")).sum(),
            tensor_core_eligible=pl.col("uses").any(),
        )
    )
    missing = [
        pl.lit(0 if dtype.is_numeric() else None, dtype).alias(name)
        for name, dtype in frame.schema.items()
        if name not in operations.columns
    ]
    table = pl.concat([frame, operations.with_columns(missing).select(frame.columns)])
    keys = [name for name in ("name", "input_shapes") if name in frame.columns]
    flags = pl.col("tensor_core_eligible").any()
    numbers = [pl.col(name).sum() for name in frame.columns if name not in (*keys, "tensor_core_eligible")]
    return table.group_by(keys, maintain_order=True).agg(*numbers, flags).select(frame.columns).cast(frame.schema)


def _labels(nodes: OperatorTree, host: pl.DataFrame, by_shape: bool) -> tuple[Ints, dict[str, pl.Series]]:
    """A number from 0 per node for its name (and shapes), and what each number stands for."""
    name = decode(nodes.codes.astype(np.uint32)).cast(pl.String)
    if not by_shape:
        return nodes.name, {"name": name}
    shape, shapes = dense(codes_of(host["input_shapes"])[nodes.tree.rows])
    width = max(shapes.size, 1)
    both, label = np.unique(nodes.name * width + shape, return_inverse=True)
    texts = decode(shapes.astype(np.uint32)).cast(pl.String).replace("", None)
    return label.astype(np.int64), {"name": name.gather(both // width), "input_shapes": texts.gather(both % width)}


def _not_attributed(nodes: OperatorTree, layout: pl.Schema) -> pl.DataFrame:
    """The row of the device time that no operator launched; none where there is no such time."""
    owned = np.zeros(nodes.device_node.size, np.bool_)
    has_node = nodes.device_node >= 0
    owned[has_node] = nodes.operator[nodes.device_node[has_node]]
    left = nodes.device_rows.filter(~owned & nodes.device_rows["operation"].is_null().to_numpy())
    if not left.height:
        return pl.DataFrame(schema=layout)
    spent = left["duration"].sum()
    row: dict[str, object] = {**dict.fromkeys(layout, 0), "tensor_core_eligible": False}
    row |= {"name": NOT_ATTRIBUTED, "device_self_ns": spent, "device_total_ns": spent, "kernels": left.height}
    row |= dict.fromkeys(MEMORY)
    if "input_shapes" in layout:
        row["input_shapes"] = None
    return pl.DataFrame([row], schema=layout)


def _share(part: str, whole: pl.Expr) -> pl.Expr:
    """The column in percent of the whole; null where the whole is 0."""
    return pl.when(whole > 0).then(100 * pl.col(part) / whole)


_GPU = 1


def gpu_memory(sel: Selection, nodes: OperatorTree) -> dict[str, Ints]:
    """What each node itself added to the memory of all GPUs: ``memory`` less what it freed, ``allocated`` without.

    Empty where the recording has no allocator events of a GPU.
    """
    if not (sel.trace.memory["device_type"] == _GPU).any():
        return {}
    rows = sel.memory.filter((pl.col("device_type") == _GPU) & pl.col("operator").is_not_null())
    node = nodes.tree.nodes_of(row_ids(rows["operator"]))
    change = rows["bytes"].fill_null(0).to_numpy()
    size = nodes.tree.rows.size
    return {"memory": add_up(node, change, size), "allocated": add_up(node, np.maximum(change, 0), size)}


GROUPINGS = ("name", "input_shapes", "class", "module")
"""What operators can be grouped by; the first two are `operators.operators`."""


def operator_groups(sel: Selection, by: str, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """One row per module (or class of modules), the most device time first; without a GPU, the most host time.

    Calls and host time are of the innermost module around the call; of a backward pass, the module around the forward
    operator. Device time is of the module that `kernels` gives the work. What belongs to no module forms a group of its
    own.

    Args:
        sel: the calls and the work.
        by: ``module`` or ``class``.
        conventions: whose definitions the times follow.

    Returns:
        ``group``, ``operators`` (how many names), ``name`` (the operator with most of its device time, else host time),
        calls, host_self_ns, device_self_ns, kernels, percent (of all device time in scope).
    """
    parts = _parts(sel, by, conventions)
    table = parts.group_by("group").agg(
        pl.col("name").filter(pl.col("name") != NOT_ATTRIBUTED).n_unique().alias("operators"),
        pl.col("name").sort_by("device_self_ns", "host_self_ns", "name", descending=[True, True, False]).first(),
        pl.col("calls", "host_self_ns", "device_self_ns", "kernels").sum(),
    )
    return _shared(table).sort("device_self_ns", "host_self_ns", "group", descending=[True, True, False])


def group_operators(sel: Selection, by: str, group: str, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """The operators of a group: name, calls, host_self_ns, device_self_ns, kernels; percent is of the group's time."""
    parts = _parts(sel, by, conventions).filter(group=group).drop("group")
    return _shared(parts).sort("device_self_ns", "host_self_ns", "name", descending=[True, True, False])


def group_operator_kernels(sel: Selection, by: str, group: str, name: str) -> pl.DataFrame:
    """The kernels that an operator launched in a group, as in `kernels.kernels`."""
    return summarize(sel, group_operator_rows(sel, by, group, name))


def group_operator_rows(sel: Selection, by: str, group: str, name: str) -> pl.DataFrame:
    """The kernel rows that an operator launched in a group; ``by`` may be ``input_shapes`` too."""
    rows = kernel_rows(sel)
    mine = labels(sel, rows, by) == group
    return rows.filter(mine & (operator_names(sel, rows).cast(pl.String).fill_null(NOT_ATTRIBUTED) == name))


def known_groupings(sel: Selection) -> tuple[str, ...]:
    """The groupings that this recording says something about."""
    shapes = sel.trace.host["input_shapes"]
    device = path_numbers(sel, sel.device)[0]
    known = {
        "name": True,
        "input_shapes": shapes.null_count() < shapes.len(),
        "class": bool(module_tree(sel.trace).paths) or bool((device >= 0).any()),
    }
    return tuple(by for by in GROUPINGS if known["class" if by == "module" else by])


def _parts(sel: Selection, by: str, conventions: Conventions) -> pl.DataFrame:
    nodes = operator_tree(sel, conventions)
    called = np.flatnonzero(nodes.operator & nodes.in_scope)
    number = _paths_of(sel, nodes)[called]
    names = decode(nodes.codes.astype(np.uint32)).cast(pl.String)
    host = pl.DataFrame(
        {
            "group": _host_labels(sel, number, by),
            "name": names.gather(nodes.name[called]),
            "host_self_ns": nodes.host_self[called],
        }
    )
    host = host.group_by("group", "name").agg(calls=pl.len().cast(pl.Int64), host_self_ns=pl.col("host_self_ns").sum())
    rows = nodes.device_rows
    device = pl.DataFrame({"group": labels(sel, rows, by), "name": _launched_by(nodes), "ns": rows["duration"]})
    device = device.group_by("group", "name").agg(
        device_self_ns=pl.col("ns").fill_null(0).sum(), kernels=pl.len().cast(pl.Int64)
    )
    return host.join(device, on=["group", "name"], how="full", coalesce=True).with_columns(
        pl.col("calls", "host_self_ns", "device_self_ns", "kernels").fill_null(0)
    )


def _launched_by(nodes: OperatorTree) -> pl.Series:
    """The operator of each device row, as the table by name has it: its compiled operation, else its node's."""
    names = decode(nodes.codes.astype(np.uint32)).cast(pl.String)
    owner = np.where(nodes.device_node >= 0, nodes.device_node, 0)
    has_operator = (nodes.device_node >= 0) & nodes.operator[owner] if nodes.operator.size else nodes.device_node >= 0
    number = (
        np.where(has_operator, nodes.name[owner], NONE) if nodes.name.size else np.full(nodes.device_node.size, NONE)
    )
    operation = nodes.device_rows["operation"].cast(pl.String)
    launched = names.gather(or_null(pl.Series(number, dtype=pl.Int64)))
    return pl.select(pl.coalesce(operation, launched, pl.lit(NOT_ATTRIBUTED))).to_series()


def _paths_of(sel: Selection, nodes: OperatorTree) -> Ints:
    """The module path number of each node, -1 for none: of the module around it, else around its forward operator."""
    tree, size = nodes.tree, nodes.tree.rows.size
    path = np.where(nodes.module, module_tree(sel.trace).path_of(tree.rows), NONE)
    around = _inherited(path, tree.parent)
    forward = row_ids(sel.trace.host["forward"])[tree.rows]
    origin = tree.nodes_of(_inherited(forward, tree.parent))
    of_forward = np.where(origin >= 0, around[np.maximum(origin, 0)], NONE) if size else around
    return np.where(around == NONE, of_forward, around)


def _inherited(values: Ints, parent: Ints) -> Ints:
    """Each node's value, or that of its nearest ancestor that has one."""
    at = nearest(parent, values != NONE, np.arange(values.size))
    return np.append(values, NONE)[at]


def _host_labels(sel: Selection, number: Ints, by: str) -> pl.Series:
    column = module_tree(sel.trace).frame()["path" if by == "module" else "class_name"]
    named: pl.Series = column.replace("", None).gather(or_null(pl.Series(number))).fill_null(NOT_ATTRIBUTED)
    return named


def _shared(table: pl.DataFrame) -> pl.DataFrame:
    total = pl.col("device_self_ns").sum()
    return table.with_columns(percent=pl.when(total > 0).then(100 * pl.col("device_self_ns") / total))


class TensorCores(Struct, frozen=True):
    """The kernels of a table, by whether they use tensor cores; shares are of its kernel time."""

    kernels: int
    """How many of the kernels use them."""
    percent: float | None
    """Null without any kernel time, and on devices that are no known GPUs."""
    unclear: int
    """How many are matrix work of which nothing tells whether they do."""
    unclear_percent: float | None
    eligible_percent: float | None
    """Kernel time that operators launched which could use them, of what all operators launched: torch-tb-profiler's
    "eligible". Null where no operator launched a kernel, and for programs of which no such operators are known."""


def tensor_cores(sel: Selection, table: pl.DataFrame, conventions: Conventions = TRACETUI) -> TensorCores:
    """Sums up a table of `kernels.kernels` made under these conventions.

    Args:
        sel: the selection of which the table is.
        table: its kernels.
        conventions: what names and counters tell.
    """
    marks = tensor_marks(table, conventions)
    uses, unclear = marks == USES, marks == UNCLEAR
    spent = table["total_ns"].fill_null(0)
    total = int(spent.sum())

    names_tell = tensor_cores_known(sel.trace)

    def share(chosen: pl.Series) -> float | None:
        return 100 * int(spent.filter(chosen).sum()) / total if total and names_tell else None

    knows = sel.trace.info.kind == "chrome" and names_tell
    eligible = tensor_core_eligible_percent(sel, conventions) if knows else None
    return TensorCores(int(uses.sum()), share(uses), int(unclear.sum()), share(unclear), eligible)


def tensor_marks(table: pl.DataFrame, conventions: Conventions = TRACETUI) -> pl.Series:
    """The sign of each kernel: `USES`, `UNCLEAR`, or nothing."""
    if "tensor_cores" in table.columns and table.height and table["tensor_cores"].null_count() == table.height:
        return pl.Series("tensor_mark", [""] * table.height, pl.String)  # of this device's kernels no name tells
    names = table["name"].cast(pl.String).to_list()
    signs = [
        USES if conventions.uses_tensor_cores(name) else UNCLEAR if conventions.tensor_cores_unclear(name) else ""
        for name in names
    ]
    return pl.Series("tensor_mark", signs, pl.String)
