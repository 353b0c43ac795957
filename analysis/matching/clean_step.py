"""The one step that a page is of: the clean one by a replay, else the light recording's, else the recorded one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace as msgspec_replace

from tracetui.analysis.base import intervals
from tracetui.analysis.base.conventions import CATEGORIES, GPU_CATEGORIES
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.dependencies.costs import step_edges, step_ends, that_count
from tracetui.analysis.dependencies.limit import run_model
from tracetui.analysis.dependencies.model import Model
from tracetui.analysis.dependencies.waits import NONE
from tracetui.analysis.gpu.activities import Activities, activities, by_value
from tracetui.analysis.gpu.idle import GAPS, gaps_of, shares
from tracetui.analysis.gpu.step_kinds import typical_ns, typical_steps
from tracetui.analysis.matching.light_overview import UNKNOWN
from tracetui.analysis.matching.light_times import light_selection
from tracetui.analysis.overview import Overview, host_ranges, overview
from tracetui.analysis.selection import Selection, select
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.runs.run import LIGHT

Of: TypeAlias = Literal["clean", "light", "recorded"]

HOST_KINDS = {"runtime": "runtime", "dataloader": "dataloader", "cpu_exec": "operator"}
"""What the host does between the graph's calls, and the kind of a host row that counts as it.

API calls too: of a copy from pageable memory the graph's call is only the part behind its staging.
"""


class PageStep(Struct, frozen=True):
    """The step that a page's shares are of."""

    of: Of
    ns: float
    """The median step, which is the headline's; without a replay, the mean."""
    average: pl.DataFrame
    """category, ns, percent: the mean of each step's shares, and these parts of `ns`."""
    gpu: pl.DataFrame
    """A row per device (`overview.gpu_metrics`)."""
    idle: pl.DataFrame
    """A row per device (stream null) and stream (`gpu.idle`): the causes are shares of the idle time."""
    steps: int
    """How many steps the shares are the mean of."""
    mean_ns: float
    """The mean length of these, which are not those without a profiler themselves."""
    off_percent: float | None = None
    """By how much the replayed median step is longer than the clean one; None of any other step."""
    recording_ns: float | None = None
    """The most that recording may have added; None of the clean step, and where that is not known."""

    @property
    def by_replay(self) -> bool:
        """Whether a replay says when everything happens."""
        return self.off_percent is not None

    @property
    def gpu_busy_percent(self) -> float:
        """The share of the step in which a GPU works."""
        return float(self.average.filter(pl.col("category").is_in(GPU_CATEGORIES))["percent"].sum())


@kept
def page_step(found: Overview) -> PageStep:
    """The step of a page: clean, light or recorded, the first of these that the run has.

    Args:
        found: the overview of the run (`light_overview.run_overview`).
    """
    model = None if found.sel.trace.info.kind == "jax" else run_model(found.sel)
    shown = light_selection(found.sel) or found.sel
    of: Of = "recorded" if found.as_recorded is None else "light"
    if model is None:
        ns = found.average_step_ns
        if (typical := typical_steps(shown)) is not None and typical.size == found.per_step.height:
            found = _of_steps(found, typical)
            ns = float(np.mean(found.per_step["duration_ns"].to_numpy()))
        if found.sel.clean_step_ns and found.per_step.height:
            of, ns = "clean", typical_ns(found.sel.clean_step_ns)
        return _step(of, shown, found, ns)
    if model.clean_ns is not None:
        sel = select(replayed_trace(model))
        off = 100 * (model.ends[0].median_ns / model.clean_ns - 1)
        replayed = overview(sel, found.conventions)
        replayed = _of_steps(replayed, that_count(model.graph, replayed.per_step.height))
        step = _step("clean", sel, replayed, model.clean_ns, off_percent=off)
        return step if model.sel.trace.info.recorded_pass != LIGHT else _without_host(step)
    if model.sel.trace is not shown.trace:
        found = overview(model.sel, found.conventions)
    of = "light" if model.sel.trace.info.recorded_pass == LIGHT else "recorded"
    added = max(model.recorded_ns - model.ends[-1].median_ns, 0.0)
    typical = model.graph.typical
    if typical is not None and typical.size == found.per_step.height and typical.any():
        found = _of_steps(found, typical)
    step = _step(of, model.sel, found, model.recorded_ns, recording_ns=added)
    return _without_host(step) if of == "light" else step


