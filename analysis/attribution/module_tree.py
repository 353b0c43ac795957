"""Calls of nn.Modules as one tree per thread, and the path of each: the names of the modules around it.

Of compiled programs, where XLA has fused the calls away, the tree of name scopes replaces it. A scope of
`schema.DEVICE` reads ``jit_step/jit(step)/jit(main)/transpose(jvp(MLP))/Dense_0/dot_general``: the program, then JAX's
name stack (`jax.named_scope`, Flax modules), the last part being the primitive.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import (
    NONE,
    CallTree,
    add_up,
    call_tree,
    codes_of,
    count,
    dense,
    depth_first,
    merged_paths,
    parents_of,
    path_texts,
    roll_up,
)
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.base.conventions import Conventions
from tracetui.analysis.base.names import matching
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.gpu.occupancy import kernel_sums
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.categories import decode
from tracetui.parsers.nesting import nearest

PREFIX = "nn.Module: "
AUTOGRAD_TASK = "autograd::engine::evaluate_function: "
"""Stands before the name of a node of the backward graph in the operator that runs it."""
_INSTANCE = re.compile(r"_\d+$")


class ModuleTree(Struct, frozen=True):
    """Every module call, and every distinct path among them."""

    calls: CallTree
    path: Ints
    """The path number of each call."""
    parent: Ints
    """For each path, the number of the enclosing path, or -1; a parent's number is smaller than its children's."""
    names: list[str]
    """``Mamba_3`` of each path."""
    paths: list[str]
    """``VisionMamba_0/Block_1/Mixer_1/Mamba_3`` of each path, as of `path_texts`."""
    depth: Ints
    """How many modules are around each path."""

    def path_of(self, host_rows: Ints) -> Ints:
        """The path number of each module row; -1 for no row."""
        node = self.calls.nodes_of(host_rows)
        if not self.path.size:
            return node
        return np.where(node >= 0, self.path[node], NONE)

    def frame(self) -> pl.DataFrame:
        """One row per path number: path, name, class_name."""
        return _frame(self.paths, self.names)


def _frame(paths: list[str], names: list[str]) -> pl.DataFrame:
    columns = {"path": paths, "name": names, "class_name": [class_name(name) for name in names]}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def class_name(name: str) -> str:
    """``Mamba`` of ``Mamba_3``."""
    return _INSTANCE.sub("", name)


@latest
def module_tree(trace: Trace) -> ModuleTree:
    """Finds all module calls and gives calls with the same modules around them the same path.

    A module called inside itself (recursion) is one level deeper, so its path names it twice.
    """
    calls = call_tree(trace.host, ("module",))
    name, codes = dense(codes_of(trace.host["name"])[calls.rows])
    texts = [text.removeprefix(PREFIX) for text in decode(codes.astype(np.uint32)).cast(pl.String).to_list()]
    path, parent, label = merged_paths(_with_recomputed(trace.host, calls, name, len(texts)), name, len(texts))
    names = [texts[own] for own in label.tolist()]
    return ModuleTree(calls, path, parent, names, *path_texts(parent, names))


def _with_recomputed(host: pl.DataFrame, calls: CallTree, name: Ints, names: int) -> Ints:
    """The call around each call; around one that a backward pass makes again, that around the forward pass's.

    Checkpointing calls a module within autograd, where no module is around it. It is the same instance, so it has the
    same name; one that forward passes call in several places stays apart.
    """
    above: Ints = calls.parent.copy()
    top = np.flatnonzero(above < 0)
    task = matching(host["name"], lambda text: text.startswith(AUTOGRAD_TASK))
    if not top.size or not task.any():
        return above
    again = top[nearest(parents_of(host), task, calls.rows[top]) >= 0]
    forward = np.delete(np.arange(name.size), again)
    pairs = np.unique(
        np.stack([name[forward], merged_paths(above, name, names)[0][forward]]), axis=1, return_index=True
    )
    (named, _), first = pairs
    once = np.bincount(named, minlength=names) == 1
    around = np.full(names, NONE)
    around[named] = above[forward[first]]
    above[again] = np.where(once[name[again]], around[name[again]], NONE)
    return above


_COMPILED = re.compile(r"p?jit\(.*\)$")
_TRANSFORMED = re.compile(r"(transpose|jvp|vmap|remat|checkpoint|custom_jvp|custom_vjp|linearize)\((.*)\)$")
_PROGRAM_CALL = ":XLA GPU module"
"""What XLA adds to a program's name in the host event around its launches."""


class ScopeTree(Struct, frozen=True):
    """The paths of some device rows."""

    paths: list[str]
    """``jit_step/MLP/Dense_0`` of each number; a path's number is larger than that of the path above it."""
    parent: Ints
    """The number of the path above, or -1."""
    number: Ints
    """The path number of each device row; -1 where its program is not known."""
    backward: Bools
    """Which rows compute gradients (``transpose`` in JAX)."""

    def frame(self) -> pl.DataFrame:
        """One row per path number: path, name, class_name."""
        return _frame(self.paths, [path.rpartition("/")[2] for path in self.paths])


