"""The quantities that Nsight Compute's counters measure, by raw name and by label of the details page, old and new."""

from __future__ import annotations

from msgspec import Struct


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
        ("lts__t_sector_hit_rate.pct",),
        ("L2 Hit Rate",),
        "MemoryWorkloadAnalysis",
    ),
    Metric(
        "occupancy_percent",
        "achieved occupancy",
        "%",
        (f"sm__warps_active.{ACTIVE}",),
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
    Metric("dram_read", "", "byte", ("dram__bytes_read.sum", "dram__bytes_op_read.sum")),
    Metric("dram_written", "", "byte", ("dram__bytes_write.sum", "dram__bytes_op_write.sum")),
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
