"""NVIDIA's reports about NVTX ranges: by host time, projected on the GPU, and the kernels inside each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, codes_of, dense, lanes_of
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.projection import Projection, enclosing, project, projected_ns
from tracetui.analysis.nsys.values import rounded, spread_columns, statistics, timing_columns, with_percent
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Ints
from tracetui.parsers.categories import decode
from tracetui.parsers.nesting import depth_of

_FOLDED = {"sequence": "seq", "external_id": "op_id", "input_shapes": "sizes"}
"""Columns with parts of a range's name, and what the name calls each part, in PyTorch's order."""
_STYLES = {"push_pop": "PushPop", "start_end": "StartEnd", "cross_thread": "StartEnd"}


def nvtx_sum(sel: Selection, styles: Sequence[str] = tuple(_STYLES)) -> pl.DataFrame:
    """Ranges by name and style: host time. Ranges that end on another thread are included, instants are not."""
    groups = (
        _ranges(sel)
        .filter(pl.col("style").is_in(styles))
        .group_by("label", pl.col("style").replace_strict(_STYLES, return_dtype=pl.String))
        .agg(statistics("duration"))
        .sort("total", "label", "style", descending=[True, False, False])
    )
    columns = [*timing_columns(groups, "Instances"), groups["style"].alias("Style"), groups["label"].alias("Range")]
    return with_percent(groups, columns)


def nvtx_pushpop_sum(sel: Selection) -> pl.DataFrame:
    """Push/pop ranges by name."""
    return nvtx_sum(sel, ("push_pop",)).drop("Style")


def nvtx_startend_sum(sel: Selection) -> pl.DataFrame:
    """Start/end ranges by name."""
    return nvtx_sum(sel, ("start_end", "cross_thread")).drop("Style")


def nvtx_gpu_proj_sum(sel: Selection) -> pl.DataFrame:
    """Ranges that contain GPU work, projected on the GPU, by name and style, the most projected time first."""
    groups = (
        _projected(sel)
        .group_by("label", pl.col("style").replace_strict(_STYLES, return_dtype=pl.String))
        .agg(
            *statistics("projected"),
            pl.col("duration").sum(),
            pl.col("launches").sum(),
            launches_each=pl.col("launches").mean(),
            level=pl.col("level").mean(),
            children=pl.col("children").mean(),
        )
        .sort("total", "label", "style", descending=[True, False, False])
    )
    means = {
        title: pl.Series([rounded(value) for value in groups[name].to_list()], dtype=pl.Float64)
        for title, name in (
            ("Avg GPU Ops", "launches_each"), ("Avg Range Lvl", "level"), ("Avg Num Child", "children"),
        )
    }  # fmt: skip
    return pl.DataFrame(
        [
            groups["label"].alias("Range"),
            groups["style"].alias("Style"),
            groups["total"].alias("Total Proj Time (ns)"),
            groups["duration"].alias("Total Range Time (ns)"),
            groups["num"].cast(pl.Int64).alias("Range Instances"),
            *spread_columns(groups, "(ns)", label="Proj "),
            groups["launches"].alias("Total GPU Ops"),
            *(values.alias(title) for title, values in means.items()),
        ]
    )


def nvtx_kern_sum(sel: Selection) -> pl.DataFrame:
    """Kernels by the ranges around their launch, by every one of them; kernels outside any range come first.

    A kernel inside two ranges of one name counts twice in the times and once in ``Kern Inst``, as in NVIDIA's report.
    """
    ranges = _ranges(sel).filter(pl.col("style").is_in(["push_pop", "start_end"]))
    kernels = sel.device.filter(pl.col("kind") == "kernel")
    projection = project(sel.trace.host, ranges["row"].to_numpy(), kernels)
    alone = np.flatnonzero(~_covered(projection, kernels.height))
    threads = sel.trace.host.select("process", "thread")[kernels["launch"].gather(alone)]
    outside = threads.select(pl.lit(None, pl.String).alias("label"), pl.lit(None, pl.String).alias("style"), pl.all())
    of_range = pl.concat([ranges.select(outside.columns), outside]).with_columns(
        place=pl.struct(pl.all()).rank("dense").cast(pl.UInt32)
    )
    places = of_range.unique("place")
    # a row per range and kernel inside it, as numbers, since there may be many; then the kernels outside any range
    length = projection.end - projection.begin
    owner = np.repeat(np.arange(length.size, dtype=np.uint32), length)
    ahead = np.concatenate(([0], np.cumsum(length)))[:-1]
    position = np.arange(owner.size) - np.repeat(ahead - projection.begin, length)
    kernel = np.concatenate((projection.work[position] if owner.size else owner, alone)).astype(np.uint32)
    row = np.concatenate((owner, np.arange(ranges.height, of_range.height, dtype=np.uint32)))
    pairs = pl.DataFrame({"place": of_range["place"].gather(row), "range": row, "kernel": kernel})
    groups = (
        pairs.with_columns(
            duration=kernels["duration"].gather(pairs["kernel"]), name=kernels["name"].gather(pairs["kernel"])
        )
        .group_by("place", "name")
        .agg(
            *statistics("duration"),
            instances=pl.col("range").filter(pl.col("range") < ranges.height).n_unique(),
            kernels=pl.col("kernel").n_unique(),
        )
        .join(places, on="place")
        .with_columns(pl.col("name").cast(pl.String), pl.col("style").cast(pl.String).replace(_STYLES))
        .sort(
            "label", "process", "thread", "total", "style", "name",
            descending=[False, False, False, True, False, False], nulls_last=False,
        )
    )  # fmt: skip
    return pl.DataFrame(
        [
            groups["label"].alias("NVTX Range"),
            groups["style"].alias("Style"),
            groups["process"].alias("PID"),
            groups["thread"].alias("TID"),
            groups["instances"].cast(pl.Int64).alias("NVTX Inst"),
            groups["kernels"].cast(pl.Int64).alias("Kern Inst"),
            groups["total"].alias("Total Time (ns)"),
            *spread_columns(groups, "(ns)"),
            groups["name"].alias("Kernel Name"),
        ]
    )


def _ranges(sel: Selection) -> pl.DataFrame:
    """All ranges in scope: row, label, start, duration, process, thread, style, range_id.

    The label is ``domain:name``; NVTX's default domain has no name. What other tools call an annotation has no domain
    and nests, as push/pop ranges do. Ids count all ranges of the trace by their start.
    """
    host = sel.trace.host
    kept = (host["kind"] == "annotation").to_numpy() & scope_mask(sel)
    rows = np.flatnonzero(kept)
    frame = host.select("name", "domain", "start", "duration", "process", "thread", "style", *_FOLDED)[rows]
    name, codes = dense(codes_of(frame["name"]))
    # a domain's code + 1, 0 for none: few pairs, however many ranges
    domain = frame["domain"].to_physical().cast(pl.Int64).fill_null(NONE).to_numpy() + 1
    pairs, number = np.unique(domain * max(codes.size, 1) + name, return_inverse=True)
    texts = decode(codes.astype(np.uint32)).cast(pl.String).to_list()
    spelled = [
        texts[pair % codes.size] if pair < codes.size else f"{_text(pair // codes.size - 1)}:{texts[pair % codes.size]}"
        for pair in pairs.tolist()
    ]
    return frame.select(
        pl.Series("row", rows, dtype=pl.Int64),
        _unfolded(pl.Series("label", spelled, dtype=pl.String).gather(number), frame, sel),
        "start",
        "duration",
        "process",
        "thread",
        pl.col("style").cast(pl.String).fill_null("push_pop"),
        pl.Series("range_id", _ids(frame["start"].to_numpy())),
        pl.Series("lane", lanes_of(host)[rows]),
    )


def _unfolded(label: pl.Series, frame: pl.DataFrame, sel: Selection) -> pl.Series:
    """Labels with what PyTorch's emit_nvtx writes after an operator's name, which the reader stores separately."""
    if sel.trace.info.kind != "nsys" or all(frame[column].null_count() == frame.height for column in _FOLDED):
        return label
    parts = [
        pl.when(pl.col(column).is_not_null()).then(pl.format(f", {word} = {{}}", column)).otherwise(pl.lit(""))
        for column, word in _FOLDED.items()
    ]
    return frame.select(pl.concat_str(label, *parts).alias("label"))["label"]


def _text(code: int) -> str:
    return str(decode(np.array([code], np.uint32)).cast(pl.String)[0])


def _ids(start: Ints) -> Ints:
    """1 for the range that begins first, and so on."""
    ids = np.empty(start.size, np.int64)
    ids[np.argsort(start, kind="stable")] = np.arange(1, start.size + 1)
    return ids


def _projected(sel: Selection) -> pl.DataFrame:
    """The ranges that contain GPU work: `_nested` with launches and projected."""
    ranges = _ranges(sel).filter(pl.col("style").is_in(["push_pop", "start_end"]))
    work = sel.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    projection = project(sel.trace.host, ranges["row"].to_numpy(), work)
    return _nested(
        ranges.with_columns(
            launches=pl.Series(projection.launches),
            projected=pl.Series(projected_ns(projection)),
        ).filter(pl.col("launches") > 0)
    )


def _nested(ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges with level and children: how many are around each, and how many directly in it."""
    ranges = ranges.sort("lane", "start", -pl.col("duration"), "range_id")
    start = ranges["start"].to_numpy()
    parent = enclosing(ranges["lane"].to_numpy(), start, start + ranges["duration"].to_numpy())
    return ranges.with_columns(
        level=pl.Series(depth_of(parent), dtype=pl.Int64),
        children=pl.Series(np.bincount(parent[parent >= 0], minlength=parent.size).astype(np.int64)),
    )


def _covered(projection: Projection, size: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which device rows are inside at least one range."""
    steps = np.zeros(projection.work.size + 1, np.int64)
    np.add.at(steps, projection.begin, 1)
    np.add.at(steps, projection.end, -1)
    covered = np.zeros(size, np.bool_)
    covered[projection.work] = np.cumsum(steps)[:-1] > 0
    return covered
