"""The trees of modules and of ranges down to the kernels: what each part launched itself, by operator and kernel.

The rows of a part add up to its own GPU time, so that the tree adds up at every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, row_ids
from tracetui.analysis.attribution.module_tree import module_tree, scope_tree
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.attribution.projection import innermost, open_elsewhere
from tracetui.analysis.base import names
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.gpu.occupancy import SUMS, kernel_sums, with_shares
from tracetui.analysis.kernels import NOT_ATTRIBUTED, NOT_IN_ANY_RANGE, operator_names
from tracetui.analysis.ranges import RangePaths, range_paths
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Ints
from tracetui.parsers.names import kernel_names

KERNELS = ("kernel", "graph")
"""Kinds of GPU work that the tables of kernels count."""
WORK_KEYS = ("operator", "name", "category")


def module_tree_kernels(sel: Selection, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """One row per module, operator and kernel, copy, fill or whole graph that the module itself launched.

    Returns:
        ``path`` as in `modules`, its `NOT_ATTRIBUTED` where no module is known; ``operator``: the innermost around the
        launch (of a compiled program, its operation), or `NOT_ATTRIBUTED`; name, short_name, category (the kind of work
        where it is no kernel), calls; ``operator_calls``: how many calls of the operator launched work there;
        ``device_ns`` and ``backward_device_ns`` as in `modules`, of launches in the module itself, which they add up
        to; ``kernels``: launches in ``device_ns``; occupancy_percent and tensor_core_percent of these, with
        ``kernel_ns`` and ``known_occupancy_ns``. By path, then the longest operator, then the longest kernel.
    """
    device = device_work(sel)
    tree = module_tree(sel.trace)
    if tree.paths:
        own = tree.path_of(row_ids(device["module"]))
        number = np.where(own == NONE, tree.path_of(row_ids(device["forward_module"])), own)
        backward = (own == NONE) & (number != NONE)
        paths = tree.paths
    else:
        known = device["scope"].is_not_null()
        scopes = scope_tree(device.filter(known))
        number, backward = np.full(device.height, NONE, np.int64), np.zeros(device.height, np.bool_)
        number[known.to_numpy()], backward[known.to_numpy()] = scopes.number, scopes.backward & (scopes.number != NONE)
        paths = scopes.paths
    texts = pl.Series([*paths, NOT_ATTRIBUTED], dtype=pl.String)
    forward = ~backward
    sums = kernel_sums(sel.trace, device, conventions)
    rows = _named(device).with_columns(
        texts.gather(np.where(number == NONE, len(paths), number)).alias("path"),
        operator_names(sel, device).cast(pl.String).fill_null(NOT_ATTRIBUTED).alias("operator"),
        device["operator"].alias("call"),
        pl.Series("forward", forward),
        **{name: pl.Series(values * forward) for name, values in sums.items()},
    )
    spent = pl.col("duration").fill_null(0)
    found = (
        rows.with_columns(pl.col("call").n_unique().over("path", "operator").alias("operator_calls"))
        .group_by("path", *WORK_KEYS, "operator_calls", maintain_order=True)
        .agg(
            calls=pl.len().cast(pl.Int64),
            kernels=pl.col("forward").sum().cast(pl.Int64),
            device_ns=spent.filter(pl.col("forward")).sum(),
            backward_device_ns=spent.filter(~pl.col("forward")).sum(),
            **{name: pl.col(name).sum() for name in SUMS},
        )
    )
    both = pl.col("device_ns") + pl.col("backward_device_ns")
    order = pl.DataFrame({"path": texts, "at": range(texts.len())})
    found = found.join(order, on="path", maintain_order="left").with_columns(
        both.alias("ns"), both.sum().over("path", "operator").alias("of")
    )
    found = found.sort("at", "of", "operator", "ns", "name", descending=[False, True, False, True, False])
    return with_shares(_short(found)).select(
        "path", "operator", "name", "short_name", "category", "calls", "operator_calls", "kernels", "device_ns",
        "backward_device_ns", "occupancy_percent", "tensor_core_percent", "kernel_ns", "known_occupancy_ns",
    )  # fmt: skip


def range_tree_kernels(sel: Selection) -> pl.DataFrame:
    """One row per path of ranges and name of the kernels, copies, fills and whole graphs launched directly in it.

    A launch belongs to the innermost range around it on its own thread. Where its thread has none, as autograd's has
    none, it belongs to the range of its process that began last among those open at the time: the kernels of a backward
    pass stand under ``backward_pass``.

    Returns:
        ``path`` and ``number`` as in `range_tree`; name, short_name, category (the kind of work where it is no kernel),
        calls, ``device_ns``: what the range's own thread launched, ``device_meanwhile_ns``: what any thread did. The
        latter sums to all GPU time over the rows; within a path, the most of it first.
    """
    tree, rows, own, owner = _range_work(sel)
    spent = pl.col("duration")
    sums = (
        rows.with_columns(
            number=pl.Series(tree.number_of(owner), dtype=pl.Int64), mine=pl.Series((own >= 0) | (owner == NONE))
        )
        .group_by("number", "name", "category", maintain_order=True)
        .agg(
            calls=pl.len().cast(pl.Int64),
            device_ns=spent.filter(pl.col("mine")).sum(),
            device_meanwhile_ns=spent.sum(),
        )
    )
    texts = [*tree.texts()[0], NOT_IN_ANY_RANGE]
    path = pl.Series("path", [texts[number] for number in sums["number"]], pl.String)
    return (
        _short(sums.with_columns(path))
        .select("path", "number", "name", "short_name", "category", "calls", "device_ns", "device_meanwhile_ns")
        .sort("number", "device_meanwhile_ns", "name", descending=[False, True, False])
    )


def _range_work(sel: Selection) -> tuple[RangePaths, pl.DataFrame, Ints, Ints]:
    """The paths of ranges, the work as `_named`, and for each row the innermost range of its thread, or -1.

    Last the range that it belongs to whichever thread launched it: where its own has none, the one of its process that
    began last among those open at the time.
    """
    tree, device = range_paths(sel.trace), device_work(sel)
    own = innermost(sel.trace.host, tree.rows, device)
    owner = np.where(own >= 0, own, open_elsewhere(sel, tree.rows, device))
    return tree, _named(device).with_columns(pl.col("duration").fill_null(0)), own, owner


def range_own_kernels(sel: Selection) -> pl.DataFrame:
    """One row per range path and kernel, copy, fill or whole graph that it launched itself.

    Unlike in `range_tree_kernels`, what a thread without ranges launched stands under no range too, where the tree
    counts it.

    Returns:
        ``number`` as in `range_tree`; name, short_name, category; ``device_ns`` and ``gpu_ops``: what the range is the
        innermost around, on the launching thread, which add up to the tree's own time; ``device_meanwhile_ns``: what
        belongs to it whichever thread launched it, null for no range; ``calls``: launches of the larger of both.
    """
    tree, rows, own, owner = _range_work(sel)
    keys = ["number", "name", "category"]

    def by(place: Ints, ns: str, count: str) -> pl.DataFrame:
        found = rows.with_columns(number=pl.Series(tree.number_of(place), dtype=pl.Int64)).group_by(keys)
        return found.agg(pl.col("duration").sum().alias(ns), pl.len().cast(pl.Int64).alias(count))

    any_thread = by(owner, "device_meanwhile_ns", "launched").filter(pl.col("number") != NONE)
    found = by(own, "device_ns", "gpu_ops").join(any_thread, on=keys, how="full", coalesce=True)
    in_range = pl.col("number") != NONE
    return _short(
        found.with_columns(
            pl.col("device_ns", "gpu_ops").fill_null(0),
            calls=pl.max_horizontal("gpu_ops", "launched"),
            device_meanwhile_ns=pl.when(in_range).then(pl.col("device_meanwhile_ns").fill_null(0)),
        ).sort("number", "device_ns", "device_meanwhile_ns", "name", descending=[False, True, True, False])
    ).select("number", "name", "short_name", "category", "calls", "gpu_ops", "device_ns", "device_meanwhile_ns")


def modules_to_kernels(tree: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """The table of `modules` with the operators and kernels below each module, behind the modules inside it.

    Args:
        tree: of `modules`.
        work: of `module_tree_kernels`, of the same selection.

    Returns:
        The columns of ``tree``, with ``row_kind`` (module, operator, kernel, or what else ran on the GPU), ``kernel``
        (its whole name), ``operator`` and ``module`` (the path). Where no operator is known there are none.
    """
    layout = {**tree.schema, "row_kind": pl.String(), "module": pl.String(), "operator": pl.String()}
    layout["kernel"] = pl.String()
    by_kernel = pl.col("path").alias("module"), "operator"
    spent = {"device_self_ns": "device_ns", "device_total_ns": "device_ns", "backward_device_ns": "backward_device_ns"}
    kernels = work.select(
        *by_kernel,
        pl.col("name").alias("kernel"),
        pl.concat_str("path", "operator", "name", separator="/").alias("path"),
        pl.col("short_name").alias("name"),
        _kind().alias("row_kind"),
        "calls", "kernels", "occupancy_percent", "tensor_core_percent", "kernel_ns", "known_occupancy_ns",
        **{name: pl.col(of) for name, of in spent.items()},
    )  # fmt: skip
    known = work["operator"].ne(NOT_ATTRIBUTED).any()
    weighted = {
        name: (pl.col(name) * pl.col(of)).sum() / pl.when(pl.col(of).sum() > 0).then(pl.col(of).sum())
        for name, of in (("occupancy_percent", "known_occupancy_ns"), ("tensor_core_percent", "kernel_ns"))
    }
    unclear = (pl.col("tensor_core_percent").is_null() & (pl.col("kernel_ns") > 0)).any()
    operators = (
        work.group_by("path", "operator", maintain_order=True)
        .agg(
            calls=pl.col("operator_calls").first().cast(pl.Int64),
            kernels=pl.col("kernels").sum(),
            occupancy_percent=weighted["occupancy_percent"],
            tensor_core_percent=pl.when(~unclear).then(weighted["tensor_core_percent"]),
            kernel_ns=pl.col("kernel_ns").sum(),
            known_occupancy_ns=pl.col("known_occupancy_ns").sum(),
            **{name: pl.col(of).sum() for name, of in spent.items()},
        )
        .with_columns(
            module="path",
            name="operator",
            path=pl.concat_str("path", "operator", separator="/"),
            row_kind=pl.lit("operator"),
        )
    )
    own = tree.with_columns(row_kind=pl.lit("module"), module="path")
    frame = pl.concat([_laid_out(part, layout) for part in (own, operators.head(operators.height * known), kernels)])
    at = {path: row for row, path in enumerate(tree["path"])}
    below: dict[int, list[int]] = {}
    start = tree.height + operators.height * known
    of_operator: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(work.select("path", "operator").iter_rows(), start):
        of_operator.setdefault(key, []).append(row)
    for row, key in enumerate(operators.select("module", "operator").iter_rows(), tree.height):
        if key[0] in at:
            below.setdefault(at[key[0]], []).extend([row] * known + of_operator[key])
    depths = {"module": 0, "operator": 1}
    deepest = 2 if known else 1
    steps = [depths.get(kind, deepest) for kind in frame["row_kind"]]
    return _woven(frame, tree["depth"].to_list(), below, steps)


def ranges_to_kernels(tree: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """The table of `range_tree` with the kernels below each range, behind the ranges inside it.

    Args:
        tree: of `range_tree`.
        work: of `range_own_kernels`, of the same selection.

    Returns:
        The columns of ``tree``, with ``row_kind`` (range, kernel, or what else ran on the GPU) and ``kernel`` (its
        whole name).
    """
    layout = {**tree.schema, "row_kind": pl.String(), "kernel": pl.String()}
    known = tree["number"].to_list()
    paths = tree.select("number", pl.col("path").alias("of"))
    kernels = work.join(paths, on="number", maintain_order="left").with_columns(
        kernel="name",
        path=pl.concat_str("of", "name", separator="/"),
        name="short_name",
        domain=pl.lit(""),
        row_kind=_kind(),
        device_self_ns="device_ns",
        device_total_ns="device_ns",
    )
    frame = pl.concat([_laid_out(part, layout) for part in (tree.with_columns(row_kind=pl.lit("range")), kernels)])
    at = {number: row for row, number in enumerate(known)}
    below: dict[int, list[int]] = {}
    for row, number in enumerate(kernels["number"], tree.height):
        if number in at:  # a range outside of the steps in scope may be open while these launch
            below.setdefault(at[number], []).append(row)
    return _woven(frame, tree["depth"].to_list(), below, [0] * tree.height + [1] * kernels.height)


def _named(device: pl.DataFrame) -> pl.DataFrame:
    """The rows with their names as text and their category: of a kernel its own, else the kind of work."""
    is_kernel = device["kind"].is_in(list(KERNELS))
    kinds = device["kind"].cast(pl.String)
    category = names.mapped(device["name"], kernel_names.category, "other").zip_with(is_kernel, kinds)
    return device.select("duration", pl.col("name").cast(pl.String)).with_columns(category.alias("category"))


def _short(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.Series("short_name", [kernel_names.short_name(name or "") for name in frame["name"]], pl.String)
    )


def _kind() -> pl.Expr:
    """``kernel``, or what else ran on the GPU, which lists of kernels leave out."""
    other = pl.col("category").is_in(["memcpy", "memset"])
    return pl.when(other).then("category").otherwise(pl.lit("kernel"))


def _laid_out(part: pl.DataFrame, layout: dict[str, pl.DataType]) -> pl.DataFrame:
    return part.select(
        pl.col(name).cast(kind) if name in part.columns else pl.lit(None, kind).alias(name)
        for name, kind in layout.items()
    )


def _woven(
    frame: pl.DataFrame, depths: Sequence[int], below: dict[int, list[int]], steps: Sequence[int]
) -> pl.DataFrame:
    """The rows in tree order: those below a part follow all parts inside it.

    Args:
        frame: the parts, depth first, then what stands below them.
        depths: of the parts.
        below: by part, the rows below it in order.
        steps: how many levels below its part each row of the frame stands.
    """

    def walk() -> Iterator[tuple[int, int]]:
        way: list[int] = []
        for row, depth in enumerate([*depths, -1]):
            while way and depths[way[-1]] >= depth:
                part = way.pop()
                yield from ((each, depths[part] + steps[each]) for each in below.get(part, ()))
            if row < len(depths):
                way.append(row)
                yield row, depth

    order = list(walk())
    placed = frame[[row for row, _ in order]]
    return placed.with_columns(depth=pl.Series([depth for _, depth in order], dtype=pl.Int64))
