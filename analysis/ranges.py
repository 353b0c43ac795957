"""Annotations and NVTX ranges by name and as a tree of paths: host time, and the GPU work launched inside them."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import (
    NONE,
    add_up,
    codes_of,
    count,
    dense,
    depth_first,
    inside,
    lanes_of,
    merged_paths,
    path_texts,
    roll_up,
)
from tracetui.analysis.attribution.operator_tree import device_work, scope_mask
from tracetui.analysis.attribution.projection import (
    Projection,
    enclosing,
    in_ranges,
    innermost,
    launched_meanwhile,
    project,
    projected_ns,
    walk,
)
from tracetui.analysis.base import names
from tracetui.analysis.kernels import NOT_IN_ANY_RANGE, kernel_rows, summarize
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Ints
from tracetui.parsers.categories import decode
from tracetui.parsers.links import lookup
from tracetui.parsers.names import kernel_names

COLUMNS = (
    "name", "domain", "style", "instances", "host_total_ns", "gpu_projected_ns", "device_ns", "device_meanwhile_ns",
    "device_self_ns", "gpu_ops", "by_category",
)  # fmt: skip
_NUMBERED_STEP = re.compile(r"ProfilerStep#\d+$")
_HOLD_NOTHING = [schema.RANGE_STYLES.index(name) for name in ("cross_thread", "mark")]
_CATEGORY: dict[str, pl.DataType] = {"category": pl.String(), "calls": pl.Int64(), "ns": pl.Int64()}
_CATEGORY_LIST = pl.List(pl.Struct(_CATEGORY))


def ranges(sel: Selection) -> pl.DataFrame:
    """One row per domain and name of ranges, the most host time first; all ``ProfilerStep#N`` are one.

    GPU work belongs to the ranges around its launch, on the thread that launched it: what autograd launches from its
    own thread is in no range of the main thread. A range contains a launch if the whole call lies within it.

    Returns:
        name, domain (``""`` for none), style (`schema.RANGE_STYLES`; null where they differ or the tool knows none),
        instances, host_total_ns (a range inside another of its name adds its time again).

        ``device_ns`` is the time of the kernels, copies, fills and whole graphs inside, ``gpu_ops`` their number,
        ``by_category`` splits them by kind of work: each counts once, however many ranges of the name are around it.
        ``device_self_ns`` is the time of the work whose innermost range has the name, so this column sums to all GPU
        time. ``gpu_projected_ns`` is, for each instance, the time from its first activity's start to its last one's end
        (as ``nvtx_gpu_proj_sum`` of nsys), summed over instances. ``device_meanwhile_ns`` is the time of what any
        thread of the process launched while a range of the name was open (`launched_meanwhile`). All five are null for
        instants, and for ranges that end on another thread than they began on: their work is not known.

        A last row holds the GPU work that is in no range.
    """
    host = sel.trace.host
    rows = range_rows(host)
    label, names, domains = label_ranges(host, rows)
    size = len(names)
    style = _style_numbers(host, rows)
    holds = ~np.isin(style, _HOLD_NOTHING)
    device = device_work(sel)
    spent = device["duration"].to_numpy()
    # spans begin and end as recorded, together with the ranges that they belong to
    projection = project(host, rows[holds], device_work(sel.recorded))
    inside = _inside(projection, label[holds])
    work = projection.work
    time, ops = np.append(0, np.cumsum(spent[work])), np.arange(work.size + 1)
    node = np.full(host.height + 1, NONE, np.int64)
    node[rows] = label
    own = node[innermost(host, rows[holds], device)]  # no range, -1, reads the spare entry at the end

    holds_range = pl.Series(count(label[holds], size) > 0)
    instances = np.where(scope_mask(sel)[rows], label, NONE)
    measured = {
        "gpu_projected_ns": add_up(label[holds], projected_ns(projection), size),
        "device_ns": inside.sums(time, size),
        "device_meanwhile_ns": launched_meanwhile(sel, rows[holds], label[holds], size)[0],
        "device_self_ns": add_up(own, spent, size),
        "gpu_ops": inside.sums(ops, size),
    }
    frame = pl.DataFrame(
        {
            "name": pl.Series(names, dtype=pl.String),
            "domain": pl.Series(domains, dtype=pl.String),
            "style": _styles(label, style, size),
            "instances": count(instances, size).astype(np.uint32),
            "host_total_ns": add_up(instances, host["duration"].to_numpy()[rows], size),
            **{
                name: pl.select(pl.when(holds_range).then(pl.Series(values))).to_series()
                for name, values in measured.items()
            },
            "by_category": _by_category(inside, device, work, size),
        }
    ).with_columns(pl.col("gpu_ops").cast(pl.UInt32))
    frame = frame.filter((pl.col("instances") > 0) | (pl.col("gpu_ops") > 0))
    frame = frame.sort("host_total_ns", "name", "domain", descending=[True, False, False]).select(COLUMNS)
    lost = own == NONE
    if not frame.height or not lost.any():
        return frame
    return pl.concat([frame, _not_in_any_range(device.filter(pl.Series(lost)), frame.schema)])


class _Inside:
    """What is inside the ranges of each label, as disjoint slices of the work in launch order."""

    def __init__(self, label: Ints, begin: Ints, end: Ints) -> None:
        self.label, self.begin, self.end = label, begin, end

    def sums(self, running: Ints, size: int) -> Ints:
        """Per label, what a running sum grows by within its slices."""
        return add_up(self.label, running[self.end] - running[self.begin], size)


def _inside(projection: Projection, label: Ints) -> _Inside:
    """Joins the slices of ranges with one label, so that what several of them hold counts once."""
    filled = np.flatnonzero(projection.end > projection.begin)
    order = filled[np.lexsort((-projection.end[filled], projection.begin[filled], label[filled]))]
    label, begin, end = label[order], projection.begin[order], projection.end[order]
    # labels are shifted apart, so that one running maximum serves all of them
    base = label * (projection.work.size + 1)
    reached = np.append(NONE, np.maximum.accumulate(base + end)[:-1]) if order.size else base
    begin = np.maximum(base + begin, reached) - base
    kept = begin < end
    return _Inside(label[kept], begin[kept], end[kept])


def range_rows(host: pl.DataFrame) -> Ints:
    """Host rows of all ranges, instants too."""
    kind = host["kind"].to_physical().to_numpy()
    wanted = [schema.HOST_KINDS.index(name) for name in ("annotation", "dataloader")]
    return np.flatnonzero(np.isin(kind, wanted))


def containing_rows(host: pl.DataFrame) -> Ints:
    """Host rows of the ranges that can contain launches: no instants, and none that ends on another thread."""
    rows = range_rows(host)
    return rows[~np.isin(_style_numbers(host, rows), _HOLD_NOTHING)]


def _style_numbers(host: pl.DataFrame, rows: Ints) -> Ints:
    numbers: Ints = host["style"].to_physical().cast(pl.Int64).fill_null(NONE).to_numpy()[rows]
    return numbers


def label_ranges(host: pl.DataFrame, rows: Ints) -> tuple[Ints, list[str], list[str]]:
    """A number per range for its domain and name, and the names and domains of the numbers."""
    name, codes = dense(codes_of(host["name"])[rows])
    domain, domain_codes = dense(codes_of(host["domain"])[rows])
    texts = [_NUMBERED_STEP.sub("ProfilerStep", text) for text in _texts(codes)]
    places = _texts(domain_codes)
    pairs, number = np.unique(domain * max(codes.size, 1) + name, return_inverse=True)
    spelled = [(places[pair // codes.size], texts[pair % codes.size]) for pair in pairs.tolist()]
    shown = list(dict.fromkeys(spelled))
    place = {pair: label for label, pair in enumerate(shown)}
    label = np.array([place[pair] for pair in spelled], np.int64)[number] if spelled else name
    return label, [text for _, text in shown], [domain for domain, _ in shown]


def _texts(codes: Ints) -> list[str]:
    texts: list[str] = decode(codes.astype(np.uint32)).cast(pl.String).to_list()
    return texts


def _styles(label: Ints, style: Ints, size: int) -> pl.Series:
    """The style that all ranges of a label share, else null."""
    low, high = np.full(size, len(schema.RANGE_STYLES)), np.full(size, NONE)
    np.minimum.at(low, label, style)
    np.maximum.at(high, label, style)
    shared = (low == high) & (low >= 0)
    texts = [
        schema.RANGE_STYLES[code] if one else None for code, one in zip(low.tolist(), shared.tolist(), strict=True)
    ]
    return pl.Series(texts, dtype=pl.String)


def _categories(device: pl.DataFrame) -> tuple[list[str], Ints]:
    """The kinds of work there are, and the number of each row's kind."""
    name, codes = dense(codes_of(device["name"]))
    kind = device["kind"].to_physical().to_numpy()
    categories = [kernel_names.category(text) for text in _texts(codes)]
    texts = sorted({*categories, *schema.DEVICE_KINDS})
    of_name = np.array([texts.index(text) for text in categories], np.int64)
    of_kind = np.array([texts.index(text) for text in schema.DEVICE_KINDS], np.int64)
    named = np.isin(kind, [schema.DEVICE_KINDS.index(text) for text in ("kernel", "graph")])
    return texts, np.where(named, of_name[name] if of_name.size else 0, of_kind[kind])