def _of_steps(found: Overview, chosen: Bools) -> Overview:
    """The overview with some of its steps: no mean is of steps that are not alike."""
    return msgspec_replace(found, per_step=found.per_step.filter(pl.Series(chosen)))


def path_of(sel: Selection) -> Of:
    """Which steps the critical path of a selection is of."""
    if sel.clean_step_ns:
        return "clean"
    return "light" if sel.trace.info.recorded_pass == LIGHT else "recorded"


def _step(
    of: Of,
    sel: Selection,
    found: Overview,
    ns: float,
    *,
    off_percent: float | None = None,
    recording_ns: float | None = None,
) -> PageStep:
    """The mean over these steps of the shares of each, as parts of one step that takes `ns`."""
    steps = found.per_step.filter(pl.col("duration_ns") > 0)
    percent = [_mean_share(steps[f"{category}_ns"], steps["duration_ns"]) for category in CATEGORIES]
    parts = [None if share is None else share * ns / 100 for share in percent]
    start = steps["start"].to_numpy()
    bounds = start, start + steps["duration_ns"].to_numpy()
    work = activities(sel)
    return PageStep(
        of=of,
        ns=ns,
        average=pl.DataFrame({"category": CATEGORIES, "ns": parts, "percent": percent}, schema=found.average.schema),
        gpu=_gpu_of_steps(found.gpu, work, bounds),
        idle=_idle_of_steps(gaps_of(sel.trace, work, _window(bounds)), bounds, ns),
        steps=steps.height,
        mean_ns=float(steps["duration_ns"].sum()) / max(steps.height, 1),
        off_percent=off_percent,
        recording_ns=recording_ns,
    )


def _mean_share(spent: pl.Series, lasting: pl.Series) -> float | None:
    """The mean of each step's percentage; 0 without steps, None where it is not known."""
    share = (spent / lasting).mean() if spent.len() else 0.0
    return None if share is None else 100 * float(share)  # type: ignore[arg-type]


def _without_host(step: PageStep) -> PageStep:
    """The step with what a light recording does not tell as unknown: it is part of its category ``other``."""
    told = pl.when(~pl.col("category").is_in(UNKNOWN)).then(pl.col("ns", "percent"))
    return msgspec_replace(step, average=step.average.with_columns(told))


def _window(bounds: Intervals) -> tuple[int, int] | None:
    return (int(bounds[0][0]), int(bounds[1][-1])) if bounds[0].size else None


def _covered_percent(times: Intervals, bounds: Intervals) -> float:
    """The mean over the steps of the share of each that these times cover; 0 without steps."""
    if not bounds[0].size:
        return 0.0
    return 100 * float((intervals.covered(times, *bounds) / (bounds[1] - bounds[0])).mean())


def _gpu_of_steps(metrics: pl.DataFrame, work: Activities, bounds: Intervals) -> pl.DataFrame:
    """The devices' metrics with busy, utilization and SM efficiency as shares of the step; the rest is of kernels."""
    rows = []
    for (_, on), row in zip(by_value(work.column("device")), metrics.iter_rows(named=True), strict=False):
        mine = work.at(on)
        busy = _covered_percent(intervals.union(mine.start, mine.end), bounds)
        kernels = _covered_percent(intervals.union(mine.start[mine.kernel], mine.end[mine.kernel]), bounds)
        used, efficiency = row["utilization_percent"], row["sm_efficiency_percent"]
        row |= {"busy_percent": busy, "utilization_percent": None if used is None else kernels}
        rows.append(row | {"sm_efficiency_percent": efficiency * kernels / used if efficiency and used else efficiency})
    return pl.DataFrame(rows, schema=metrics.schema)


def _idle_of_steps(gaps: pl.DataFrame, bounds: Intervals, ns: float) -> pl.DataFrame:
    """`idle.shares` of gaps that count by their part of each step: ``idle_ns`` is of one step that takes `ns`."""
    parts = []
    for (device, cause), among in gaps.filter(pl.col("stream").is_null()).group_by(
        "device", "cause", maintain_order=True
    ):
        start = among["start"].to_numpy()
        percent = _covered_percent((start, start + among["duration_ns"].to_numpy()), bounds)
        parts.append({"device": device, "stream": None, "duration_ns": round(percent * ns / 100), "cause": cause})
    return shares(
        pl.DataFrame(parts, schema={name: GAPS[name] for name in ("device", "stream", "duration_ns", "cause")})
    )