def scope_tree(rows: pl.DataFrame) -> ScopeTree:
    """The scopes of these device rows as paths; empty where the source has none."""
    paths: dict[str, int] = {}
    parents: list[int] = []
    codes, distinct = dense(codes_of(rows["scope"]))
    place, backward = np.full(max(distinct.size, 1), NONE, np.int64), np.zeros(max(distinct.size, 1), np.bool_)
    for at, scope in enumerate(decode(distinct.astype(np.uint32)).cast(pl.String).to_list()):
        parts, backward[at] = split_scope(scope)
        above = NONE
        for depth in range(len(parts)):
            path = "/".join(parts[: depth + 1])
            if path not in paths:
                paths[path] = len(parents)
                parents.append(above)
            above = paths[path]
        place[at] = above
    return ScopeTree(list(paths), np.array(parents, np.int64), place[codes], backward[codes])


def split_scope(scope: str) -> tuple[list[str], bool]:
    """Returns (the program and the scopes in it, whether they are of a backward pass).

    Leaves out the primitive, the wrappers of the program itself, and the marks of JAX's transformations.
    """
    program, _, rest = scope.partition("/")
    parts = rest.rpartition(":")[0].split("/") if ":" in rest.rpartition("/")[2] else rest.split("/")
    parts = parts[:-1]
    if parts and _COMPILED.match(parts[0]):
        parts = parts[2 if parts[1:2] == ["jit(main)"] else 1 :]
    backward = False
    scopes = [program] if program else []
    for part in parts:
        while match := _TRANSFORMED.match(part):
            backward |= match[1] == "transpose"
            part = match[2]
        if part:
            scopes.append(part)
    return scopes, backward


def scope_modules(sel: Selection, device: pl.DataFrame, layout: pl.Schema, conventions: Conventions) -> pl.DataFrame:
    """The table of `modules` for scopes: device time per path, depth first, siblings by their first activity.

    What the host did is known only for whole programs, so calls and host time are null below them; no operator is.
    """
    tree = scope_tree(device)
    size = len(tree.paths)
    spent = device["duration"].to_numpy()
    own = np.where(tree.backward, NONE, tree.number)
    back = np.where(tree.backward, tree.number, NONE)
    calls, host = _program_calls(sel, tree)
    order = _by_first_activity(tree, device["start"].fill_null(0).to_numpy())
    sums = kernel_sums(sel.trace, device, conventions)
    columns: dict[str, Ints | pl.Series] = {
        "depth": pl.Series([path.count("/") for path in tree.paths], dtype=pl.Int64),
        "calls": pl.Series(calls, dtype=pl.Int64),
        "host_self_ns": pl.Series([None] * size, dtype=pl.Int64),
        "host_total_ns": pl.Series(host, dtype=pl.Int64),
        "device_self_ns": add_up(own, spent, size),
        "device_total_ns": roll_up(tree.parent, add_up(own, spent, size)),
        "backward_device_ns": roll_up(tree.parent, add_up(back, spent, size)),
        "kernels": roll_up(tree.parent, count(own, size)),
        "operators": pl.Series([None] * size, dtype=pl.Int64),
        **{name: roll_up(tree.parent, add_up(own, values, size)) for name, values in sums.items()},
    }
    filled = {name: pl.Series(values, dtype=pl.Int64) for name, values in columns.items()}
    return tree.frame().with_columns(**filled).select(list(layout))[order]


def _program_calls(sel: Selection, tree: ScopeTree) -> tuple[list[int | None], list[int | None]]:
    """How often the host ran each program and for how long; None for scopes, and where the trace doesn't say."""
    rows = sel.trace.host.filter(pl.Series(scope_mask(sel))).select(pl.col("name").cast(pl.String), "duration")
    rows = rows.filter(pl.col("name").str.ends_with(_PROGRAM_CALL))
    counted = {
        name.removesuffix(_PROGRAM_CALL): (calls, spent)
        for name, calls, spent in rows.group_by("name").agg(pl.len(), pl.col("duration").sum()).iter_rows()
    }
    of_paths = [counted.get(path, (None, None)) for path in tree.paths]
    return [calls for calls, _ in of_paths], [spent for _, spent in of_paths]


def _by_first_activity(tree: ScopeTree, start: Ints) -> Ints:
    """Path numbers, depth first; a path begins with the earliest activity in it or below it."""
    first = np.full(len(tree.paths), np.iinfo(np.int64).max)
    in_scope = tree.number >= 0
    np.minimum.at(first, tree.number[in_scope], start[in_scope])
    for number in range(first.size - 1, -1, -1):
        if tree.parent[number] >= 0:
            first[tree.parent[number]] = min(first[tree.parent[number]], first[number])
    return depth_first(tree.parent, first)
