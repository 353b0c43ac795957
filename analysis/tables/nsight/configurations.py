"""Configurations by their counters: reports of Nsight Compute, or points of a sweep, by kind of kernel."""

from __future__ import annotations

from dataclasses import replace

from tracetui.analysis.tables.nsight import counters
from tracetui.analysis.tables.table import Field, Table


def _covered(field: Field) -> Field:
    """The column that says how much of a row has a counter."""
    return Field(
        f"{field.name}_covered", kind="percent", screen=False,
        about=f"share of the row's time that is of launches with {field.json_key}; of its launches without times",
    )  # fmt: skip


_WEIGHTS = {
    "l1_percent": "active cycles", "l1_hit_percent": "sectors", "l2_hit_percent": "sectors",
    "occupancy_percent": "active cycles", "tensor_percent": "active cycles",
}  # fmt: skip
"""How launches count in the table of configurations where that is not their time; docs/metrics.md says what stands in
where that is not known."""
_WORDS = ("occupancy_limiter", "bound", "tensor_cores", "dram_bytes")
"""What is measured of a launch but is no rate of it, or has a column of its own."""
_WEIGHTED = tuple(
    replace(
        field,
        type="real" if field.name in counters.WHOLE_NUMBERS else field.type,
        about=f"{field.about}; weighted by {_WEIGHTS.get(field.name, 'time')}",
    )
    for field in counters.MEASURED_FIELDS
    if field.name not in _WORDS
)
_GFLOP = Field("gflop", "GFLOP", "number", width=7, priority=7, null=True, about="10^9 FLOP, the sum")
_RATES = (
    Field(
        "tensor_cores_percent", "TC", "percent", width=5, priority=3, null=True,
        about="launches that used tensor cores, % of the time of those that tell",
    ),
    Field(
        "dram_bytes", "DRAM bytes", "bytes", width=9, priority=7, type="real", null=True,
        about="bytes read from and written to DRAM, the sum",
    ),
    Field("dram_rate", "DRAM/s", "number", width=8, priority=4, null=True, about="DRAM bytes per second: sum by sum"),
    Field(
        "flops", "FLOP", "number", width=8, priority=7, null=True,
        about="operations on floating-point numbers, the sum over launches of which all were counted",
    ),
    Field("flop_rate", "FLOP/s", "number", width=8, priority=4, null=True, about="FLOP per second: sum by sum"),
    Field("intensity", "FLOP/B", "number", width=6, priority=5, null=True, about="FLOP per DRAM byte: sum by sum"),
    Field(
        "sectors_per_load", "Sect/ld", "number", width=7, priority=5, null=True,
        about="32-byte sectors of global loads per load of a warp: sum by sum; 4 for neighbouring numbers of 4 bytes",
    ),
    Field(
        "sectors_per_store", "Sect/st", "number", width=7, priority=5, null=True,
        about="32-byte sectors of global stores per store of a warp: sum by sum",
    ),
)  # fmt: skip
CONFIGURATIONS = Table(
    "configurations",
    "Counters by configuration",
    "rows",
    (
        Field("configuration", "Configuration", width=14, priority=0, flex=True, about="report, or point of a sweep"),
        Field(
            "kind", "Kind", width=11, priority=0,
            about="`all` profiled launches; `common`: of kernels that all configurations profiled, where these differ; "
            "or a category of kernels",
        ),
        Field("launches", "N", "count", width=4, priority=1, about="profiled launches"),
        Field("kernels", "Kernels", "count", width=4, priority=6, about="different kernels among them"),
        Field("total_ns", "Time", "time", priority=0, main=True, null=True, about="time of these launches, the sum"),
        Field(
            "time_percent", "Time", "percent", width=5, priority=1, null=True,
            about="that time, % of the configuration's profiled time",
        ),
        Field(
            "duration_ns", "Mean", "time", priority=4, null=True, about="mean time of a launch, each counting the same"
        ),
        *_WEIGHTED,
        *_RATES,
        _GFLOP,
        Field(
            "bound", "Bound", width=8, priority=5, null=True,
            about="class of the row's SM and memory shares: `latency`, `compute`, `memory` or `balanced`",
        ),
        *(_covered(field) for field in (*_WEIGHTED, *_RATES)),
    ),
    data=(
        "configuration", "kind", "launches", "kernels", "total_ns", "time_percent", "duration_ns",
        *(field.name for field in (*_WEIGHTED, *_RATES)), "bound",
        *(f"{field.name}_covered" for field in (*_WEIGHTED, *_RATES)),
    ),
    reports=(
        "kind", "total_ns", "time_percent", "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent",
        "l2_hit_percent", "occupancy_percent", "tensor_cores_percent", "configuration",
    ),
    page=False,
)  # fmt: skip