def _by_category(inside: _Inside, device: pl.DataFrame, work: Ints, size: int) -> pl.Series:
    """Calls and device time per category of the work inside each label, the most time first."""
    spent = device["duration"].to_numpy()[work]
    texts, number = _categories(device)
    number = number[work]
    parts = [pl.DataFrame(schema={"label": pl.Int64, **_CATEGORY})]
    for column, text in enumerate(texts):
        chosen = number == column
        if not chosen.any():
            continue
        calls = inside.sums(np.append(0, np.cumsum(chosen)), size)
        time = inside.sums(np.append(0, np.cumsum(np.where(chosen, spent, 0))), size)
        at = np.flatnonzero(calls)
        part = pl.DataFrame({"label": at, "calls": calls[at], "ns": time[at]})
        parts.append(part.select("label", pl.lit(text).alias("category"), "calls", "ns"))
    found = pl.concat(parts).sort("label", "ns", "category", descending=[False, True, False])
    lists = found.group_by("label", maintain_order=True).agg(by_category=pl.struct(*_CATEGORY))
    every = pl.DataFrame({"label": np.arange(size)}).join(lists, on="label", how="left", maintain_order="left")
    return every["by_category"].fill_null(pl.lit([], _CATEGORY_LIST))


def _not_in_any_range(device: pl.DataFrame, layout: pl.Schema) -> pl.DataFrame:
    spent = int(device["duration"].sum())
    everything = np.zeros(1, np.int64)
    recording = _Inside(everything, everything, everything + device.height)
    row = pl.DataFrame(
        {
            "name": [NOT_IN_ANY_RANGE], "domain": [""], "style": [None], "instances": [0], "host_total_ns": [0],
            "gpu_projected_ns": [None], "device_ns": [spent], "device_meanwhile_ns": [None], "device_self_ns": [spent],
            "gpu_ops": [device.height], "by_category": _by_category(recording, device, np.arange(device.height), 1),
        }
    )  # fmt: skip
    return row.cast(layout)


