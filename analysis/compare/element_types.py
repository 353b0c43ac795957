"""The element type of a run's multiplications, from operators' inputs or, without them, from kernels' names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_types import type_in_name

if TYPE_CHECKING:
    from tracetui.parsers import Trace

MULTIPLYING = (
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::_convolution", "aten::linear",
)  # fmt: skip
"""Operators whose first input tells what is multiplied. The operators that these call are left out, or they would count
twice."""
TYPES = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
}  # fmt: skip
"""As Kineto spells element types."""
LEAST_KNOWN = 0.5
"""Many names tell no type: if less than this share of the time has one, the type of the run is unknown."""


def element_type(trace: Trace) -> str | None:
    """``fp32``, ``tf32``, ``fp16``, ``bf16``, ``fp64`` or ``fp8``; null where neither operators nor kernels tell.

    Operators: the type of the first input of most multiplications (that TF32 was allowed does not show there).
    Kernels: the type in the names of matrix, convolution, attention and scan kernels, by their time.
    """
    return _of_operators(trace) or _of_kernels(trace)


def _of_operators(trace: Trace) -> str | None:
    called = (
        trace.host.filter(pl.col("kind") == "operator")
        .filter(pl.col("name").cast(pl.String).is_in(MULTIPLYING) & pl.col("input_types").is_not_null())
        .group_by(pl.col("input_types").cast(pl.String))
        .len()
    )
    count: dict[str, int] = {}
    for text, many in called.iter_rows():
        if (found := _first_type(text)) is not None:
            count[found] = count.get(found, 0) + many
    return max(count, key=lambda name: (count[name], name)) if count else None


def _first_type(text: str) -> str | None:
    """The first element type in an operator's list of inputs (addmm's bias has the type of what is multiplied)."""
    try:
        inputs = json.loads(text)
    except ValueError:
        return None
    known = (TYPES[name] for name in inputs if isinstance(name, str) and name in TYPES)
    return next(known, None) if isinstance(inputs, list) else None


def _of_kernels(trace: Trace) -> str | None:
    spent = (
        trace.device.filter(pl.col("kind") == "kernel")
        .group_by(pl.col("name").cast(pl.String))
        .agg(pl.col("duration").sum())
    )
    time: dict[str | None, int] = {}
    for name, ns in spent.iter_rows():
        if kernel_names.category(name) in ("gemm", "conv", "attention", "scan"):
            found = type_in_name(name)
            time[found] = time.get(found, 0) + ns
    whole = sum(time.values())
    told = {sort: ns for sort, ns in time.items() if sort is not None}
    if not told or sum(told.values()) < LEAST_KNOWN * whole:
        return None
    return max(told, key=lambda sort: (told[sort], sort))
