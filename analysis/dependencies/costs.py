"""What everything costs in a replay of the graph, when everything happens at those costs, and how long steps take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.dependencies.waits import LEAST_ENDS, NONE

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Trace

WAIT_NS, FULL_NS = 2_000, 5_000
"""What a waiting call, and a launch into a queue that has room, cost the host at most."""
RAN = -1
"""The work's launch decided when it began; otherwise the position of the work that it followed."""
LONG_AGO = np.iinfo(np.int64).min // 4
_EVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Costs:
    """What everything takes in a replay, ns."""

    stretch: Ints
    """Host time before each call."""
    call: Ints
    """What each call takes of the host, without its waiting."""
    work: Ints
    """The duration of each activity."""
    gap: Ints
    """Time between each activity and the one before it on its stream."""
    latency_ns: int
    no_wait: frozenset[int] = frozenset()
    """Calls that no longer wait."""


@dataclass(frozen=True)
class Times:
    """When everything happens in a replay."""

    call_start: Ints
    call_end: Ints
    work_start: Ints
    work_end: Ints
    followed: Ints
    """For each activity the one that it had to wait for, or `RAN` where its launch decided."""
    released: Ints
    """For each call the activity whose end let it return, or -1."""


def as_recorded(graph: Graph) -> Costs:
    """The costs that the recording has."""
    calls, work = graph.calls, graph.work
    within = np.append(False, (work.call[1:] == work.call[:-1]) & (work.call[1:] >= 0))[: work.call.size]
    return Costs(
        calls.stretch,
        np.minimum(calls.end - calls.start, np.array((_EVER, WAIT_NS, FULL_NS, _EVER))[calls.kind]),
        work.end - work.start,
        np.where(within, graph.inner_gap_ns, graph.gap_ns),
        graph.latency_ns,
    )


def anchor_of(graph: Graph) -> int:
    """The first launching call, or -1: it also loads what it runs."""
    item = int(graph.first[0])
    return int(graph.work.call[item]) if item < graph.work.call.size else -1


def anchored(graph: Graph, costs: Costs) -> tuple[int, int, int]:
    """The first launching call, when its work begins at the earliest, and how long after the call.

    It is taken as it was. Where a step begins with its host, that is as long after the call as in the recording: what
    the host did before it may take less. What the call itself takes less comes off too.
    """
    anchor = anchor_of(graph)
    if anchor < 0:
        return anchor, LONG_AGO, 0
    began, called = int(graph.work.start[graph.first[0]]), int(graph.calls.start[anchor])
    if graph.begin is None:
        return anchor, began, 0
    lasted = min(int(graph.calls.end[anchor]) - called, (_EVER, WAIT_NS, FULL_NS, _EVER)[graph.calls.kind[anchor]])
    spared = lasted - int(costs.call[anchor])
    return anchor, LONG_AGO, max(began - called - max(spared, 0), min(began - called, costs.latency_ns))


def recorded_steps(graph: Graph) -> Ints:
    """How long each step took in the recording, as `step_times` measures it, ns."""
    return _between(graph, graph.work.start, graph.work.end)


def step_times(graph: Graph, times: Times) -> Ints:
    """How long each step takes, from the end of the GPU work of the step before to the end of its own, ns.

    The first of one or two steps counts from its own beginning in the recording (`Graph.begin`); of three and more the
    first one is left out. Without steps, all the work is one step.
    """
    return _between(graph, times.work_start, times.work_end)


def _between(graph: Graph, work_start: Ints, work_end: Ints) -> Ints:
    work = graph.work
    step = work.step if graph.steps.height else np.zeros(work.start.size, np.int64)
    in_step = (step != NONE) & (work.call != NONE)
    if not in_step.any():
        return np.empty(0, np.int64)
    numbers, place = np.unique(step[in_step], return_inverse=True)
    ends = np.full(numbers.size, np.iinfo(np.int64).min)
    np.maximum.at(ends, place, work_end[in_step])
    ends = np.maximum.accumulate(ends)
    taken = np.diff(ends)
    if numbers.size >= LEAST_ENDS:
        return taken
    begin = work_start[in_step][place == 0].min() if graph.begin is None else graph.begin
    return np.concatenate(([ends[0] - begin], taken))


