"""Annotations and NVTX ranges: their host time, and the GPU work launched inside them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.calltree import NONE, CallTree, add_up, call_tree, codes_of, count, dense, row_ids
from tracetui.analysis.operator_tree import device_work, scope_mask
from tracetui.parsers import kernel_names
from tracetui.parsers.categories import decode

if TYPE_CHECKING:
    from tracetui.analysis.intervals import Ints
    from tracetui.analysis.selection import Selection

_NUMBERED_STEP = re.compile(r"ProfilerStep#\d+$")
_NEVER, _EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def ranges(sel: Selection) -> pl.DataFrame:
    """One row per range name, the most host time first; all ``ProfilerStep#N`` are one.

    GPU work belongs to the ranges around its launch, on the thread that launched it: what autograd launches from its
    own thread is in no range of the main thread. ``device_ns`` is the time of kernels, copies and fills, ``gpu_ops``
    their number, ``by_category`` splits them by kind of work. ``gpu_projected_ns`` is, for each instance, the time
    from its first activity's start to its last one's end (as ``nvtx_gpu_proj_sum`` of nsys), summed over instances.
    A range inside another of its name adds host and projected time again, but no device time.
    """
    tree = call_tree(sel.trace.host, ("annotation", "dataloader"))
    host_name, codes = dense(codes_of(sel.trace.host["name"])[tree.rows])
    texts = [_NUMBERED_STEP.sub("ProfilerStep", text) for text in decode(codes.astype(np.uint32)).cast(pl.String)]
    shown = list(dict.fromkeys(texts))
    place = {text: number for number, text in enumerate(shown)}
    label = np.array([place[text] for text in texts], np.int64)[host_name] if texts else host_name
    size = len(shown)

    device = device_work(sel)
    node = tree.nodes_of(row_ids(device["range"]))
    start = device["start"].to_numpy()
    spent = device["duration"].to_numpy()
    instances = np.where(scope_mask(sel)[tree.rows], label, NONE)
    outermost = tree.outermost(label)
    once = np.where(outermost, label, NONE)
    frame = pl.DataFrame(
        {
            "name": pl.Series(shown, dtype=pl.String),
            "domain": pl.Series([""] * size, dtype=pl.String),  # record_function has none, as NVTX's default
            "instances": count(instances, size).astype(np.uint32),
            "host_total_ns": add_up(instances, tree.duration, size),
            "gpu_projected_ns": add_up(label, _projected(tree, node, start, start + spent), size),
            "device_ns": add_up(once, tree.with_descendants(add_up(node, spent, tree.rows.size)), size),
            "gpu_ops": add_up(once, tree.with_descendants(count(node, tree.rows.size)), size).astype(np.uint32),
        }
    )
    categories = _by_category(tree, once, node, device)
    lists = pl.Series("by_category", [categories.get(number, []) for number in range(size)], dtype=_CATEGORY_LIST)
    return (
        frame.with_columns(lists)
        .filter((pl.col("instances") > 0) | (pl.col("gpu_ops") > 0))
        .sort("host_total_ns", "name", descending=[True, False])
    )


_CATEGORY_LIST = pl.List(pl.Struct({"category": pl.String, "calls": pl.Int64, "ns": pl.Int64}))


def _projected(tree: CallTree, node: Ints, start: Ints, end: Ints) -> Ints:
    """For each range, the time from the first start to the last end of the work inside it."""
    first, last = np.full(tree.rows.size, _EVER), np.full(tree.rows.size, _NEVER)
    known = node >= 0
    while known.any():  # one round per level of nesting
        at = node[known]
        np.minimum.at(first, at, start[known])
        np.maximum.at(last, at, end[known])
        node = np.where(known, tree.parent[np.maximum(node, 0)], NONE)
        known = node >= 0
    return np.where(last > first, last - first, 0)


def _by_category(tree: CallTree, once: Ints, node: Ints, device: pl.DataFrame) -> dict[int, list[dict[str, object]]]:
    """Calls and device time per category of the work inside each label, the most time first."""
    kind = device["kind"].cast(pl.String)
    name = device["name"].cast(pl.String)
    found = {text: kernel_names.category(text) for text in name.unique().drop_nulls().to_list()}
    work = pl.DataFrame({"kind": kind, "category": name.replace_strict(found, default="other", return_dtype=pl.String)})
    category = work.select(pl.when(pl.col("kind").is_in(["kernel", "graph"])).then("category").otherwise("kind"))
    texts, number = np.unique(category.to_series().to_list(), return_inverse=True)
    calls = np.zeros((max(int(once.max(initial=0)) + 1, 1), max(texts.size, 1)), np.int64)
    spent = calls.copy()
    duration = device["duration"].to_numpy()
    known = node >= 0
    while known.any():
        row = np.where(known, once[np.maximum(node, 0)], NONE)
        taken = row >= 0
        np.add.at(calls, (row[taken], number[taken]), 1)
        np.add.at(spent, (row[taken], number[taken]), duration[taken])
        node = np.where(known, tree.parent[np.maximum(node, 0)], NONE)
        known = node >= 0
    lists: dict[int, list[dict[str, object]]] = {}
    for label, column in zip(*(axis.tolist() for axis in np.nonzero(calls)), strict=True):
        item = {"category": str(texts[column]), "calls": int(calls[label, column]), "ns": int(spent[label, column])}
        lists.setdefault(label, []).append(item)
    for items in lists.values():
        items.sort(key=lambda item: (-int(str(item["ns"])), str(item["category"])))
    return lists
