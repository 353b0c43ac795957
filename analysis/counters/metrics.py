"""The quantities that counters measure: Nsight Compute's by raw name and by label, old and new, and ROCm's derived.

And what a file leaves unknown: metrics that it lacks, with the command that collects them, and launches after a limit.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

if TYPE_CHECKING:
    from tracetui.parsers import Trace
    from tracetui.parsers.runs.manifest import RunManifest


class Metric(Struct, frozen=True):
    """One quantity of a launch and the names it goes by."""

    column: str
    label: str
    unit: str
    """Base unit; a counter of another unit is not this quantity, whatever its name (an empty one passes)."""
    raw: tuple[str, ...]
    """Metric names, the preferred one first."""
    labels: tuple[str, ...] = ()
    """What the details page calls it, since 2020."""
    section: str = ""
    """Identifier of the section that collects it."""


ELAPSED = "avg.pct_of_peak_sustained_elapsed"
ACTIVE = "avg.pct_of_peak_sustained_active"
METRICS = (
    Metric(
        "duration_ns",
        "duration",
        "ns",
        ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max"),
        ("Duration",),
        "SpeedOfLight",
    ),
    Metric("duration_min_ns", "shortest", "ns", (), ("Duration (minimum)",)),
    Metric("duration_max_ns", "longest", "ns", (), ("Duration (maximum)",)),
    Metric(
        "sm_percent",
        "SM",
        "%",
        (f"sm__throughput.{ELAPSED}",),
        ("Compute (SM) Throughput", "Compute (SM) [%]", "SM [%]", "SOL SM"),
        "SpeedOfLight",
    ),
    Metric(
        "memory_percent",
        "memory",
        "%",
        (f"gpu__compute_memory_throughput.{ELAPSED}",),
        ("Memory Throughput", "Memory [%]", "SOL Memory"),
        "SpeedOfLight",
    ),
    Metric(
        "dram_percent",
        "DRAM",
        "%",
        (f"gpu__dram_throughput.{ELAPSED}", f"dram__throughput.{ELAPSED}"),
        ("DRAM Throughput", "SOL DRAM", "SOL FB"),
        "SpeedOfLight",
    ),
    Metric(
        "l1_percent",
        "L1",
        "%",
        (f"l1tex__throughput.{ACTIVE}", f"l1tex__throughput.{ELAPSED}"),
        ("L1/TEX Cache Throughput", "SOL L1/TEX Cache", "SOL TEX"),
        "SpeedOfLight",
    ),
    Metric(
        "l2_percent",
        "L2",
        "%",
        (f"lts__throughput.{ELAPSED}",),
        ("L2 Cache Throughput", "SOL L2 Cache", "SOL L2"),
        "SpeedOfLight",
    ),
    Metric(
        "l1_hit_percent",
        "L1 hit rate",
        "%",
        ("l1tex__t_sector_hit_rate.pct",),
        ("L1/TEX Hit Rate", "L1 Hit Rate"),
        "MemoryWorkloadAnalysis",
    ),
    Metric(
        "l2_hit_percent",
        "L2 hit rate",
        "%",
        ("lts__t_sector_hit_rate.pct", "L2CacheHit"),
        ("L2 Hit Rate",),
        "MemoryWorkloadAnalysis",
    ),
    Metric(
        "occupancy_percent",
        "achieved occupancy",
        "%",
        (f"sm__warps_active.{ACTIVE}", "OccupancyPercent"),
        ("Achieved Occupancy",),
        "Occupancy",
    ),
    Metric(
        "theoretical_occupancy_percent",
        "theoretical occupancy",
        "%",
        ("sm__maximum_warps_per_active_cycle_pct",),
        ("Theoretical Occupancy",),
        "Occupancy",
    ),
    Metric(
        "waves",
        "waves",
        "",
        ("launch__waves_per_multiprocessor",),
        ("Waves Per SM",),
        "LaunchStats",
    ),
    Metric(
        "tensor_percent",
        "tensor pipe",
        "%",
        (
            f"sm__pipe_tensor_cycles_active.{ACTIVE}",
            f"sm__pipe_tensor_cycles_active.{ELAPSED}",
            f"sm__inst_executed_pipe_tensor.{ACTIVE}",
            f"sm__inst_executed_pipe_tensor.{ELAPSED}",
            f"smsp__pipe_tensor_cycles_active.{ACTIVE}",
            f"smsp__pipe_tensor_cycles_active.{ELAPSED}",
            f"smsp__inst_executed_pipe_tensor.{ACTIVE}",
            f"smsp__inst_executed_pipe_tensor.{ELAPSED}",
        ),
        (),
        "ComputeWorkloadAnalysis",
    ),
    Metric("invocations", "launches", "", (), ("Invocations",)),
    Metric("grid_size", "blocks", "", ("launch__grid_size",), ("Grid Size",)),
    Metric("block_size", "threads per block", "", ("launch__block_size",), ("Block Size",)),
    Metric("limit_registers", "", "block", ("launch__occupancy_limit_registers",), ("Block Limit Registers",)),
    Metric("limit_shared", "", "block", ("launch__occupancy_limit_shared_mem",), ("Block Limit Shared Mem",)),
    Metric("limit_warps", "", "block", ("launch__occupancy_limit_warps",), ("Block Limit Warps",)),
    Metric("limit_blocks", "", "block", ("launch__occupancy_limit_blocks",), ("Block Limit SM",)),
    Metric("limit_barriers", "", "block", ("launch__occupancy_limit_barriers",), ("Block Limit Barriers",)),
    Metric("dram_total", "", "byte", ("dram__bytes.sum",)),
    Metric("dram_read", "", "byte", ("dram__bytes_read.sum", "dram__bytes_op_read.sum", "FETCH_SIZE", "FetchSize")),
    Metric(
        "dram_written", "", "byte", ("dram__bytes_write.sum", "dram__bytes_op_write.sum", "WRITE_SIZE", "WriteSize")
    ),
    Metric("dram_rate", "", "byte/s", ("dram__bytes.sum.per_second",), ("Memory Throughput",)),
)
"""Every quantity that is looked up by name; `launch_counters` describes those that reach its table."""

PERCENTAGES = (
    "sm_percent", "memory_percent", "dram_percent", "l1_percent", "l2_percent", "l1_hit_percent", "l2_hit_percent",
    "occupancy_percent", "theoretical_occupancy_percent", "tensor_percent",
)  # fmt: skip
"""Columns that hold a percentage."""
LIMITS = {
    "limit_registers": "registers",
    "limit_shared": "shared memory",
    "limit_warps": "warps",
    "limit_blocks": "blocks",
    "limit_barriers": "barriers",
}
"""What a limit of resident blocks is set by."""
ALWAYS_PRINTED = ("limit_registers", "limit_shared", "limit_warps", "limit_blocks")
"""Limits that must all be known to tell the smallest; ncu has a limit by barriers since 2024."""


def by_column(column: str) -> Metric:
    """The metric of a column."""
    return next(metric for metric in METRICS if metric.column == column)


_COUNTED = re.compile(r"[0-9]{1,18}")
COUNT = ("--launch-count", "-c")
CHOSEN = ("--kernel-name", "-k", "--nvtx-include")
"""Options that choose what is measured: the launches are then no beginning of the run."""


def stopped_at(trace: Trace, manifest: RunManifest | None) -> int | None:
    """How many launches ncu was told to measure, where it measured so many of all; None otherwise, or if not known.

    Args:
        trace: a report of Nsight Compute.
        manifest: its run's run.json, which has the command.
    """
    for command in manifest.measurement.commands if manifest is not None else ():
        words = [part for word in command for part in word.split("=", 1)]
        limits = [value for name, value in pairwise(words) if name in COUNT and _COUNTED.fullmatch(value)]
        if limits and not set(CHOSEN) & set(words):
            limit = int(limits[-1])
            return limit if 0 < limit <= trace.device.height else None
    return None


_MISSABLE = {
    "sm_percent": "SpeedOfLight",
    "memory_percent": "SpeedOfLight",
    "dram_percent": "SpeedOfLight",
    "l1_hit_percent": "MemoryWorkloadAnalysis",
    "l2_hit_percent": "MemoryWorkloadAnalysis",
    "occupancy_percent": "Occupancy",
    "theoretical_occupancy_percent": "Occupancy",
    "occupancy_limiter": "Occupancy",
    "registers": "LaunchStats",
    "waves": "LaunchStats",
    "tensor_percent": "ComputeWorkloadAnalysis",
}
"""Columns whose absence is reported, and the section that collects each."""
_WORDS = {
    "SpeedOfLight": "SM, memory and DRAM throughput",
    "MemoryWorkloadAnalysis": "L1 and L2 hit rates",
    "Occupancy": "occupancy",
    "LaunchStats": "registers and waves",
    "ComputeWorkloadAnalysis": "tensor pipe",
}


class NotCollected(Struct, frozen=True):
    """What the counters of a file leave unknown, and what would collect it."""

    what: tuple[str, ...]
    """In words, with the section in brackets."""
    command: str


def not_collected(trace: Trace, launches: pl.DataFrame) -> NotCollected | None:
    """What is missing from every launch; None where nothing is.

    Args:
        trace: the trace, whose page tells whether a section was collected but not printed.
        launches: what `launch_counters` gives.
    """
    if not launches.height or trace.info.tool.startswith("AMD"):  # its counters have no sections
        return None
    absent = launches["missing"].explode().drop_nulls().unique(maintain_order=True).to_list()
    everywhere = [name for name in absent if launches["missing"].list.contains(name).all()]
    if not everywhere:
        return None
    sections = [name for name in everywhere if name in _WORDS]
    metrics = [name for name in everywhere if name not in _WORDS]
    printed = trace.counters["section"].unique().cast(pl.String).drop_nulls().to_list()
    on_raw_page = "ComputeWorkloadAnalysis" in sections and "Compute Workload Analysis" in printed
    labels = {name: metric.label for metric in METRICS for name in metric.raw}
    words = [f"{_WORDS[name]} ({name})" for name in sections]
    words += [f"{labels.get(name, 'occupancy limits')} ({name})" for name in metrics]
    if on_raw_page and sections == ["ComputeWorkloadAnalysis"] and not metrics:
        return NotCollected(("tensor pipe (on the raw page only)",), "ncu --import REPORT.ncu-rep --csv --page raw")
    chosen = f"--set basic --section {sections[0]}" if len(sections) == 1 and not metrics else "--set full"
    return NotCollected(tuple(words), f"ncu {chosen} --csv --page raw --log-file counters.csv PROGRAM")


def missing() -> pl.Expr:
    """Sections of which nothing is known, and metrics that are absent from sections that are there."""
    named: list[pl.Expr] = []
    for section in dict.fromkeys(_MISSABLE.values()):
        columns = [column for column, owner in _MISSABLE.items() if owner == section]
        wanted = ["tensor_percent", "tensor_cores"] if "tensor_percent" in columns else columns
        gone = pl.all_horizontal(pl.col(column).is_null() for column in wanted)
        named.append(pl.when(gone).then(pl.lit(section)))
        for column in columns:
            names = {
                "occupancy_limiter": "launch__occupancy_limit_*",
                "registers": "launch__registers_per_thread",
            }
            name = names.get(column) or by_column(column).raw[0]
            if len(columns) > 1:
                named.append(pl.when(~gone & pl.col(column).is_null()).then(pl.lit(name)))
    return pl.concat_list(named).list.drop_nulls()
