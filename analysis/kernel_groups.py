"""Kernels by what they have in common: a row per category, module, range, launch shape, input shapes or stream.

Every grouping is of the same launches, each of which is in one group: the times and calls of any of them add up to
those of the table by name. Launches of which a recording does not say what they are grouped by form a group of their
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.kernels import (
    NOT_ATTRIBUTED,
    PERCENT,
    kernel_rows,
    or_null,
    path_numbers,
    range_names,
    size_text,
    summarize,
    sums,
)
from tracetui.analysis.ranges import NOT_IN_ANY_RANGE
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

NOT_RECORDED = "(not recorded)"
"""The group of launches of which the recording does not say what they are grouped by."""
GROUPINGS = ("name", "category", "class", "module", "range", "shape", "input_shapes", "stream")
"""What kernels can be grouped by; ``name`` is `kernels.kernels`."""
UNKNOWN = {"class": NOT_ATTRIBUTED, "module": NOT_ATTRIBUTED, "range": NOT_IN_ANY_RANGE}
"""By grouping, the name of the group of launches that have none; `NOT_RECORDED` for those not listed."""


def kernel_groups(sel: Selection, by: str) -> pl.DataFrame:
    """One row per group of kernel launches, the most total time first.

    Args:
        sel: the launches.
        by: ``category``: kind of work, judged by the name (`kernel_names.category`). ``module``: path of the innermost
            nn.Module around the launch, or whose gradient is computed; a name scope in compiled programs. ``class``:
            that module's class. ``range``:
            the innermost annotation around the launch. ``shape``: grid × block of the launch. ``input_shapes``: of the
            innermost operator around the launch. ``stream``: stream, with its GPU where there are several.

    Returns:
        ``group``, ``kernels`` (how many names), ``name`` and ``short_name`` of the kernel with most of its time, then
        as in `kernels.kernels`: calls, total_ns, percent, in_steps_ns, mean_ns, median_ns, min_ns, max_ns, std_ns,
        occupancy_percent, blocks_per_sm, registers, shared_memory.
    """
    rows = kernel_rows(sel)
    rows = rows.with_columns(labels(sel, rows, by).alias("group"), pl.col("name").cast(pl.String))
    table = rows.group_by("group").agg(kernels=pl.col("name").n_unique(), **sums(sel)).with_columns(percent=PERCENT)
    most = (
        rows.group_by("group", "name")
        .agg(ns=pl.col("duration").sum())
        .sort("ns", "name", descending=[True, False])
        .group_by("group", maintain_order=True)
        .agg(pl.col("name").first())
    )
    table = table.join(most, on="group", how="left")
    short = pl.Series("short_name", [kernel_names.short_name(name) for name in table["name"]], pl.String)
    return (
        table.with_columns(short)
        .select(
            "group", "kernels", "name", "short_name", "calls", "total_ns", "percent", "in_steps_ns", "mean_ns",
            "median_ns", "min_ns", "max_ns", "std_ns", "occupancy_percent", "blocks_per_sm", "registers",
            "shared_memory",
        )
        .sort("total_ns", "group", descending=[True, False], nulls_last=True)
    )  # fmt: skip


def group_rows(sel: Selection, by: str, group: str) -> pl.DataFrame:
    """The kernel launches of a group: device rows (`schema.DEVICE`) with their ``row``."""
    rows = kernel_rows(sel)
    return rows.filter(labels(sel, rows, by) == group)


def group_kernels(sel: Selection, by: str, group: str) -> pl.DataFrame:
    """The kernels of a group, as in `kernels.kernels`; ``percent`` is of the group's time."""
    return summarize(sel, group_rows(sel, by, group))


def known_groupings(sel: Selection) -> tuple[str, ...]:
    """The groupings that this recording says something about; ranges stand in where no module is known."""
    rows = kernel_rows(sel)
    modules = _some(_modules(sel, rows, "path"))
    known = {
        "name": True,
        "category": True,
        "class": _some(_modules(sel, rows, "class_name")),
        "module": modules,
        "range": not modules and _some(rows["range"]),
        "shape": _some(rows["grid"]),
        "input_shapes": _some(sel.trace.host["input_shapes"]) and _some(_input_shapes(sel, rows)),
        "stream": _some(rows["stream"]),
    }
    return tuple(by for by in GROUPINGS if known[by])


def labels(sel: Selection, rows: pl.DataFrame, by: str) -> pl.Series:
    """The group of each device row, as text; never null.

    Raises:
        ValueError: kernels are not grouped by this.
    """
    if by == "category":
        names = rows["name"].cast(pl.String)
        told = {name: kernel_names.category(name) for name in names.unique().drop_nulls().to_list()}
        found = names.replace_strict(told, default=None, return_dtype=pl.String)
    elif by in ("class", "module"):
        found = _modules(sel, rows, "path" if by == "module" else "class_name")
    elif by == "range":
        found = range_names(sel, rows)
    elif by == "shape":
        found = rows.select(pl.concat_str(size_text("grid"), size_text("block"), separator=" × ")).to_series()
    elif by == "input_shapes":
        found = _input_shapes(sel, rows)
    elif by == "stream":
        found = _streams(rows)
    elif by == "name":
        found = rows["name"].cast(pl.String)
    else:
        raise ValueError(f"kernels are not grouped by {by!r}; there are {', '.join(GROUPINGS)}")
    groups: pl.Series = found.fill_null(UNKNOWN.get(by, NOT_RECORDED))
    return groups


def _input_shapes(sel: Selection, rows: pl.DataFrame) -> pl.Series:
    texts: pl.Series = sel.trace.host["input_shapes"].gather(rows["operator"]).cast(pl.String).replace("", None)
    return texts


def _modules(sel: Selection, rows: pl.DataFrame, column: str) -> pl.Series:
    number, table = path_numbers(sel, rows)
    found: pl.Series = table[column].replace("", None).gather(or_null(pl.Series(number)))
    return found


def _streams(rows: pl.DataFrame) -> pl.Series:
    stream = pl.concat_str(pl.lit("stream "), "stream")
    if rows["device"].n_unique() > 1:
        stream = pl.concat_str(pl.lit("GPU "), pl.col("device").cast(pl.String).fill_null("?"), pl.lit(", "), stream)
    return rows.select(stream.alias("stream")).to_series()


def _some(column: pl.Series) -> bool:
    return bool(column.null_count() < column.len())