_SAME = ("kind", "group", "bytes")
_OUT_OF_STEPS = -1


def transfers(sel: Selection, described: Trace | None = None) -> Ints | None:
    """The most that each activity takes without waiting for other ranks, ns, by device row; -1 for all else.

    A collective's kernel runs from its rank's arrival on, so the shortest one holds the least waiting. More bytes take
    no less time: the bound is the shortest of the same kind and group with as many bytes or more, and where sizes are
    not known, of the same place in any step.

    Args:
        sel: the recording; collectives outside its scope tell nothing.
        described: another recording of the same program that knows kinds and sizes, where this one doesn't; told by
            the place in the step, if all steps of both have as many.

    Returns:
        None where no collectives ran on the GPU.
    """
    trace = sel.trace
    own = _collectives(trace)
    if own.height:
        own = own.filter(pl.col("row").is_in(sel.device["row"].cast(pl.Int64).implode()))
    if not own.height:
        return None
    pool = own
    if described is not None and described is not trace:
        own = _described(own, by_rich := _collectives(described))
        pool = pl.concat([own, by_rich])
    sizes = pool.drop_nulls("bytes").group_by(_SAME).agg(pl.col("duration").min())
    sizes = sizes.sort("bytes", descending=True)
    sizes = sizes.with_columns(bound=pl.col("duration").cum_min().over("kind", "group"))
    sized = own.join(sizes.drop("duration"), on=_SAME, how="left", nulls_equal=True, maintain_order="left")
    same_place = pl.col("duration").min().over("name", "place")
    bound = sized.select(pl.coalesce("bound", pl.when(pl.col("step") >= 0).then(same_place), "duration")).to_series()
    by_row = np.full(trace.device.height, -1, np.int64)
    by_row[sized["row"].to_numpy()] = np.minimum(bound.to_numpy(), sized["duration"].to_numpy())
    return by_row


@kept
def _collectives(trace: Trace) -> pl.DataFrame:
    """Row (of the device frame), step, place (in its step, by launch), duration, name, kind, group, bytes (or null)."""
    frame = trace.collectives
    frame = frame.filter(pl.col("device").is_not_null() & pl.col("part_of").is_null())
    row = frame["device"]
    device = trace.device.select("start", "duration", "step", "launch", "name")[row]
    launched = trace.host["start"].gather(device["launch"])
    return (
        frame.select(
            row.cast(pl.Int64).alias("row"),
            device["step"].cast(pl.Int64).fill_null(_OUT_OF_STEPS).alias("step"),
            launched.fill_null(device["start"]).alias("launched"),
            device["duration"].fill_null(0),
            device["name"].cast(pl.String),
            pl.col("kind").cast(pl.String),
            pl.col("group").cast(pl.String),
            pl.max_horizontal("bytes_in", "bytes_out").alias("bytes"),
        )
        .sort("launched", "row")
        .with_columns(place=pl.int_range(pl.len()).over("step"))
        .drop("launched")
    )


def _described(own: pl.DataFrame, by_rich: pl.DataFrame) -> pl.DataFrame:
    """The collectives with kind, group and size of those at the same place of a step in the other recording."""
    inside = by_rich.filter(pl.col("step") >= 0)
    places = inside.group_by("place").agg(
        pl.col(*_SAME, "name").first(),
        alike=pl.struct(*_SAME, "name").n_unique() == 1,
        steps=pl.col("step").n_unique(),
    )
    counts = pl.concat([each.filter(pl.col("step") >= 0).group_by("step").len()["len"] for each in (own, by_rich)])
    if counts.n_unique() != 1 or not places["alike"].all():
        return own
    named = own.join(places.select("place", "name", *_SAME), on=["place", "name"], how="left", suffix="_told")
    outside = pl.col("step") == _OUT_OF_STEPS
    return named.select(
        pl.when(outside).then(pl.col(name)).otherwise(pl.coalesce(f"{name}_told", name)).alias(name)
        if name in _SAME
        else pl.col(name)
        for name in own.columns
    )
