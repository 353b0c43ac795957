"""What the GPU's own counters say over time, sampled by nsys: on average, and while each kernel ran."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tracetui.analysis.gpu.steps import recorded
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Floats, Ints
from tracetui.parsers.nsys.beside import Beside, beside

KNOWN = {
    "sm_active_percent": r"SMs? Active\b",
    "sm_issue_percent": r"SM (Warp )?Issue|SM Instructions Issued",
    "tensor_percent": r"Tensor (Active|Pipe)",
    "warps_percent": r"Compute Warps in Flight",
    "dram_read_percent": r"(D|V)RAM Read",
    "dram_write_percent": r"(D|V)RAM Write",
    "pcie_rx_percent": r"PCIe (RX|Read)",
    "pcie_tx_percent": r"PCIe (TX|Write)",
    "nvlink_rx_percent": r"NVLink RX",
    "nvlink_tx_percent": r"NVLink TX",
    "clock_mhz": r"GPC Clock",
}
"""The metrics that have a column, by the beginning of their names, which differ from chip to chip."""
CURVE = 120
"""Points of a metric's curve over the sampled time."""
GPU_BITS = 0xFF
"""The part of a type's number that is the GPU's."""
SAMPLES: dict[str, pl.DataType] = {
    "device": pl.Int64(),
    "kernel": pl.String(),
    "calls": pl.Int64(),
    "total_ns": pl.Int64(),
    "samples": pl.Float64(),
    **dict.fromkeys(KNOWN, pl.Float64()),
    "metrics": pl.List(
        pl.Struct({"metric": pl.String(), "unit": pl.String(), "mean": pl.Float64(), "curve": pl.List(pl.Float64())})
    ),
}
_UNIT = re.compile(r"(?P<name>.*?)\s*\[(?:Throughput )?(?P<unit>[^\[\]]*)\]$")


@dataclass(frozen=True, slots=True)
class Sampled:
    """One metric of one GPU over time."""

    device: int
    name: str
    unit: str
    time: Ints
    """Ascending; a sample is about the time since the one before it."""
    value: Floats

    def means(self, start: Ints, end: Ints, group: Ints, groups: int) -> Floats:
        """The mean over the stretches of each group, as far as samples cover them; NaN where they cover none."""
        if self.time.size < 2:
            return np.full(groups, np.nan)
        steps = np.diff(self.time)
        running = np.append(0.0, np.cumsum(self.value[1:] * steps))
        low, high = np.clip(start, self.time[0], self.time[-1]), np.clip(end, self.time[0], self.time[-1])
        sums = np.interp(high, self.time, running) - np.interp(low, self.time, running)
        total = np.bincount(group, weights=sums, minlength=groups)
        covered = np.bincount(group, weights=(high - low).astype(np.float64), minlength=groups)
        means: Floats = np.divide(total, covered, out=np.full(groups, np.nan), where=covered > 0)
        return means

    def curve(self, low: int, high: int) -> list[float | None]:
        """The mean in each of `CURVE` equal parts of a stretch; None where no sample is."""
        edges = np.linspace(low, high, CURVE + 1).astype(np.int64)
        means = self.means(edges[:-1], edges[1:], np.arange(CURVE), CURVE)
        return [None if np.isnan(value) else float(value) for value in means]


def sampled(sel: Selection) -> list[Sampled]:
    """Every metric that the GPUs' samples have, by GPU and the metric's number; none where nothing was sampled."""
    with beside(sel.trace) as file:
        return [] if file is None else _read(file)


