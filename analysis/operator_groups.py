"""Operators by the module they belong to: the same calls and the same GPU work as in the table by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, row_ids
from tracetui.analysis.attribution.module_tree import module_tree
from tracetui.analysis.attribution.operator_tree import operator_tree
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.kernel_groups import labels
from tracetui.analysis.kernels import NOT_ATTRIBUTED, kernel_rows, operator_names, or_null, path_numbers, summarize
from tracetui.parsers.categories import decode

if TYPE_CHECKING:
    from tracetui.analysis.attribution.operator_tree import OperatorTree
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

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
    """One row per group and operator."""
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
    known = (nodes.device_node >= 0) & nodes.operator[owner] if nodes.operator.size else nodes.device_node >= 0
    number = np.where(known, nodes.name[owner], NONE) if nodes.name.size else np.full(nodes.device_node.size, NONE)
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
    found: Ints = values.copy()
    up = parent
    while True:
        open_ = (found == NONE) & (up >= 0)
        if not open_.any():
            return found
        found = np.where(open_, values[np.maximum(up, 0)], found)
        up = np.where(up >= 0, parent[np.maximum(up, 0)], NONE)


def _host_labels(sel: Selection, number: Ints, by: str) -> pl.Series:
    column = module_tree(sel.trace).frame()["path" if by == "module" else "class_name"]
    found: pl.Series = column.replace("", None).gather(or_null(pl.Series(number))).fill_null(NOT_ATTRIBUTED)
    return found


def _shared(table: pl.DataFrame) -> pl.DataFrame:
    whole = pl.col("device_self_ns").sum()
    return table.with_columns(percent=pl.when(whole > 0).then(100 * pl.col("device_self_ns") / whole))