LAYOUT = {
    "path": pl.String(),
    "name": pl.String(),
    "domain": pl.String(),
    "depth": pl.Int64(),
    "calls": pl.Int64(),
    "host_self_ns": pl.Int64(),
    "host_total_ns": pl.Int64(),
    "gpu_projected_ns": pl.Int64(),
    "device_self_ns": pl.Int64(),
    "device_total_ns": pl.Int64(),
    "device_meanwhile_ns": pl.Int64(),
    "gpu_ops": pl.Int64(),
    "number": pl.Int64(),
}
"""The columns of `range_tree`."""


class RangePaths(Struct, frozen=True):
    """Every range that can contain others, and every distinct path among them."""

    rows: Ints
    """The host row of each range, by thread, start, then the longer first."""
    path: Ints
    """The path number of each range."""
    inside_ns: Ints
    """Host time of the ranges directly inside each range, at most its own."""
    parent: Ints
    """For each path, the number of the path above, or -1; a parent's number is smaller than its children's."""
    labels: list[tuple[str, str]]
    """Domain and name of each path's last part."""

    def number_of(self, host_rows: Ints) -> Ints:
        """The path number of each range's row; -1 for none."""
        at = lookup(self.rows, host_rows)
        return np.where(at >= 0, self.path[at], NONE) if self.path.size else at

    def texts(self) -> tuple[list[str], Ints]:
        """``train_step/forward_pass/NCCL:all_reduce`` of each path, and how many are above it."""
        return path_texts(self.parent, (f"{domain}:{name}" if domain else name for domain, name in self.labels))


