"""The least work of kernels, as FLOPs and bytes, from the input shapes of the operators that launched them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base import names
from tracetui.analysis.roofline import operator_work
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.matrix_work import sparse_work

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.roofline.operator_work import Shape, Work
    from tracetui.analysis.selection import Selection

AFTER = 12
"""How many operators after a convolution are searched for the size of its output."""
SPARSE = "FLOPs and bytes of a sparse product: they depend on how many of its numbers are not zero"
OF_SPARSE = frozenset(
    f"aten::{name}"
    for name in (
        "_nnz", "sparse_dim", "dense_dim", "_indices", "_values", "indices", "values", "crow_indices", "col_indices",
        "ccol_indices", "row_indices", "is_coalesced", "_coalesced_",
    )
)  # fmt: skip
"""Operators that only sparse tensors have: what calls them was given one. Its type and shape don't say so."""
SCHEMA = {
    "name": pl.String(),
    "operator": pl.String(),
    "grid": pl.Array(pl.Int32, 3),
    "block": pl.Array(pl.Int32, 3),
    "launches": pl.UInt32(),
    "total_ns": pl.Int64(),
    "flops": pl.Float64(),
    "bytes": pl.Float64(),
    "precision": pl.String(),
    "note": pl.String(),
}


def shape_work(sel: Selection, uses_tensor_cores: Callable[[str], bool]) -> pl.DataFrame:
    """One row per kernel, operator, launch configuration and shapes whose work is known (`SCHEMA`).

    ``flops`` and ``bytes`` are of one call, null for sparse tensors, whose shapes don't tell; ``precision`` names the
    peak that applies to the kernel (`peaks.PRECISIONS`). ``launches`` are calls: if a call itself launched several
    kernels, the time of all of them counts for the longest. Kernels that no operator launched, or that a CUDA graph
    did, have no shapes.
    """
    calls = _calls(sel)
    rows = []
    for call in calls.iter_rows(named=True):
        category = kernel_names.category(call["name"])
        after = _after(sel, call["first"]) if "conv" in call["operator"] else ()
        found = operator_work.work(call["operator"], call["shapes"], call["types"], category, after)
        if found is None:
            continue
        notes = [SPARSE if call["sparse"] else found.note]
        if call["kernels"] > 1:
            more = call["kernels"] - 1
            notes.append(f"with {more} more kernel{'s' if more > 1 else ''} of the same call")
        rows.append(
            {
                "name": call["name"],
                "operator": call["operator"],
                "grid": call["grid"],
                "block": call["block"],
                "launches": call["launches"],
                "total_ns": call["total_ns"],
                "flops": None if call["sparse"] else found.flops,
                "bytes": None if call["sparse"] else found.bytes,
                "precision": rate(found, call["name"], uses_tensor_cores),
                "note": "; ".join(note for note in notes if note),
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def rate(found: Work, kernel: str, uses_tensor_cores: Callable[[str], bool]) -> str:
    """The peak that applies to a kernel's arithmetic: functions of half-precision numbers are computed in fp32."""
    if not found.product:
        return "fp64" if found.precision == "fp64" else "fp32"
    if not uses_tensor_cores(kernel):
        return found.precision if found.precision in ("fp64", "fp32", "fp16") else "fp32"
    return {"fp32": "tf32"}.get(found.precision, found.precision) + "_tensor"


def _calls(sel: Selection) -> pl.DataFrame:
    """Calls of operators with shapes that launched kernels themselves, equal calls together."""
    host = sel.trace.host
    empty = pl.DataFrame(schema={"name": pl.String(), "first": pl.UInt32()})
    if host["input_shapes"].null_count() == host.height:
        return empty
    kernels = sel.timed.filter(
        (pl.col("kind") == "kernel")
        & pl.col("operator").is_not_null()
        & pl.col("graph_node").is_null()
        & pl.col("duration").is_not_null()
    ).select("name", "operator", "duration", "grid", "block")
    if not kernels.height:
        return empty
    called = host.select(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("call"),
        pl.col("kind"),
        pl.col("name").alias("operator_name"),
        pl.col("input_shapes").alias("shapes"),
        pl.col("input_types").alias("types"),
    ).filter((pl.col("kind") == "operator") & pl.col("shapes").is_not_null() & pl.col("types").is_not_null())
    found = kernels.rename({"operator": "call"}).join(called.drop("kind"), on="call")
    # an inner function of Mamba launches both its convolution and its scan: each of its kernels stands for itself
    apart = pl.col("operator_name").cast(pl.String).is_in(sorted(operator_work._SCANS))
    found = found.with_columns(part=pl.when(apart).then(pl.col("name").cast(pl.String)).otherwise(pl.lit("")))
    given = host["parent"].filter(names.matching(host["name"], OF_SPARSE.__contains__)).drop_nulls().unique()
    by_name = pl.Series(names.matching(found["name"], sparse_work))
    found = found.with_columns(sparse=by_name | found["call"].is_in(given.implode()))
    longest = pl.col("duration").arg_max()
    per_call = found.group_by("call", "part").agg(
        pl.col("operator_name", "shapes", "types").first(),
        pl.col("name", "grid", "block").get(longest),
        kernels=pl.len(),
        duration=pl.col("duration").sum(),
        sparse=pl.col("sparse").any(),
    )
    keys = ("name", "operator_name", "shapes", "types", "grid", "block", "sparse")
    return (
        per_call.group_by(keys)
        .agg(
            launches=pl.len(),
            total_ns=pl.col("duration").sum(),
            kernels=pl.col("kernels").max(),
            first=pl.col("call").min(),
        )
        .with_columns(pl.col("name", "operator_name", "shapes", "types").cast(pl.String))
        .rename({"operator_name": "operator"})
        .sort("total_ns", "first", descending=[True, False])
    )


def _after(sel: Selection, row: int) -> tuple[Shape, ...]:
    """The first inputs' shapes of the operators that begin on the same thread after a call has ended."""
    host = sel.trace.host
    mine = host.row(row, named=True)
    end = mine["start"] + mine["duration"]
    later = host.slice(row + 1, 64 * AFTER).filter(
        (pl.col("kind") == "operator") & (pl.col("thread") == mine["thread"]) & (pl.col("start") >= end)
    )
    shapes = []
    for text in later["input_shapes"].head(AFTER).cast(pl.String).drop_nulls().to_list():
        try:
            listed = json.loads(text)
        except (ValueError, RecursionError):
            continue
        first = listed[0] if isinstance(listed, list) and listed else None
        if isinstance(first, list) and all(isinstance(size, int) for size in first):
            shapes.append(tuple(first))
    return tuple(shapes)
