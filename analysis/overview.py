"""The first page: where a step's time goes, how busy the GPU is, and what the run waits for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals
from tracetui.analysis.base.conventions import CATEGORIES, TRACETUI, Conventions
from tracetui.analysis.dependencies.limit import Limit, limit
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.gpu_metrics import gpu_metrics
from tracetui.analysis.gpu.host_time import host_ranges
from tracetui.analysis.gpu.idle import gaps_of, shares
from tracetui.analysis.gpu.steps import StepSlots, step_slots

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.analysis.selection import Selection

__all__ = ["CATEGORIES", "Limit", "Overview", "overview"]


@dataclass(frozen=True)
class Overview:
    """The execution summary of a selection."""

    steps: int
    """How many steps the numbers are about; 0 where the trace has none and its whole extent stands for one."""
    base: str
    """What the numbers are about, in words."""
    average_step_ns: float
    per_step: pl.DataFrame
    """A row per step: index, name, start, duration_ns, a column ``<category>_ns`` for each of `CATEGORIES` (they sum to
    the duration), and computation_ns, collective_ns, overlap_ns: compute kernels, communication, and both at once."""
    average: pl.DataFrame
    """category, ns, percent: the mean over the steps, in the order of `CATEGORIES`."""
    gpu: pl.DataFrame
    """A row per device (see `gpu_metrics`)."""
    idle: pl.DataFrame
    """A row per device (stream null) and stream (see `idle`)."""
    overlap_percent: float | None
    """Share of communication time in which compute kernels run; None without communication."""
    sel: Selection

    @cached_property
    def verdict(self) -> Limit:
        """What the run waits for."""
        return limit(self.sel, self.base, "a step" if self.steps else "the recording")


def overview(sel: Selection, conventions: Conventions = TRACETUI) -> Overview:
    """Splits the steps in scope into categories and sums up the GPU's part.

    Time that several categories claim belongs to the first of `conventions.priority`; all devices and
    threads count together (torch-tb-profiler's `OverallParser`).
    """
    slots = step_slots(sel, conventions)
    work = activities(sel, conventions)
    ranges = host_ranges(sel.trace, conventions)
    for category, chosen in (
        ("kernel", work.compute),
        ("communication", work.communication),
        ("memcpy", work.memcpy),
        ("memset", work.memset),
    ):
        ranges[category] = _join(ranges.get(category), intervals.union(work.start[chosen], work.end[chosen]))
    per_step = _per_step(slots, ranges, conventions)
    average = _average(per_step)
    window = (int(slots.start[0]), int(slots.end[-1])) if slots.start.size else None
    idle_frame = shares(gaps_of(sel.trace, work, window, conventions))
    gpu = gpu_metrics(sel.trace, work, window, conventions)
    collective = int(per_step["collective_ns"].sum())
    base = _base(sel, slots)
    return Overview(
        steps=len(slots.index) if slots.marked else 0,
        base=base,
        average_step_ns=_mean(per_step["duration_ns"]),
        per_step=per_step,
        average=average,
        gpu=gpu,
        idle=idle_frame,
        overlap_percent=100 * int(per_step["overlap_ns"].sum()) / collective if collective else None,
        sel=sel,
    )


def _base(sel: Selection, slots: StepSlots) -> str:
    """`Selection.describe`, with the steps that a marked range cuts."""
    if sel.scope.window is None or not slots.marked:
        return sel.describe()
    first, last = (slots.index[0], slots.index[-1]) if slots.index else (None, None)
    steps = "no step" if first is None else f"step {first}" if first == last else f"steps {first}-{last}"
    return ", ".join([steps, *sel.describe().split(", ")[1:]])


def _join(first: Intervals | None, second: Intervals) -> Intervals:
    """The union of two sets."""
    if first is None or not first[0].size:
        return second
    if not second[0].size:
        return first
    return intervals.union(np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1])))


def _per_step(slots: StepSlots, ranges: dict[str, Intervals], conventions: Conventions) -> pl.DataFrame:
    start, end = slots.start, slots.end
    duration = end - start
    claimed: dict[str, Ints] = {}
    given = intervals.empty()
    assigned = np.zeros(start.size, np.int64)
    for category in conventions.priority:
        if conventions.restart_empty_slots and int(assigned.sum()) == int(duration.sum()):
            given, assigned = intervals.empty(), np.zeros(start.size, np.int64)
        given = _join(given, ranges[category])
        total = intervals.covered(given, start, end)
        claimed[category] = total - assigned
        assigned = total
    claimed["other"] = duration - assigned
    compute = ranges["kernel"]
    if conventions.communication == "operators" and not compute[0].size:
        compute = ranges["cpu_exec"]
    collective = ranges["communication"]
    return pl.DataFrame(
        {
            "index": pl.Series(slots.index, dtype=pl.Int64),
            "name": pl.Series(slots.name, dtype=pl.String),
            "start": start,
            "duration_ns": duration,
            **{f"{category}_ns": claimed[category] for category in CATEGORIES},
            "computation_ns": intervals.covered(compute, start, end),
            "collective_ns": intervals.covered(collective, start, end),
            "overlap_ns": intervals.covered(intervals.intersect(compute, collective), start, end),
        }
    )


def _mean(values: pl.Series) -> float:
    return float(values.sum()) / max(len(values), 1)


def _average(per_step: pl.DataFrame) -> pl.DataFrame:
    step = _mean(per_step["duration_ns"])
    means = [_mean(per_step[f"{category}_ns"]) for category in CATEGORIES]
    return pl.DataFrame(
        {"category": CATEGORIES, "ns": means, "percent": [100 * mean / step if step else 0.0 for mean in means]},
        schema={"category": pl.String, "ns": pl.Float64, "percent": pl.Float64},
    )
