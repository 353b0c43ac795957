"""A report's launches with all that a table of configurations counts: rates, what they are made of, and FLOPs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.counters.counters import launch_counters
from tracetui.analysis.counters.parts import launch_parts
from tracetui.analysis.roofline.counters import counts_flops, launch_flops

if TYPE_CHECKING:
    from tracetui.parsers import Trace


def launch_table(trace: Trace) -> pl.DataFrame:
    """A report's launches with their rates and what these are made of: `launch_counters`, `launch_parts`, ``flops``."""
    table = launch_counters(trace).drop("rules", "missing").hstack(launch_parts(trace).drop("device_row"))
    return table.with_columns(
        _flops(trace), one=pl.lit(1.0), tensor_cores_percent=pl.col("tensor_cores").cast(pl.Float64) * 100
    )


def _flops(trace: Trace) -> pl.Series:
    """FLOPs of each launch; null where a part of them was not counted."""
    if not counts_flops(trace):
        return pl.Series("flops", [None] * trace.device.height, pl.Float64)
    found = launch_flops(trace).select("flops", "unknown").iter_rows()
    whole = [
        None if flops is None or any("DRAM" not in what for what in unknown) else sum(part["flops"] for part in flops)
        for flops, unknown in found
    ]
    return pl.Series("flops", whole, pl.Float64)