def range_paths(trace: Trace) -> RangePaths:
    """Gives ranges with the same ranges around them the same path.

    The range around another is the shortest one of its thread that contains all of it. Ranges that overlap without one
    containing the other are siblings. Instants and ranges that end on another thread have no place in a tree.
    """
    host = trace.host
    rows = walk(host, containing_rows(host))
    label, spelled, domains = label_ranges(host, rows)
    start, duration = host["start"].to_numpy()[rows], host["duration"].to_numpy()[rows]
    above = enclosing(lanes_of(host)[rows], start, start + duration)
    path, parent, of_path = merged_paths(above, label, len(spelled))
    labels = [(domains[own], spelled[own]) for own in of_path.tolist()]
    inside = np.minimum(add_up(above, duration, rows.size), duration)
    return RangePaths(rows, path, inside, parent, labels)


def range_tree(sel: Selection) -> pl.DataFrame:
    """One row per path of ranges, depth first, siblings by their first instance; empty where the trace has no ranges.

    ``host_total_ns`` is the duration of the instances, ``host_self_ns`` without ranges directly inside.
    ``device_self_ns`` is the time of the kernels, copies, fills and whole graphs whose launch has this range as the
    innermost around it, ``device_total_ns`` adds that of the ranges inside, ``gpu_ops`` counts both; so nothing counts
    twice. ``device_meanwhile_ns`` is the time of the work that any thread of the process launched while a range of the
    path was open (`launched_meanwhile`): that of a backward pass too, which autograd launches from a thread without
    ranges. ``gpu_projected_ns`` is, for each instance, the time from the start of its first GPU work to the end of its
    last, summed. ``number`` tells the paths apart, for `range_kernels`. A last row holds the GPU work that is in no
    range.
    """
    tree = range_paths(sel.trace)
    size = len(tree.labels)
    if not size:
        return pl.DataFrame(schema=LAYOUT)
    host = sel.trace.host
    duration = host["duration"].to_numpy()[tree.rows]
    called = np.where(scope_mask(sel)[tree.rows], tree.path, NONE)
    device = device_work(sel)
    spent = device["duration"].to_numpy()
    own = tree.number_of(innermost(host, tree.rows, device))
    columns = {
        "calls": count(called, size),
        "host_self_ns": add_up(called, duration - tree.inside_ns, size),
        "host_total_ns": add_up(called, duration, size),
        "gpu_projected_ns": add_up(tree.path, projected_ns(project(host, tree.rows, device_work(sel.recorded))), size),
        "device_self_ns": add_up(own, spent, size),
        "device_total_ns": roll_up(tree.parent, add_up(own, spent, size)),
        "device_meanwhile_ns": launched_meanwhile(sel, tree.rows, tree.path, size)[0],
        "gpu_ops": roll_up(tree.parent, count(own, size)),
    }
    first = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first, tree.path, host["start"].to_numpy()[tree.rows])
    order = depth_first(tree.parent, first)
    texts, depth = tree.texts()
    frame = pl.DataFrame(
        {
            "path": texts,
            "name": [name for _, name in tree.labels],
            "domain": [domain for domain, _ in tree.labels],
            "depth": depth,
            **columns,
            "number": np.arange(size),
        },
        schema=LAYOUT,
    )
    shown = roll_up(tree.parent, columns["calls"] + columns["gpu_ops"]) > 0
    frame = frame[order[shown[order]]]
    lost = own == NONE
    if not frame.height or not lost.any():
        return frame
    row = dict.fromkeys(LAYOUT) | {"path": NOT_IN_ANY_RANGE, "name": NOT_IN_ANY_RANGE, "domain": "", "depth": 0}
    time = int(spent[lost].sum())
    row |= {"calls": 0, "device_self_ns": time, "device_total_ns": time, "gpu_ops": int(lost.sum()), "number": NONE}
    return pl.concat([frame, pl.DataFrame([row], schema=LAYOUT)])


