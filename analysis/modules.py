"""The nn.Module tree: host and device time of every module, own and with its children."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, add_up, count, depth_first, inside, roll_up, row_ids
from tracetui.analysis.attribution.module_tree import ModuleTree, module_tree, scope_modules
from tracetui.analysis.attribution.operator_tree import device_work, operator_tree, scope_mask
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.gpu.occupancy import SUMS, kernel_sums, with_shares
from tracetui.analysis.kernels import NOT_ATTRIBUTED, kernel_rows, path_numbers, summarize
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Ints


def modules(sel: Selection, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """One row per path of modules, depth first, siblings by their first call; empty where the trace has no modules.

    ``host_self_ns`` is the calls' duration less that of modules directly inside, ``host_total_ns`` their whole
    duration. ``device_self_ns`` is the time of kernels, copies and fills whose launch has this module as the innermost
    around it; ``device_total_ns`` adds those of modules inside, and ``kernels`` counts them. ``backward_device_ns``
    (modules inside included) is that of kernels launched outside any module for the backward pass of operators which
    ran in this one. ``occupancy_percent`` and ``tensor_core_percent`` are means over the time of the kernels in
    ``device_total_ns``, the former over those whose occupancy is known. ``operators`` counts calls of operators
    directly inside, as torch-tb-profiler does. The last row holds the device time that belongs to no module.

    Compiled programs (XLA) have name scopes instead of modules: their paths begin with the program's name, and what the
    host did is null below it.
    """
    tree = module_tree(sel.trace)
    if not tree.paths:
        return with_shares(_scopes(sel, _frame(tree, np.empty(0, np.int64), {}).schema, conventions))
    size = len(tree.paths)
    calls = tree.calls
    inside = scope_mask(sel)[calls.rows]
    called = np.where(inside, tree.path, NONE)
    device = device_work(sel)
    spent = device["duration"].fill_null(0).to_numpy()
    own = tree.path_of(row_ids(device["module"]))
    backward = np.where(own == NONE, tree.path_of(row_ids(device["forward_module"])), NONE)
    lost = (own == NONE) & (backward == NONE)
    nodes = operator_tree(sel, conventions)
    direct = nodes.tree.of_children((nodes.operator & nodes.in_scope).astype(np.int64))

    sums = kernel_sums(sel.trace, device, conventions)
    columns = {
        "calls": count(called, size),
        "host_self_ns": add_up(called, calls.duration - calls.of_children(calls.duration), size),
        "host_total_ns": add_up(called, calls.duration, size),
        "device_self_ns": add_up(own, spent, size),
        "device_total_ns": roll_up(tree.parent, add_up(own, spent, size)),
        "backward_device_ns": roll_up(tree.parent, add_up(backward, spent, size)),
        "kernels": roll_up(tree.parent, count(own, size)),
        "operators": add_up(np.where(nodes.module, tree.path_of(nodes.tree.rows), NONE), direct, size),
        **{name: roll_up(tree.parent, add_up(own, values, size)) for name, values in sums.items()},
    }
    first = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first, tree.path, calls.start)
    order = depth_first(tree.parent, first)
    shown = roll_up(tree.parent, columns["calls"] + columns["kernels"] + columns["backward_device_ns"]) > 0
    frame = _frame(tree, order[shown[order]], columns)
    return with_shares(
        pl.concat([frame, _not_attributed(sel, device.filter(pl.Series(lost)), frame.schema, conventions)])
    )


def module_kernels(sel: Selection, path: str) -> pl.DataFrame:
    """The kernels that a module and those inside it launched, or that compute their gradients; as in `kernels`."""
    rows = kernel_rows(sel)
    number, tree = path_numbers(sel, rows)
    wanted = inside(tree.parent, np.array([text == path for text in tree.paths], np.bool_))
    wanted = np.append(wanted, path == NOT_ATTRIBUTED)
    return summarize(sel, rows.filter(wanted[number]))  # no module, -1, reads the spare entry at the end


def _scopes(sel: Selection, layout: pl.Schema, conventions: Conventions) -> pl.DataFrame:
    """Name scopes in place of modules; no row where there are none either."""
    device = device_work(sel)
    has_scope = device["scope"].is_not_null()
    if not has_scope.any():
        return pl.DataFrame(schema=layout)
    table = scope_modules(sel, device.filter(has_scope), layout, conventions)
    return pl.concat([table, _not_attributed(sel, device.filter(~has_scope), layout, conventions)])


def _frame(tree: ModuleTree, order: Ints, columns: dict[str, Ints]) -> pl.DataFrame:
    numbers = ("calls", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "backward_device_ns")
    filled = {name: columns.get(name, np.empty(0, np.int64)) for name in (*numbers, "kernels", "operators", *SUMS)}
    return (
        tree.frame()
        .with_columns(depth=tree.depth)
        .with_columns(**{name: pl.Series(values, dtype=pl.Int64) for name, values in filled.items()})
        .select(pl.all().gather(order))
    )


def _not_attributed(sel: Selection, lost: pl.DataFrame, layout: pl.Schema, conventions: Conventions) -> pl.DataFrame:
    spent = int(lost["duration"].fill_null(0).sum())
    row = dict.fromkeys(layout) | {"path": NOT_ATTRIBUTED, "name": NOT_ATTRIBUTED, "depth": 0, "calls": 0}
    row |= {"device_self_ns": spent, "device_total_ns": spent, "backward_device_ns": 0, "kernels": lost.height}
    row |= {name: int(values.sum()) for name, values in kernel_sums(sel.trace, lost, conventions).items()}
    return pl.DataFrame([row], schema=layout)