def replayed_trace(model: Model) -> Trace:
    """A replay as a recording: its steps, API calls and GPU work at the times of the model's first end.

    Operators, ranges and waits for data lie between the calls as in the recording; each stretch of host time between
    two calls is shortened evenly.
    """
    trace, graph, times = model.sel.trace, model.graph, model.times()
    in_step, place, _ = step_ends(graph, times.work_end)
    edges = step_edges(graph, times.work_start, times.work_end)
    step = np.full(graph.work.row.size, NONE, np.int64)
    left_out = int(place.max(initial=NONE)) + 2 - edges.size
    step[in_step] = np.maximum(place - left_out, NONE)
    device = trace.device[graph.work.row].with_columns(
        start=times.work_start,
        duration=times.work_end - times.work_start,
        launch=_row_ids(graph.work.call),
        step=_row_ids(step) if graph.steps.height else None,
        **{name: pl.lit(None, schema.DEVICE[name]) for name in ("operator", "module", "forward_module", "range")},
    )
    calls = trace.host[graph.calls.row].with_columns(
        start=times.call_start, duration=times.call_end - times.call_start, parent=pl.lit(None, schema.HOST["parent"])
    )
    host = [calls, *(_rows(kind, _moved(spans, model)) for kind, spans in _between_calls(trace))]
    steps = pl.DataFrame({"index": np.arange(edges.size - 1), "start": edges[:-1], "duration": np.diff(edges)})
    steps = steps.with_columns(name=pl.col("index").cast(pl.String)) if graph.steps.height else steps.clear()
    return replace(
        trace,
        steps=schema.filled(schema.STEPS, steps),
        host=pl.concat([schema.filled(schema.HOST, rows) for rows in host]),
        device=device.sort("start"),
        collectives=schema.empty(schema.COLLECTIVES),
        clean_step_ns=(),
        light=None,
        marked_by=None,
    )


def _row_ids(rows: Ints) -> pl.Series:
    """Positions as a column of row ids, null for none."""
    ids: pl.Series = pl.Series(rows).replace(NONE, None).cast(schema.DEVICE["launch"])
    return ids


def _between_calls(trace: Trace) -> Iterator[tuple[str, Intervals]]:
    """What the host was recorded to do, as kinds of host rows; a light recording tells its API calls."""
    ranges = host_ranges(trace)
    unknown = UNKNOWN if trace.info.recorded_pass == LIGHT else ()
    yield from ((kind, ranges[category]) for category, kind in HOST_KINDS.items() if category not in unknown)


def _rows(kind: str, spans: Intervals) -> pl.DataFrame:
    return pl.DataFrame({"start": spans[0], "duration": spans[1] - spans[0]}).with_columns(
        kind=pl.lit(kind, schema.HOST["kind"]), name=pl.lit(kind)
    )


def _moved(spans: Intervals, model: Model) -> Intervals:
    """The parts of recorded time that lie in stretches of the host between calls, where the replay has them."""
    calls, times, stretch = model.graph.calls, model.times(), model.ends[0].costs.stretch
    begin = calls.start - calls.stretch
    first = np.searchsorted(spans[1], begin, side="right")
    count = np.maximum(np.searchsorted(spans[0], calls.start, side="left") - first, 0)
    call = np.repeat(np.arange(count.size), count)
    span = np.arange(call.size) - np.repeat(np.cumsum(count) - count, count) + first[call]
    origin = np.where(calls.before == NONE, times.call_start - stretch, times.call_end[calls.before])
    factor = stretch / np.maximum(calls.stretch, 1)

    def place(recorded: Ints) -> Ints:
        into = np.clip(recorded - begin[call], 0, calls.stretch[call])
        placed: Ints = origin[call] + np.rint(into * factor[call]).astype(np.int64)
        return placed

    return intervals.union(place(spans[0][span]), place(spans[1][span]))
