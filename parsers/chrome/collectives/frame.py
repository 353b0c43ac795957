"""Collectives of a Chrome trace: what kernels, operators and ranges say of each, one row per call.

A kernel's own arguments are the best source. AMD's kernels and those of older PyTorch carry none: then the operator
`record_param_comms` around the launch says the same, and in 2022 only the range inside it has a name and shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.parsers import categories, schema
from tracetui.parsers.chrome.collectives.on_cpu import with_operators
from tracetui.parsers.chrome.collectives.said import WHAT, in_groups, of_ranges, told
from tracetui.parsers.names import collectives as words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.nesting import Ints
    from tracetui.parsers.trace import ProcessGroup

OPERATOR, ANNOTATION = (schema.HOST_KINDS.index(kind) for kind in ("operator", "annotation"))
KERNEL, PROJECTED = (schema.DEVICE_KINDS.index(kind) for kind in ("kernel", "annotation"))
_SIZES = ("bytes_in", "bytes_out", "in_splits", "out_splits")


def collectives_frame(
    said: Columns,
    host: Columns,
    device: Columns,
    linked: dict[str, Ints],
    parent: Ints,
    groups: Sequence[ProcessGroup],
) -> pl.DataFrame:
    """The collectives of a trace whose host and device rows are sorted and linked.

    Args:
        said: arguments that describe collectives, by the offset of their event.
        host: columns of the host rows.
        device: columns of the device rows.
        linked: the host rows that each device row belongs to.
        parent: the host row around each host row.
        groups: the process groups that the file names.
    """
    on_device, operators, ranges = _kernel_rows(device, said), *_host_rows(host)
    if not (on_device.size or operators.size or ranges.size):
        return schema.empty(schema.COLLECTIVES)
    calls = _calls(host, operators, ranges, parent, said)
    kernels = _with_calls(_kernels(device, on_device, linked, told(said)), calls)
    together = _coalescing([kernels["range"], calls["outer"]], host["name"])
    kernels = kernels.with_columns(
        coalesced=pl.col("range").is_in(together.implode()).fill_null(value=False)
        | (pl.col("host").is_not_null() & pl.col("host").is_duplicated())
    ).with_columns(pl.when(~pl.col("coalesced")).then(name).alias(name) for name in _SIZES)
    alone = calls.filter(~pl.col("host").is_in(kernels["host"].drop_nulls().implode()))
    shared = kernels.filter("coalesced").drop_nulls("range").unique("range", keep="first", maintain_order=True)
    alone = alone.join(
        shared.select(outer="range", part_of="device"), on="outer", how="left", maintain_order="left"
    ).with_columns(coalesced=pl.col("outer").is_in(together.implode()).fill_null(value=False))
    alone = _before_their_kernel(alone, shared, host)
    kernels, alone = _of_one_operation(kernels, alone)
    rows = pl.concat([kernels, alone], how="diagonal")
    return in_groups(rows, groups).select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.COLLECTIVES.items()
    )


def _kernel_rows(device: Columns, said: Columns) -> Ints:
    """The device rows that communicate, by their names or arguments."""
    chosen = (device["kind"] == KERNEL) & categories.matching(device["name"], words.KERNEL)
    if said["offset"].size:
        chosen |= np.isin(device["offset"], said["offset"]) & (device["kind"] != PROJECTED)
    return np.flatnonzero(chosen)


def _host_rows(host: Columns) -> tuple[Ints, Ints]:
    """The operators that say what a collective is, and the ranges around one."""
    named = np.flatnonzero(categories.matching(host["name"], f"^{words.PARAMETERS}$|{words.RANGE}"))
    kind = host["kind"][named]
    return named[kind == OPERATOR], named[kind == ANNOTATION]


def _kernels(device: Columns, rows: Ints, linked: dict[str, Ints], arguments: pl.DataFrame) -> pl.DataFrame:
    """The kernels that communicate, and what they say of it themselves."""
    names = categories.decode(device["name"][rows]).cast(pl.String)
    found = pl.DataFrame(
        {
            "device": rows,
            "innermost": linked["operator"][rows],
            "range": linked["range"][rows],
            "offset": device["offset"][rows],
            "kernel": names,
            "kernel_kind": names.replace_strict(
                distinct := names.unique(), [words.kernel_kind(name) for name in distinct], return_dtype=pl.String
            ),
        }
    ).with_columns(pl.col("innermost", "range").replace(-1, None))
    found = found.join(arguments, on="offset", how="left", maintain_order="left")
    return found.with_columns(source=pl.when(pl.col("name").is_not_null()).then(pl.lit("kernel"))).drop("offset")


def _with_calls(kernels: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The kernels with the calls that launched them, which describe those that say nothing themselves."""
    by_range = calls.select("range", by_range="host").drop_nulls("range").unique("range", keep="first")
    by_operator = calls.select(innermost="host", by_operator="host")
    found = kernels.join(by_range, on="range", how="left", maintain_order="left")
    found = found.join(by_operator, on="innermost", how="left", maintain_order="left")
    found = found.with_columns(host=pl.coalesce("by_operator", "by_range"))
    described = calls.select("host", *(pl.col(name).alias(f"call_{name}") for name in WHAT))
    found = found.join(described, on="host", how="left", maintain_order="left")
    found = found.with_columns(
        pl.when(pl.col("source").is_null()).then(f"call_{name}").otherwise(name).alias(name) for name in WHAT
    )
    return found.with_columns(
        kind=pl.coalesce("kind", "kernel_kind"),
        name=pl.coalesce("name", "kernel"),
        source=pl.coalesce("source", pl.lit("name")),
    )


