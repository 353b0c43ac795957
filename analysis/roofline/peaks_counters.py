"""The roofs that Nsight Compute itself measures against: sustained peaks per cycle, at the clock of the measurement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.names import matching
from tracetui.analysis.base.remembered import kept

if TYPE_CHECKING:
    from tracetui.parsers import Trace

Roofs = tuple[dict[str, tuple[float, str, str]], "tuple[float, str, str] | None"]
"""Value, source and computation of the peak by precision, and of DRAM's."""

SM_CLOCK = ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second")
DRAM_CLOCK = "dram__cycles_elapsed.avg.per_second"
DRAM_PEAK = ("dram__bytes.sum.peak_sustained", "dram__bytes_read.sum.peak_sustained")
PLAIN = {"fp64": ("dfma", 2), "fp32": ("ffma", 2), "fp16": ("hfma", 4)}
"""The instruction and its FLOPs per thread: a half-precision one works on two numbers."""
_TENSOR = re.compile(
    r"sm__ops_path_tensor_op_(?:(?!sparsity_on)\w)+?_src_(?P<type>fp64|tf32|fp16|bf16|fp8|e4m3|e5m2|int8)"
    r"(?:(?!sparsity_on)\w)*\.sum\.peak_sustained_elapsed\.per_second"
)


def tensor_precision(kind: str) -> str:
    """``fp16`` → ``fp16_tensor``; the formats of 8 bits are one."""
    return {"e4m3": "fp8", "e5m2": "fp8"}.get(kind, kind) + "_tensor"


@kept
def counter_peaks(trace: Trace) -> Roofs | None:
    """The medians over the launches; null where the report has no such metric."""
    metrics = trace.counters.filter((pl.col("kind") == "metric") & pl.col("value").is_not_null())
    names = metrics["metric"].unique().cast(pl.String).drop_nulls().to_list()
    wanted = [name for name in names if "peak_sustained" in name or name in (*SM_CLOCK, DRAM_CLOCK)]
    if not wanted:
        return None
    found = metrics.filter(pl.Series(matching(metrics["metric"], frozenset(wanted).__contains__)))
    found = found.filter(pl.col("value") > 0)
    table = found.group_by(pl.col("metric").cast(pl.String)).agg(pl.col("value").median())
    median = dict(table.iter_rows())
    clock = next((median[name] for name in SM_CLOCK if name in median), None)
    compute: dict[str, tuple[float, str, str]] = {}
    for precision, (instruction, flops) in PLAIN.items():
        name = f"_sass_thread_inst_executed_op_{instruction}_pred_on.sum.peak_sustained"
        per_cycle = next((median[part + name] for part in ("sm_", "smsp_") if part + name in median), None)
        if clock and per_cycle:
            about = f"{per_cycle:,.0f} {instruction}/cycle × {flops} × {clock / 1e9:.3f} GHz, medians of launches"
            compute[precision] = (flops * per_cycle * clock, "counters", about)
    for name, value in median.items():
        match = _TENSOR.fullmatch(name)
        if match is not None:
            precision = tensor_precision(match["type"])
            if value > compute.get(precision, (0.0,))[0]:
                compute[precision] = (value, "counters", f"{name}, median of launches")
    rate = next((median[name] for name in DRAM_PEAK if name in median), None)
    memory = median.get(DRAM_CLOCK)
    bandwidth = None
    if rate and memory:
        about = f"{rate:,.0f} byte/cycle × {memory / 1e9:.3f} GHz, medians of launches"
        bandwidth = (rate * memory, "counters", about)
    return (compute, bandwidth) if compute or bandwidth else None
