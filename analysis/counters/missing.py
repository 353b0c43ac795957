"""What the counters of a file leave unknown, and the command that would collect it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.counters.metrics import METRICS, by_column

if TYPE_CHECKING:
    from tracetui.parsers import Trace

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
    if not launches.height:
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
        known = ["tensor_percent", "tensor_cores"] if "tensor_percent" in columns else columns
        gone = pl.all_horizontal(pl.col(column).is_null() for column in known)
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
