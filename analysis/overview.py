"""The first page: where a step's time goes, how busy the GPU and the host are, and what the run waits for."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.conventions import CATEGORIES, TRACETUI, Conventions
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.dependencies.limit import Limit, limit
from tracetui.analysis.gpu.activities import Activities, activities, by_value, distinct
from tracetui.analysis.gpu.idle import gaps_of, shares
from tracetui.analysis.gpu.occupancy import tensor_cores_known, with_estimated_occupancy
from tracetui.analysis.gpu.steps import StepSlots, extent, setup, step_slots
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Bools, Floats, Ints
from tracetui.parsers.names.collectives import is_host_collective

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
    device = work.column("device")
    rows = []
    for number, on in by_value(device):
        mine = work.at(on)
        kernels = mine.where(mine.kernel)
        if kernels.start.size:
            metrics = _kernel_metrics(kernels, window, conventions)
        else:  # the kernels inside a graph that was recorded as one activity are not known
            metrics = {"utilization_percent": None if mine.compute.any() else 0.0}
        if not tensor_cores_known(trace):
            metrics["tensor_core_percent"] = None
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
    occupancy = _floats(with_estimated_occupancy(kernels.frame)["occupancy_percent"])
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


def _floats(values: pl.Series) -> Floats:
    """Null as NaN."""
    if values.null_count() == values.len():
        return np.full(values.len(), np.nan)
    numbers: Floats = values.fill_null(float("nan")).to_numpy()
    return numbers


def _filled(start: Ints, end: Ints, blocks: Floats, chosen: Bools) -> float:
    """The time integral of min(1, sum of the blocks per SM of the intervals that run), ns."""
    start, end, blocks = start[chosen], end[chosen], blocks[chosen]
    order = np.argsort(np.concatenate((start, end)), kind="stable")
    times = np.concatenate((start, end))[order]
    running = np.cumsum(np.concatenate((blocks, -blocks))[order])
    # rounding leaves small remainders where nothing runs
    count = np.cumsum(np.concatenate((np.ones(start.size, np.int64), np.full(end.size, -1)))[order])
    share = np.where(count > 0, np.minimum(running, 1.0), 0.0)
    return float((share[:-1] * np.diff(times)).sum())


OPERATOR, ANNOTATION, DATALOADER, RUNTIME, DRIVER = (
    schema.HOST_KINDS.index(kind) for kind in ("operator", "annotation", "dataloader", "runtime", "driver")
)


def host_ranges(trace: Trace) -> dict[str, Intervals]:
    """When at least one host thread was in an API call, in the data loader, or in other operators and annotations.

    As in torch-tb-profiler (`StepParser._parse_step`): step marks, modules, Python functions and the profiler's own
    overhead are none of these. Its "communication" holds host time as well, and so does ours where no GPU worked:
    there gloo's operators exchange what the ranks share.
    """
    kind = trace.host["kind"].to_physical().to_numpy()
    start = trace.host["start"].to_numpy()
    end = start + trace.host["duration"].to_numpy()
    runtime = (kind == RUNTIME) | (kind == DRIVER)
    busy = (kind == OPERATOR) | (kind == ANNOTATION)
    steps = frozenset(trace.steps["name"])
    is_step = names.matching(trace.host["name"], lambda name: name in steps or name.startswith("ProfilerStep#"))
    busy &= ~(is_step & (kind == ANNOTATION))
    ranges = {
        "runtime": intervals.union(start[runtime], end[runtime]),
        "dataloader": intervals.union(start[kind == DATALOADER], end[kind == DATALOADER]),
    }
    if not trace.device.height:
        rows = np.flatnonzero(busy)
        collective = rows[names.matching(trace.host["name"][rows], is_host_collective)]
        busy[collective] = False
        ranges["communication"] = intervals.union(start[collective], end[collective])
    ranges["cpu_exec"] = intervals.union(start[busy], end[busy])
    return ranges


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
    """A row per device (stream null) and stream (see `shares`)."""
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
    """The name of the program's ranges that are the steps; None where the profiler marked them or there are none."""
    as_recorded: Overview | None = None
    """The overview of the rich recording, where the numbers are those of the light one of the same run (see
    `matching.light_overview`); what the host was doing is None then, except for API calls."""
    conventions: Conventions = TRACETUI
    """By which definitions these are."""

    @cached_property
    def verdict(self) -> Limit:
        """What the run waits for."""
        return limit(self.sel, self.base, "a step" if self.steps else "the run")


def overview(sel: Selection, conventions: Conventions = TRACETUI) -> Overview:
    """Splits the steps in scope into categories and sums up the GPU's part.

    Time that several categories claim belongs to the first of `CATEGORIES`; all devices and
    threads count together (torch-tb-profiler's `OverallParser`).
    """
    slots = step_slots(sel)
    work = activities(sel)
    ranges = host_ranges(sel.trace)
    for category, chosen in (
        ("kernel", work.compute),
        ("communication", work.communication),
        ("memcpy", work.memcpy),
        ("memset", work.memset),
    ):
        ranges[category] = _join(ranges.get(category), intervals.union(work.start[chosen], work.end[chosen]))
    per_step = _per_step(slots, ranges)
    if len(distinct(work.column("device"))) > 1:
        per_step = per_step.with_columns(**_by_gpu(work, slots))
    average = _average(per_step)
    window = (int(slots.start[0]), int(slots.end[-1])) if slots.start.size else None
    idle_frame = shares(gaps_of(sel.trace, work, window))
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
        conventions=conventions,
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
    if first is None or not first[0].size:
        return second
    if not second[0].size:
        return first
    return intervals.union(np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1])))


def _per_step(slots: StepSlots, ranges: dict[str, Intervals]) -> pl.DataFrame:
    start, end = slots.start, slots.end
    duration = end - start
    claimed: dict[str, Ints] = {}
    given = intervals.empty()
    assigned = np.zeros(start.size, np.int64)
    for category in CATEGORIES[:-1]:
        given = _join(given, ranges[category])
        total = intervals.covered(given, start, end)
        claimed[category] = total - assigned
        assigned = total
    claimed["other"] = duration - assigned
    compute, collective = ranges["kernel"], ranges["communication"]
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
