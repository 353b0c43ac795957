"""Annotations and NVTX ranges: their host time, and the GPU work launched inside them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, add_up, codes_of, count, dense
from tracetui.analysis.attribution.operator_tree import device_work, scope_mask
from tracetui.analysis.attribution.projection import Projection, innermost, launched_meanwhile, project, projected_ns
from tracetui.parsers import schema
from tracetui.parsers.categories import decode
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

NOT_IN_ANY_RANGE = "(not in any range)"
"""The row of GPU work that no range holds: of another thread (autograd's), or launched between ranges."""
COLUMNS = (
    "name", "domain", "style", "instances", "host_total_ns", "gpu_projected_ns", "device_ns", "device_meanwhile_ns",
    "device_self_ns", "gpu_ops", "by_category",
)  # fmt: skip
_NUMBERED_STEP = re.compile(r"ProfilerStep#\d+$")
_HOLD_NOTHING = [schema.RANGE_STYLES.index(name) for name in ("cross_thread", "mark")]
_CATEGORY_LIST = pl.List(pl.Struct({"category": pl.String, "calls": pl.Int64, "ns": pl.Int64}))


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
    found = project(host, rows[holds], device_work(sel.recorded))
    inside = _inside(found, label[holds])
    work = found.work
    time, ops = np.append(0, np.cumsum(spent[work])), np.arange(work.size + 1)
    node = np.full(host.height + 1, NONE, np.int64)
    node[rows] = label
    own = node[innermost(host, rows[holds], device)]  # no range, -1, reads the spare entry at the end

    known = pl.Series(count(label[holds], size) > 0)
    instances = np.where(scope_mask(sel)[rows], label, NONE)
    measured = {
        "gpu_projected_ns": add_up(label[holds], projected_ns(found), size),
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
                name: pl.select(pl.when(known).then(pl.Series(values))).to_series() for name, values in measured.items()
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


def _inside(found: Projection, label: Ints) -> _Inside:
    """Joins the slices of ranges with one label, so that what several of them hold counts once."""
    filled = np.flatnonzero(found.end > found.begin)
    order = filled[np.lexsort((-found.end[filled], found.begin[filled], label[filled]))]
    label, begin, end = label[order], found.begin[order], found.end[order]
    # labels are shifted apart, so that one running maximum serves all of them
    base = label * (found.work.size + 1)
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
    told = [kernel_names.category(text) for text in _texts(codes)]
    texts = sorted({*told, *schema.DEVICE_KINDS})
    of_name = np.array([texts.index(text) for text in told], np.int64)
    of_kind = np.array([texts.index(text) for text in schema.DEVICE_KINDS], np.int64)
    named = np.isin(kind, [schema.DEVICE_KINDS.index(text) for text in ("kernel", "graph")])
    return texts, np.where(named, of_name[name] if of_name.size else 0, of_kind[kind])


def _by_category(inside: _Inside, device: pl.DataFrame, work: Ints, size: int) -> pl.Series:
    """Calls and device time per category of the work inside each label, the most time first."""
    spent = device["duration"].to_numpy()[work]
    texts, number = _categories(device)
    number = number[work]
    lists: list[list[dict[str, object]]] = [[] for _ in range(size)]
    for column, text in enumerate(texts):
        chosen = number == column
        if not chosen.any():
            continue
        calls = inside.sums(np.append(0, np.cumsum(chosen)), size)
        time = inside.sums(np.append(0, np.cumsum(np.where(chosen, spent, 0))), size)
        for label in np.flatnonzero(calls).tolist():
            lists[label].append({"category": text, "calls": int(calls[label]), "ns": int(time[label])})
    for items in lists:
        items.sort(key=lambda item: (-int(str(item["ns"])), str(item["category"])))
    return pl.Series("by_category", lists, dtype=_CATEGORY_LIST)


def _not_in_any_range(device: pl.DataFrame, layout: pl.Schema) -> pl.DataFrame:
    spent = int(device["duration"].sum())
    everything = np.zeros(1, np.int64)
    whole = _Inside(everything, everything, everything + device.height)
    row = pl.DataFrame(
        {
            "name": [NOT_IN_ANY_RANGE], "domain": [""], "style": [None], "instances": [0], "host_total_ns": [0],
            "gpu_projected_ns": [None], "device_ns": [spent], "device_meanwhile_ns": [None], "device_self_ns": [spent],
            "gpu_ops": [device.height], "by_category": _by_category(whole, device, np.arange(device.height), 1),
        }
    )  # fmt: skip
    return row.cast(layout)