def _calls(host: Columns, operators: Ints, ranges: Ints, parent: Ints, said: Columns) -> pl.DataFrame:
    """The host's calls: operators with arguments or a range inside, and ranges of their own."""
    inside = of_ranges(host, ranges).with_columns(
        outer=pl.Series(parent[ranges], dtype=pl.Int64).replace(-1, None), around=_around(host, operators, ranges)
    )
    inside = inside.with_columns(range=pl.col("host"))
    told_by = pl.DataFrame({"host": operators, "offset": host["offset"][operators]})
    found = told_by.join(told(said), on="offset", how="left", maintain_order="left").drop("offset")
    found = found.with_columns(source=pl.when(pl.col("name").is_not_null()).then(pl.lit("operator")))
    first = inside.drop_nulls("around").unique("around", keep="first", maintain_order=True)
    its = (pl.col(name).alias(f"range_{name}") for name in WHAT)
    renamed = first.select(pl.col("around").alias("host"), "range", "outer", *its)
    found = found.join(renamed, on="host", how="left", maintain_order="left")
    found = found.with_columns(
        pl.when(pl.col("source").is_null()).then(f"range_{name}").otherwise(name).alias(name) for name in WHAT
    )
    bare = with_operators(inside.filter(pl.col("around").is_null()), host, said)
    return (
        pl.concat([found, bare], how="diagonal")
        .drop_nulls("kind")
        .sort("host")
        .select("host", "operator", "range", "outer", *WHAT)
    )


def _around(host: Columns, operators: Ints, ranges: Ints) -> pl.Series:
    """The operator around each range, on its thread; null where there is none."""
    lanes = ("process", "thread")
    outer = pl.DataFrame(
        {"row": operators, "start": host["start"][operators], **{name: host[name][operators] for name in lanes}}
    ).with_columns(end=pl.col("start") + host["duration"][operators])
    inner = pl.DataFrame({"start": host["start"][ranges], **{name: host[name][ranges] for name in lanes}})
    inner = inner.with_columns(end=pl.col("start") + host["duration"][ranges]).with_row_index("place")
    found = inner.sort("start").join_asof(
        outer.sort("start"), on="start", by=list(lanes), suffix="_outer", check_sortedness=False
    )
    found = found.with_columns(row=pl.when(pl.col("end") <= pl.col("end_outer")).then("row"))
    return found.sort("place")["row"]


def _before_their_kernel(alone: pl.DataFrame, shared: pl.DataFrame, host: Columns) -> pl.DataFrame:
    """Sends and receives with the kernel that does them, where its range comes after them.

    PyTorch 2.11 puts the operators of `batch_isend_irecv` before the range that launches them; those before it came
    inside. A thread's operators belong to its next such range.
    """
    lanes = ("process", "thread")
    at = shared["range"].to_numpy()
    ranges = pl.DataFrame(
        {"start": host["start"][at], **{name: host[name][at] for name in lanes}, "kernel": shared["device"]}
    )
    free = pl.col("kind").is_in(["send", "recv"]) & pl.col("part_of").is_null() & ~pl.col("coalesced")
    rows = alone["host"].to_numpy()
    calls = pl.DataFrame({"start": host["start"][rows], **{name: host[name][rows] for name in lanes}})
    found = (
        calls.with_row_index("place")
        .sort("start")
        .join_asof(ranges.sort("start"), on="start", by=list(lanes), strategy="forward", check_sortedness=False)
    )
    kernel = found.sort("place")["kernel"].cast(alone.schema["part_of"])
    return alone.with_columns(
        part_of=pl.when(free).then(kernel).otherwise("part_of"),
        coalesced=pl.col("coalesced") | (free & kernel.is_not_null()),
    )


def _of_one_operation(kernels: pl.DataFrame, alone: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Kernels that do a single operation of their range are that operation, with all that it says."""
    parts = alone.drop_nulls("part_of")
    lone = parts.filter(~pl.col("part_of").is_duplicated() & pl.col("kind").is_in(["send", "recv"]))
    if not lone.height:
        return kernels, alone
    its = lone.select(pl.col("part_of").alias("device"), pl.col("host").alias("its_host"),
                      *(pl.col(name).alias(f"its_{name}") for name in WHAT))  # fmt: skip
    found = kernels.join(its, on="device", how="left", maintain_order="left")
    known = pl.col("its_host").is_not_null() & pl.col("host").is_null()
    kernels = found.with_columns(
        *(pl.when(known).then(f"its_{name}").otherwise(name).alias(name) for name in WHAT),
        host=pl.when(known).then("its_host").otherwise("host"),
        coalesced=pl.col("coalesced") & ~known,
    ).select(kernels.columns)
    taken = kernels["host"].drop_nulls()
    return kernels, alone.filter(~pl.col("host").is_in(taken.implode()))


def _coalescing(ranges: Sequence[pl.Series], names: NDArray[np.uint32]) -> pl.Series:
    """Which of these host rows are ranges around several operations that one kernel does."""
    rows = pl.concat(list(ranges)).drop_nulls().unique().sort()
    texts = categories.decode(names[rows.to_numpy()]).cast(pl.String)
    coalescing: pl.Series = rows.filter(texts.str.contains(words.COALESCED, literal=True))
    return coalescing
