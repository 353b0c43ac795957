"""In which precision the matrix work of a report of Nsight Compute runs: by its counters, else by names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_percent
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.counters.counters import launch_counters
from tracetui.analysis.roofline.counters import counts_flops, launch_flops
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_types import type_in_name

if TYPE_CHECKING:
    from tracetui.parsers import Trace

MATRIX = frozenset({"gemm", "conv", "attention"})
"""Categories that multiply matrices."""
MAIN_PERCENT = 90.0
"""A precision with at least this share of the time is the report's; below it, several are named."""
_NVJET = re.compile(r"nvjet_sm\d+_([a-z])")
_NVJET_TYPES = {"h": "fp16", "t": "bf16", "d": "fp64"}
"""The letter of the first operand in cuBLAS' names; counters of tensor cores tell the same on an H200."""


@kept
def matrix_time(trace: Trace) -> dict[str | None, float]:
    """Time of the matrix work by precision, ns, the most first; that of which nothing tells is under None.

    Most of a launch's FLOPs tell where all were counted; else the types in the kernel's name.
    """
    launches = launch_counters(trace).select("name", "duration_ns", "launches", "tensor_cores")
    flops = launch_flops(trace).select("flops", "unknown").rows() if counts_flops(trace) else []
    time: dict[str | None, float] = {}
    for number, (name, duration, many, tensor) in enumerate(launches.iter_rows()):
        if kernel_names.category(name) not in MATRIX:
            continue
        told = _of_flops(*flops[number], tensor=tensor) if flops else None
        precision = told or of_name(name)
        time[precision] = time.get(precision, 0.0) + (duration or 0.0) * many
    return dict(sorted(time.items(), key=lambda item: -item[1]))


def of_name(name: str) -> str | None:
    """The precision that a matrix kernel's name tells."""
    if (found := _NVJET.search(name)) is not None and found[1] in _NVJET_TYPES:
        return _NVJET_TYPES[found[1]]
    return type_in_name(name)


def precision_words(trace: Trace) -> str | None:
    """``fp32``, or ``fp32 70 %, bf16 30 %`` of the matrix time; None where nothing tells."""
    time = {name: ns for name, ns in matrix_time(trace).items() if name is not None}
    whole = sum(time.values())
    if not whole:
        return next(iter(time), None)
    first, most = next(iter(time.items()))
    if 100 * most / whole >= MAIN_PERCENT:
        return first
    return ", ".join(f"{name} {format_percent(100 * ns / whole)}" for name, ns in time.items())


def _of_flops(flops: list[dict[str, str | float]] | None, unknown: list[str], *, tensor: bool | None) -> str | None:
    """The precision of most FLOPs; None where a part was not counted, which may be most of them."""
    if not flops or (tensor is not False and any("DRAM" not in what for what in unknown)):
        return None
    most = max(flops, key=lambda part: float(part["flops"]))
    return str(most["precision"]).removesuffix("_tensor") if most["flops"] else None