def _read(file: Beside) -> list[Sampled]:
    names = {
        (row["typeId"], row["metricId"]): row["metricName"]
        for row in file.small().rows("TARGET_INFO_GPU_METRICS", "typeId", "metricId", texts=("metricName",))
        if row["metricName"]
    }
    rows = file.whole("GPU_METRICS", "timestamp", "typeId", "metricId", "value").drop_nulls()
    metrics: list[tuple[int, Sampled]] = []
    cuda_of = file.metadata().cuda_of
    for (kind, metric), group in rows.sort("timestamp").group_by("typeId", "metricId", maintain_order=True):
        spelled = names.get((kind, metric), f"metric {metric}")
        match = _UNIT.fullmatch(spelled)
        name, unit = (match["name"], match["unit"]) if match else (spelled, "")
        value = group["value"].to_numpy().astype(np.float64)
        if unit == "MHz" and value.max(initial=0.0) > 1e5:  # the file has them in Hz, whatever the name says
            value = value / 1e6
        gpu = int(str(kind)) & GPU_BITS
        sampling = Sampled(cuda_of.get(gpu, gpu), name, unit, group["timestamp"].to_numpy(), value)
        metrics.append((int(str(metric)), sampling))
    return [sampling for _, sampling in sorted(metrics, key=lambda entry: (entry[1].device, entry[0]))]


def gpu_samples(sel: Selection) -> pl.DataFrame:
    """A row per GPU for all of the recorded time, then one per kernel, the most time first.

    Returns:
        device, kernel (null for all of the time), calls, total_ns, samples (how many periods of sampling that is: a
        kernel with less than one for each launch shares its samples with its neighbours, and has no means), a column
        for each of `KNOWN`, and metrics: every metric with its unit and mean.
    """
    metrics, span = sampled(sel), recorded(sel)
    if not metrics or span is None:
        return pl.DataFrame(schema=SAMPLES)
    kernels = sel.device.filter(pl.col("kind").is_in(["kernel", "graph"]), pl.col("start").is_not_null())
    rows: list[dict[str, Any]] = []
    for device in sorted({metric.device for metric in metrics}):
        own = [metric for metric in metrics if metric.device == device]
        rows += _of_device(own, kernels.filter(device=device), span)
    return pl.DataFrame(rows, schema=SAMPLES)


def _of_device(metrics: list[Sampled], kernels: pl.DataFrame, span: tuple[int, int]) -> list[dict[str, Any]]:
    device, time = metrics[0].device, metrics[0].time
    period = float(np.median(np.diff(time))) if time.size > 1 else float("nan")
    named = kernels.select(pl.col("name").cast(pl.String), "start", end=pl.col("start") + pl.col("duration"))
    sums = named.group_by("name").agg(calls=pl.len(), total=(pl.col("end") - pl.col("start")).sum())
    sums = sums.sort("total", "name", descending=[True, False]).with_row_index("group")
    placed = named.join(sums, on="name", nulls_equal=True)
    groups = sums.height + 1
    start = np.append(placed["start"].to_numpy(), span[0])
    end = np.append(placed["end"].to_numpy(), span[1])
    group = np.append(placed["group"].to_numpy(), sums.height).astype(np.int64)
    means = [(metric, metric.means(start, end, group, groups)) for metric in metrics]
    covered = max(int(min(span[1], time[-1]) - max(span[0], time[0])), 0)
    heads: list[tuple[str | None, int | None, int]] = [(None, None, covered)]
    heads += [(name, calls, total) for name, calls, total in sums.select("name", "calls", "total").iter_rows()]
    rows = []
    for place, (name, calls, total) in enumerate(heads):
        at = sums.height if place == 0 else place - 1
        # samples of launches that are shorter than a sample are of their neighbours too
        mixed = calls is not None and not total >= calls * period
        values = [(metric, None if mixed or np.isnan(mean[at]) else float(mean[at])) for metric, mean in means]
        rows.append(
            {
                "device": device,
                "kernel": name,
                "calls": calls,
                "total_ns": total,
                "samples": total / period if period > 0 else None,
                **{column: _mean_of(values, column, pattern) for column, pattern in KNOWN.items()},
                "metrics": [
                    {
                        "metric": metric.name,
                        "unit": metric.unit,
                        "mean": value,
                        "curve": metric.curve(max(span[0], int(time[0])), min(span[1], int(time[-1])))
                        if place == 0 and covered
                        else [],
                    }
                    for metric, value in values
                ],
            }
        )
    return rows


def _mean_of(values: list[tuple[Sampled, float | None]], column: str, pattern: str) -> float | None:
    unit = "MHz" if column.endswith("mhz") else "%"
    return next((value for metric, value in values if metric.unit == unit and re.match(pattern, metric.name)), None)
