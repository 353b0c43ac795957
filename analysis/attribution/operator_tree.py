"""Operators and modules of a trace as one tree, with the host and device time of every call.

Both the operator table and torch-tb-profiler's module table are sums over this tree.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import (
    CallTree,
    add_up,
    call_tree,
    codes_of,
    count,
    dense,
    parents_of,
    row_ids,
)
from tracetui.analysis.base import names
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.gpu.activities import WORK
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names.kernel_names import TENSOR_CORE_OPERATORS
from tracetui.parsers.nesting import nearest

OPERATOR, MODULE, ANNOTATION, DATALOADER, RUNTIME, DRIVER = (
    schema.HOST_KINDS.index(kind) for kind in ("operator", "module", "annotation", "dataloader", "runtime", "driver")
)


class OperatorTree(Struct, frozen=True):
    """One value per node (a call of an operator or module); times in ns. Device time is that of the scope."""

    tree: CallTree
    name: Ints
    """The name of each node, as a number from 0."""
    codes: Ints
    """The category code of each name number."""
    operator: Bools
    """Nodes that count as operators."""
    module: Bools
    in_scope: Bools
    host_self: Ints
    """Duration minus that of direct children and of the node's own API calls."""
    device_self: Ints
    """Kernels, copies and fills that the node itself launched."""
    kernels: Ints
    """How many."""
    tensor_core_self: Ints
    eligible: Bools
    """Whether the node, or an operator inside it, could use tensor cores or does."""
    device_rows: pl.DataFrame
    """The device activities in scope."""
    device_node: Ints
    """The node that launched each of them, or -1."""
    on_tensor_cores: Bools
    """Which of them use tensor cores."""


def device_work(sel: Selection) -> pl.DataFrame:
    """Device rows in scope that are work: kernels, copies, fills, whole graphs."""
    frame = sel.timed
    kind = frame["kind"].to_physical().to_numpy()
    work = np.isin(kind, [schema.DEVICE_KINDS.index(name) for name in WORK])
    return frame if work.all() else frame.filter(work)


def is_nested(trace: Trace) -> bool:
    """Whether the calls of a recording form the tree of `nesting.nest`, as the reader of Chrome traces leaves them.

    The reader of Nsight Systems' recordings cuts no calls, so they may overlap.
    """
    return trace.info.kind in ("chrome", "jax")


def scope_mask(sel: Selection) -> Bools:
    """Which rows of the whole host frame are in scope: `Selection.host` without copying the frame."""
    start = sel.trace.host["start"].to_numpy()
    mask = sel.begun_in_steps(start) if sel.by_steps else np.ones(start.size, np.bool_)
    if sel.scope.window is not None:
        low, high = sel.scope.window
        mask &= (start < high) & (start + sel.trace.host["duration"].to_numpy() > low)
    return mask


@latest
def operator_tree(sel: Selection, conventions: Conventions = TRACETUI) -> OperatorTree:
    """Builds the tree and hands every API call and device activity in scope to the node that made it."""
    host = sel.trace.host
    kind = host["kind"].to_physical().to_numpy()
    tree = call_tree(host, ("operator", "module"), nested=is_nested(sel.trace))
    node_kind = kind[tree.rows]
    name, codes = dense(codes_of(host["name"])[tree.rows])
    operator, module = node_kind == OPERATOR, node_kind == MODULE
    api, api_node = api_calls(host, kind, tree)
    device = device_work(sel)
    device_node = tree.nodes_of(row_ids(device["operator"]))
    size = tree.rows.size
    spent = device["duration"].fill_null(0).to_numpy()  # ncu may not have measured it
    uses = names.matching(device["name"], conventions.uses_tensor_cores)
    in_api = add_up(api_node, host["duration"].to_numpy()[api], size)
    tensor_self = add_up(device_node, np.where(uses, spent, 0), size)
    could = names.matching(host["name"][tree.rows], TENSOR_CORE_OPERATORS.__contains__)
    could &= node_kind == OPERATOR
    could |= (tensor_self > 0) & (node_kind == OPERATOR)
    return OperatorTree(
        tree=tree,
        name=name,
        codes=codes,
        operator=operator,
        module=module,
        in_scope=scope_mask(sel)[tree.rows],
        host_self=tree.duration - tree.of_children(tree.duration) - in_api,
        device_self=add_up(device_node, spent, size),
        kernels=count(device_node, size),
        tensor_core_self=tensor_self,
        eligible=tree.with_descendants(could.astype(np.int64)) > 0,
        device_rows=device,
        device_node=device_node,
        on_tensor_cores=uses,
    )


def api_calls(host: pl.DataFrame, kind: Ints, tree: CallTree) -> tuple[Ints, Ints]:
    """Rows of API calls and the node each belongs to; one inside another (driver in runtime) counts with it."""
    is_api = (kind == RUNTIME) | (kind == DRIVER)
    rows = np.flatnonzero(is_api)
    parent = parents_of(host)
    above = parent[rows]
    rows = rows[(above < 0) | ~is_api[above]]
    wanted = np.zeros(host.height, np.bool_)
    wanted[tree.rows] = True
    return rows, tree.nodes_of(nearest(parent, wanted, rows))
