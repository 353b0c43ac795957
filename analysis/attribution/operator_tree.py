"""Operators and modules of a trace as one tree, with the host and device time of every call.

Both the operator table and torch-tb-profiler's module table are sums over this tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from tracetui.analysis.attribution.calltree import (
    NONE,
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
from tracetui.analysis.base.conventions import TB_COLLECTIVES, TRACETUI, Conventions
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.gpu.activities import WORK
from tracetui.parsers import Trace, schema
from tracetui.parsers.links import lookup
from tracetui.parsers.nesting import nearest

if TYPE_CHECKING:
    import polars as pl

    from tracetui.analysis.attribution.calltree import Bools
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

OPERATOR, MODULE, ANNOTATION, DATALOADER, RUNTIME, DRIVER = (
    schema.HOST_KINDS.index(kind) for kind in ("operator", "module", "annotation", "dataloader", "runtime", "driver")
)
_TB_NOT_OPERATORS = frozenset({"DataParallel.forward", "DistributedDataParallel.forward"})


class OperatorTree(Struct, frozen=True):
    """One value per node (a call of an operator or module); times in ns. Device time is that of the scope."""

    tree: CallTree
    name: Ints
    """The name of each node, as a number from 0."""
    codes: Ints
    """The category code of each name number."""
    kept: Bools
    """Nodes that stand for themselves; the others were merged into their parent."""
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
    by_id = conventions.operator_link == "external_id"
    extras = _torch_tb_extras(host, kind) if by_id else None
    tree = call_tree(host, ("operator", "module"), extras, nested=is_nested(sel.trace))
    node_kind = kind[tree.rows]
    name, codes = dense(codes_of(host["name"])[tree.rows])
    operator, module = node_kind == OPERATOR, node_kind == MODULE
    if by_id:
        operator &= ~_named(host["name"], tree.rows, _torch_tb_leaves_out)
    api, api_node = _api_calls(host, kind, tree, conventions)
    device = device_work(sel)
    if by_id:
        node_of_api = np.full(host.height + 1, NONE, np.int64)
        node_of_api[api] = api_node
        device_node = node_of_api[row_ids(device["launch"])]  # row -1 is the spare one at the end
    else:
        device_node = tree.nodes_of(row_ids(device["operator"]))

    size = tree.rows.size
    kept = np.ones(size, np.bool_)
    if not conventions.single_child_chains:
        tree, place, kept = _merge_chains(tree, name, operator)
        api_node, device_node = place[api_node], place[device_node]
        operator, module = operator & kept, module & kept
    spent = device["duration"].fill_null(0).to_numpy()  # ncu may not have measured it
    uses = names.matching(device["name"], conventions.uses_tensor_cores)
    tensor_self = add_up(device_node, np.where(uses, spent, 0), size)
    of_children = tree.of_children(np.where(kept, tree.duration, 0))
    could = names.matching(host["name"][tree.rows], conventions.tensor_core_operators.__contains__)
    could &= node_kind == OPERATOR
    could |= (tensor_self > 0) & (node_kind == OPERATOR)
    return OperatorTree(
        tree=tree,
        name=name,
        codes=codes,
        kept=kept,
        operator=operator,
        module=module,
        in_scope=scope_mask(sel)[tree.rows],
        host_self=tree.duration - of_children - add_up(api_node, host["duration"].to_numpy()[api], size),
        device_self=add_up(device_node, spent, size),
        kernels=count(device_node, size),
        tensor_core_self=tensor_self,
        eligible=tree.with_descendants(could.astype(np.int64)) > 0,
        device_rows=device,
        device_node=device_node,
        on_tensor_cores=uses,
    )


def _api_calls(host: pl.DataFrame, kind: Ints, tree: CallTree, conventions: Conventions) -> tuple[Ints, Ints]:
    """Rows of API calls and the node each belongs to; one inside another (driver in runtime) counts with it."""
    is_api = kind == RUNTIME
    if conventions.driver_is_runtime:
        is_api |= kind == DRIVER
    rows = np.flatnonzero(is_api)
    if conventions.operator_link == "external_id":
        ids = host["external_id"].fill_null(NONE).to_numpy()
        module = kind[tree.rows] == MODULE
        node_ids = np.where(module, NONE, ids[tree.rows])
        node = np.where(ids[rows] > 0, lookup(node_ids, ids[rows]), NONE)
        if module.any():  # calls without an id go to the first node without one
            first = np.flatnonzero(module)[tree.start[module].argmin()]
            node[ids[rows] == NONE] = first
        return rows, node
    parent = parents_of(host)
    above = parent[rows]
    rows = rows[(above < 0) | ~is_api[above]]
    wanted = np.zeros(host.height, np.bool_)
    wanted[tree.rows] = True
    return rows, tree.nodes_of(nearest(parent, wanted, rows))


def _merge_chains(tree: CallTree, name: Ints, operator: Bools) -> tuple[CallTree, Ints, Bools]:
    """Merges an operator with its only child where both have the same name, as autograd's profiler does.

    Returns the tree with the children of merged nodes moved up; for each node, the node that its launches now count for
    (with one more entry, for "nowhere"); and which nodes are left. As in `remove_dup_nodes`, the child's API calls
    replace the parent's own, which are dropped.
    """
    size = tree.rows.size
    parent = tree.parent
    only = count(parent, size) == 1
    merged = (parent >= 0) & operator
    above = np.where(merged, parent, 0)
    merged &= only[above] & operator[above] & (name == name[above])
    top = np.where(merged, parent, np.arange(size))
    while True:
        further = top[top]
        if np.array_equal(further, top):
            break
        top = further
    place = np.append(top, NONE)
    place[parent[merged]] = NONE
    up = np.where(parent >= 0, top[np.maximum(parent, 0)], NONE)
    return CallTree(tree.rows, tree.start, tree.duration, up, tree.last), place, ~merged


def _named(column: pl.Series, rows: Ints, predicate: object) -> Bools:
    return names.matching(column[rows], predicate)  # type: ignore[arg-type]


def _torch_tb_leaves_out(name: str) -> bool:
    """Nodes of torch-tb-profiler's tree that its operator table does not list (`is_operator_node`)."""
    return name in _TB_NOT_OPERATORS or name.startswith("Optimizer.")


def _torch_tb_extras(host: pl.DataFrame, kind: Ints) -> Bools:
    """Annotations that stand in torch-tb-profiler's tree between operators (`create_operator_node`)."""
    extra = np.zeros(host.height, np.bool_)
    rows = np.flatnonzero((kind == ANNOTATION) | (kind == DATALOADER))
    extra[rows] = names.matching(
        host["name"][rows],
        lambda name: name in TB_COLLECTIVES or name.startswith(("ProfilerStep#", "Optimizer.step", "enumerate(Data")),
    )
    return extra