def range_kernels(sel: Selection, number: int) -> pl.DataFrame:
    """The kernels launched inside the ranges of a path (its ``number``), or in none (-1); as in `kernels`."""
    rows, path = range_launches(sel, number)
    del path
    return summarize(sel, rows)


def meanwhile_kernels(sel: Selection, number: int) -> pl.DataFrame:
    """The kernels that any thread launched while a range of a path was open; as in `kernels`."""
    return summarize(sel, meanwhile_launches(sel, number))


def meanwhile_launches(sel: Selection, number: int) -> pl.DataFrame:
    """The kernel rows that any thread launched while a range of a path was open."""
    tree = range_paths(sel.trace)
    rows = kernel_rows(sel)
    return rows.filter(pl.Series(in_ranges(sel, tree.rows[tree.path == number], rows)))


def range_launches(sel: Selection, number: int) -> tuple[pl.DataFrame, list[str]]:
    """The kernel rows of a path and of those below it, and the path that launched each."""
    tree = range_paths(sel.trace)
    rows = kernel_rows(sel)
    own = tree.number_of(innermost(sel.trace.host, tree.rows, rows))
    wanted = np.zeros(len(tree.labels) + 1, np.bool_)
    wanted[number] = True
    if number >= 0:
        wanted[:-1] = inside(tree.parent, wanted[:-1])
    chosen = wanted[own]  # no range, -1, reads the spare entry at the end
    texts = [*tree.texts()[0], NOT_IN_ANY_RANGE]
    return rows.filter(pl.Series(chosen)), [texts[at] for at in own[chosen].tolist()]


def kernel_ranges(sel: Selection, name: str) -> pl.DataFrame:
    """The paths that launch a kernel: path, number, calls, ns, the most time first; no range is -1."""
    tree = range_paths(sel.trace)
    rows = kernel_rows(sel)
    rows = rows.filter(names.matching(rows["name"], name.__eq__))
    own = tree.number_of(innermost(sel.trace.host, tree.rows, rows))
    texts = [*tree.texts()[0], NOT_IN_ANY_RANGE]
    launches = pl.DataFrame({"number": own, "duration": rows["duration"]})
    launches = launches.group_by("number").agg(calls=pl.len().cast(pl.Int64), ns=pl.col("duration").sum())
    path = pl.Series("path", [texts[number] for number in launches["number"].to_list()], dtype=pl.String)
    return launches.select(path, "number", "calls", "ns").sort("ns", "path", descending=[True, False])
