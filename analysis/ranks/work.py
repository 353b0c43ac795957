"""What a rank did in each step, by name: where its excess over the median rank comes from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals, names
from tracetui.analysis.ranks.own_work import own_work
from tracetui.analysis.ranks.silence import loading, silent
from tracetui.analysis.ranks.summary import WORK
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.parsers import Trace

WHOLE = -1
MOST = 10
"""Names of a kind that are kept, those of most time in the whole recording; the rest is one row."""
COLLECTION = re.compile(
    r"^(GC:|Python GC|python_gc)|\bgc\.(collect|freeze)\b|\bgarbage[ _]collect|^<built-in function collect>$",
    re.IGNORECASE,
)
"""Ranges and functions that collect garbage: nsys, torch.profiler, Python's own, which is a function of ``gc``."""
ENCLOSES = 0.5
"""A range names a silent stretch that it holds so much of."""


def work_rows(trace: Trace) -> pl.DataFrame:
    """The work (`summary.WORK`) of each step, or of the whole recording where it has none (`WHOLE`)."""
    parts = [*_gpu_parts(trace), *_host_parts(trace)]
    if not parts:
        return pl.DataFrame(schema=WORK)
    frame = pl.concat(parts).group_by("step", "kind", "name").agg(*_SUMS)
    total = pl.col("ns").sum().over("kind", "name")
    place = pl.struct(-total, "name").rank("dense").over("kind")
    kept = frame.with_columns(name=pl.when(place <= MOST).then("name").otherwise(pl.lit("")))
    summed = kept.group_by("step", "kind", "name").agg(*_SUMS)
    order = summed.sort("step", "kind", "ns", "name", descending=[False, False, True, False])
    return order.select(pl.col(name).cast(dtype) for name, dtype in WORK.items())


_SUMS = (
    pl.col("ns", "count").sum(),
    pl.when(pl.col("blocks").count() > 0).then(pl.col("blocks").sum()).alias("blocks"),
)


def _gpu_parts(trace: Trace) -> list[pl.DataFrame]:
    """GPU work by range, module and kernel."""
    work = own_work(trace)
    if not work.row.size:
        return []
    rows = trace.device[work.row.tolist()]
    step = _steps_of(trace, rows)
    kernel = rows["kind"].is_in(["kernel", "graph"])
    module = rows["module"].zip_with(rows["module"].is_not_null(), rows["forward_module"])
    named = {
        "gpu_range": _named(trace, rows["range"], steps=True),
        "gpu_module": _named(trace, module),
        "kernel": names.mapped(rows["name"], short_name, None).set(~kernel, None),
        "copy": rows["name"].cast(pl.String).set(kernel, None),
    }
    duration = pl.Series("ns", work.duration)
    grid = rows["grid"].cast(pl.Array(pl.Int64, 3))
    blocks = pl.select(grid.arr.get(0) * grid.arr.get(1) * grid.arr.get(2)).to_series()
    found = []
    for kind, name in named.items():
        sizes = blocks if kind == "kernel" else pl.Series([None], dtype=pl.Int64).new_from_index(0, rows.height)
        frame = pl.DataFrame({"step": step, "name": name, "ns": duration, "blocks": sizes}).drop_nulls("name")
        if frame.height:
            found.append(_summed(frame, kind))
    return found


def _steps_of(trace: Trace, rows: pl.DataFrame) -> pl.Series:
    if not trace.steps.height:
        return pl.repeat(WHOLE, rows.height, dtype=pl.Int64, eager=True)
    return trace.steps["index"].gather(rows["step"])


def _named(trace: Trace, host_rows: pl.Series, *, steps: bool = False) -> pl.Series:
    """The names of host rows; null for null and for marks of steps."""
    found: pl.Series = trace.host["name"].gather(host_rows.fill_null(0)).cast(pl.String).set(host_rows.is_null(), None)
    if steps:
        marks = found.str.starts_with("ProfilerStep") | found.is_in(trace.steps["name"].implode())
        found = found.set(marks.fill_null(value=False), None)
    return found


def _summed(frame: pl.DataFrame, kind: str) -> pl.DataFrame:
    summed = frame.group_by("step", "name").agg(
        pl.col("ns").sum().cast(pl.Int64),
        count=pl.len().cast(pl.Int64),
        blocks=pl.when(pl.col("blocks").count() > 0).then(pl.col("blocks").sum()),
    )
    return summed.select("step", pl.lit(kind).alias("kind"), "name", "ns", "count", "blocks")


def _host_parts(trace: Trace) -> list[pl.DataFrame]:
    """Silence, the loader and garbage collection."""
    found = []
    collected = names.matching(trace.host["name"], lambda name: COLLECTION.search(name) is not None)
    start = trace.host["start"].to_numpy()[collected]
    spans = intervals.union(start, start + trace.host["duration"].fill_null(0).to_numpy()[collected])
    begun = trace.steps["start"].to_numpy()
    steps = intervals.union(begun, begun + trace.steps["duration"].to_numpy())
    for kind, whole in (("silent", silent(trace)), ("loader", loading(trace)), ("collection", spans)):
        # what follows the last step, as the profiler's own end, is no work of it
        stretches = intervals.intersect(whole, steps) if begun.size else whole
        if not stretches[0].size:
            continue
        name = _around(trace, stretches) if kind == "silent" else [""] * stretches[0].size
        step = _step_at(trace, stretches[0])
        lasting = stretches[1] - stretches[0]
        frame = pl.DataFrame({"step": step, "name": name, "ns": lasting}).drop_nulls("step")
        frame = frame.with_columns(blocks=pl.lit(None, pl.Int64))
        found.append(_summed(frame, kind))
    return found


def _step_at(trace: Trace, time: Ints) -> pl.Series:
    """The step that each time lies in; the one before it where it lies between two."""
    if not trace.steps.height:
        return pl.repeat(WHOLE, time.size, dtype=pl.Int64, eager=True)
    at = np.searchsorted(trace.steps["start"].to_numpy(), time, side="right") - 1
    return trace.steps["index"].gather(pl.Series(np.maximum(at, 0)))


def _around(trace: Trace, stretches: Intervals) -> list[str]:
    """The innermost range or function that holds most of each stretch; empty where none does."""
    marks = trace.host.filter(pl.col("kind").is_in(["annotation", "python", "module", "operator"]))
    steps = frozenset(trace.steps["name"])
    no_step = ~names.matching(marks["name"], lambda name: name in steps or name.startswith("ProfilerStep"))
    marks = marks.filter(pl.Series(no_step))
    begin = marks["start"].to_numpy()
    end = begin + marks["duration"].fill_null(0).to_numpy()
    found = []
    for low, high in zip(*stretches, strict=True):
        inside = np.minimum(end, high) - np.maximum(begin, low)
        holds = np.flatnonzero(inside > ENCLOSES * (high - low))
        if not holds.size:
            found.append("")
            continue
        innermost = holds[np.argmin(end[holds] - begin[holds])]
        found.append(str(marks["name"][int(innermost)]))
    return found
