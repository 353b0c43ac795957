"""The first page: where a step's time goes, how busy the GPU is, and what the run waits for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import intervals
from tracetui.analysis.base.conventions import CATEGORIES, TRACETUI, Conventions
from tracetui.analysis.dependencies.limit import Limit, limit
from tracetui.analysis.gpu.activities import activities, by_value, distinct
from tracetui.analysis.gpu.gpu_metrics import gpu_metrics
from tracetui.analysis.gpu.host_time import host_ranges
from tracetui.analysis.gpu.idle import gaps_of, shares
from tracetui.analysis.gpu.steps import StepSlots, extent, setup, step_slots

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.analysis.gpu.activities import Activities
    from tracetui.analysis.selection import Selection

__all__ = ["CATEGORIES", "Limit", "Overview", "overview"]


class Overview(Struct, frozen=True, dict=True):
    """The execution summary of a selection."""

    steps: int
    """How many steps the numbers are about; 0 where the trace has none: then the time from the first GPU work to the
    last stands for one, or without GPU work all that was recorded."""
    base: str
    """What the numbers are about, in words."""
    average_step_ns: float
    per_step: pl.DataFrame
    """A row per step: index, name, start, duration_ns, a column ``<category>_ns`` for each of `CATEGORIES` (they sum to
    the duration), and computation_ns, collective_ns, overlap_ns: compute kernels, communication, and both at once on
    one GPU, summed over the GPUs."""
    average: pl.DataFrame
    """category, ns, percent: the mean over the steps, in the order of `CATEGORIES`."""
    gpu: pl.DataFrame
    """A row per device (see `gpu_metrics`)."""
    idle: pl.DataFrame
    """A row per device (stream null) and stream (see `idle`)."""
    overlap_percent: float | None
    """Share of communication time in which compute kernels run; None without communication."""
    sel: Selection
    recorded_ns: int | None
    """How long the whole recording is."""
    setup_ns: int | None
    """What was recorded before the first step, or before the first GPU work where there are none. A warm-up comes
    after the setup; neither is part of any average."""
    warm_up: int
    """How many iterations before the first step were left out as a warm-up."""
    steps_of: str | None
    """The name of the program's ranges that are the steps; null where the profiler marked them or there are none."""
    as_recorded: Overview | None = None
    """The overview of the rich recording, where the numbers are those of the light one of the same run (see
    `matching.light_overview`); what the host was doing is null then, except for API calls."""

    @cached_property
    def verdict(self) -> Limit:
        """What the run waits for."""
        return limit(self.sel, self.base, "a step" if self.steps else "the GPU's work")


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
    if conventions.communication == "kernels" and len(distinct(work.column("device"))) > 1:
        per_step = per_step.with_columns(**_by_gpu(work, slots))
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
        recorded_ns=None if (whole := extent(sel.trace)) is None else whole[1] - whole[0],
        setup_ns=setup(sel.trace),
        warm_up=0 if sel.trace.marked_by is None else sel.trace.marked_by.warm_up,
        steps_of=None if sel.trace.marked_by is None else sel.trace.marked_by.name,
    )


def _by_gpu(work: Activities, slots: StepSlots) -> dict[str, Ints]:
    """Compute, communication and both at once of each GPU, summed: what one computes can't hide another's waiting."""
    sums = {name: np.zeros(slots.start.size, np.int64) for name in ("computation_ns", "collective_ns", "overlap_ns")}
    for _, on in by_value(work.column("device")):
        mine = work.at(on)
        compute, collective = (
            intervals.union(mine.start[chosen], mine.end[chosen]) for chosen in (mine.compute, mine.communication)
        )
        both = intervals.intersect(compute, collective)
        for name, times in zip(sums, (compute, collective, both), strict=True):
            sums[name] += intervals.covered(times, slots.start, slots.end)
    return sums


def _base(sel: Selection, slots: StepSlots) -> str:
    """`Selection.describe`, with the steps that a marked range cuts."""
    if sel.scope.window is None or not slots.marked:
        return sel.describe()
    steps = sel.spoken_steps(slots.index[0], slots.index[-1]) if slots.index else "no step"
    return steps + sel.restrictions()


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
