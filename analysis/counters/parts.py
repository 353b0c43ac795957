"""What rates of Nsight Compute's counters are made of: the cycles, sectors and requests that they are shares of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.names import matching

if TYPE_CHECKING:
    from tracetui.parsers import Trace

PARTS = {
    "active_cycles": ("sm__cycles_active.avg", "SM Active Cycles"),
    "l2_sectors": ("lts__t_sectors.sum",),
    "load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
}
"""A count of a launch by its names, the preferred one first; the second is that of the details page."""
_L1 = re.compile(r"l1tex__t_sectors_pipe_(lsu|tex)_mem_(global|local|surface|texture)(_op_[a-z]+)?\.sum")
"""Together these are the sectors that L1's hit rate is a share of; ncu prints no sum of them."""
COLUMNS = (*PARTS, "l1_sectors")


def launch_parts(trace: Trace) -> pl.DataFrame:
    """One row per profiled launch: ``device_row`` and `COLUMNS`; null where it was not counted.

    ``l1_sectors`` is known where loads and stores of global memory were counted, which nearly all of them are.
    """
    counted = trace.counters.filter((pl.col("kind") == "metric") & pl.col("value").is_not_null())
    wanted = {name: column for column, names in PARTS.items() for name in names}
    chosen = counted.filter(
        pl.Series(matching(counted["metric"], lambda name: name in wanted or _L1.fullmatch(name) is not None))
    ).with_columns(pl.col("metric").cast(pl.String))
    value, metric = pl.col("value"), pl.col("metric")
    needed = [PARTS["load_sectors"][0], PARTS["store_sectors"][0]]
    found = chosen.unique(["device_row", "metric"], keep="first", maintain_order=True).group_by("device_row").agg(
        *(
            pl.coalesce(*(value.filter(metric == name).first() for name in names)).alias(column)
            for column, names in PARTS.items()
        ),
        l1_sectors=pl.when(pl.all_horizontal((metric == name).any() for name in needed)).then(
            value.filter(metric.str.contains(f"^{_L1.pattern}$")).sum()
        ),
    )  # fmt: skip
    rows = pl.DataFrame({"device_row": pl.int_range(trace.device.height, dtype=pl.UInt32, eager=True)})
    return rows.join(found, on="device_row", how="left", maintain_order="left")
