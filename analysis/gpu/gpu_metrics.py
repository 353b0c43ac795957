"""How much of each GPU was used: busy, utilization, SM efficiency, occupancy, tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.gpu.activities import by_value
from tracetui.analysis.gpu.matrix_units import tensor_cores_known
from tracetui.analysis.gpu.occupancy import with_estimated_occupancy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.gpu.activities import Activities
    from tracetui.parsers import Trace

SCHEMA = {
    "device": pl.Int64(),
    "name": pl.String(),
    "busy_percent": pl.Float64(),
    "utilization_percent": pl.Float64(),
    "sm_efficiency_percent": pl.Float64(),
    "occupancy_percent": pl.Float64(),
    "tensor_core_percent": pl.Float64(),
}


def gpu_metrics(
    trace: Trace, work: Activities, window: tuple[int, int] | None, conventions: Conventions = TRACETUI
) -> pl.DataFrame:
    """One row per device, over the time from the first step's start to the last step's end.

    The definitions are torch-tb-profiler's (profiler/gpu_metrics_parser.py):

    - busy: kernels, copies, fills and graphs, shares of the window (ours);
    - utilization: kernels only;
    - SM efficiency: the mean over the window of min(1, blocks per SM of the kernels that run at the moment);
    - occupancy: the profiler's estimates, weighted by kernel time;
    - tensor cores: share of kernel time spent in kernels that use them; null on devices that are no known GPUs.

    Null where the trace lacks what a number is computed from.
    """
    if window is None or window[1] <= window[0]:
        return pl.DataFrame(schema=SCHEMA)
    linked = _launched_by_operators(trace, work) if conventions.operator_kernels_only else None
    device = work.column("device")
    rows = []
    for number, on in by_value(device):
        mine = work.at(on)
        kernels = mine.where(mine.kernel)
        if kernels.start.size:
            metrics = _kernel_metrics(kernels, window, conventions)
        else:  # the kernels inside a graph that was recorded as one activity are not known
            metrics = {"utilization_percent": None if mine.compute.any() else 0.0}
        if not tensor_cores_known(trace, conventions):
            metrics["tensor_core_percent"] = None
        if linked is not None:
            metrics["tensor_core_percent"] = _linked_tensor_share(kernels, linked[on][mine.kernel], conventions)
        busy = intervals.intersect(intervals.union(mine.start, mine.end), _single(window))
        rows.append(
            {
                "device": None if number < 0 else number,
                "name": None if (described := trace.info.device(number)) is None else described.name,
                "busy_percent": 100 * intervals.length(busy) / (window[1] - window[0]),
                **metrics,
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def _single(window: tuple[int, int]) -> intervals.Intervals:
    return np.array([window[0]]), np.array([window[1]])


def _kernel_metrics(kernels: Activities, window: tuple[int, int], conventions: Conventions) -> dict[str, float | None]:
    length = window[1] - window[0]
    start, end = np.clip(kernels.start, *window), np.clip(kernels.end, *window)
    lasting = end - start
    blocks = _floats(kernels.frame["blocks_per_sm"])
    told = kernels.frame if conventions.failed_occupancy_is_zero else with_estimated_occupancy(kernels.frame)
    occupancy = _floats(told["occupancy_percent"])
    rated = ~np.isnan(occupancy) & (occupancy >= 0) & (lasting > 0)
    with_blocks = blocks > 0
    tensor = names.matching(kernels.frame["name"], conventions.uses_tensor_cores)
    total = int(lasting.sum())
    return {
        "utilization_percent": 100 * intervals.length(intervals.union(start, end)) / length,
        "sm_efficiency_percent": 100 * _filled(start, end, blocks, with_blocks) / length if with_blocks.any() else None,
        "occupancy_percent": float((occupancy * lasting)[rated].sum()) / int(lasting[rated].sum())
        if rated.any()
        else None,
        "tensor_core_percent": 100 * int(lasting[tensor].sum()) / total if total else None,
    }


def _floats(values: pl.Series) -> NDArray[np.float64]:
    """Null as NaN."""
    if values.null_count() == values.len():
        return np.full(values.len(), np.nan)
    numbers: NDArray[np.float64] = values.fill_null(float("nan")).to_numpy()
    return numbers


def _filled(start: Ints, end: Ints, blocks: NDArray[np.float64], chosen: NDArray[np.bool_]) -> float:
    """The time integral of min(1, sum of the blocks per SM of the intervals that run), ns."""
    start, end, blocks = start[chosen], end[chosen], blocks[chosen]
    order = np.argsort(np.concatenate((start, end)), kind="stable")
    times = np.concatenate((start, end))[order]
    running = np.cumsum(np.concatenate((blocks, -blocks))[order])
    # rounding leaves small remainders where nothing runs
    count = np.cumsum(np.concatenate((np.ones(start.size, np.int64), np.full(end.size, -1)))[order])
    share = np.where(count > 0, np.minimum(running, 1.0), 0.0)
    return float((share[:-1] * np.diff(times)).sum())


def _linked_tensor_share(kernels: Activities, linked: NDArray[np.bool_], conventions: Conventions) -> float | None:
    """torch-tb-profiler's share: kernels of its operator tree, in and outside steps (`_calculate_tc_ratio`)."""
    if not linked.any():
        return None
    lasting = np.where(linked, kernels.end - kernels.start, 0)
    tensor = names.matching(kernels.frame["name"], conventions.uses_tensor_cores)
    return 100 * int(lasting[tensor].sum()) / int(lasting.sum())


def _launched_by_operators(trace: Trace, work: Activities) -> NDArray[np.bool_]:
    """Activities whose runtime call, found by correlation, carries the `External id` of an operator."""
    operators = trace.host.filter(pl.col("kind") == "operator").select(
        "external_id", text=pl.col("name").cast(pl.String)
    )
    ids = operators.filter(~pl.col("text").str.starts_with("Optimizer."))["external_id"].drop_nulls()
    calls = trace.host.filter((pl.col("kind") == "runtime") & pl.col("external_id").is_in(ids.implode()))
    return (
        work.frame["correlation"].is_in(calls["correlation"].drop_nulls().implode()).fill_null(value=False).to_numpy()
    )


def utilization_timeline(work: Activities, device: int, window: tuple[int, int]) -> pl.DataFrame:
    """How busy a device's kernels kept it over time: start (ns), utilization_percent.

    The window (the recording) is cut into 11 to 100 buckets of a power of ten microseconds, what is left of it
    belonging to the last one, as in torch-tb-profiler (`calculate_gpu_utilization`).
    """
    size = 1000
    while window[1] - window[0] > 100 * size:
        size *= 10
    count = (window[1] - window[0]) // size
    if count < 1:
        return pl.DataFrame(schema={"start": pl.Int64, "utilization_percent": pl.Float64})
    start = window[0] + size * np.arange(count)
    end = np.append(start[1:], window[1])
    mine = work.where(work.kernel & (work.column("device") == device))
    busy = intervals.covered(intervals.union(mine.start, mine.end), start, end)
    return pl.DataFrame({"start": start, "utilization_percent": 100 * busy / (end - start)})
