"""The critical path of each step: the chain of host work, launches and GPU work that decides how long it lasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base.conventions import is_collective_kernel
from tracetui.analysis.base.intervals import covered
from tracetui.analysis.base.names import matching
from tracetui.analysis.dependencies.graph import NONE, threads_of
from tracetui.analysis.dependencies.host_layers import HostLayers, host_layers
from tracetui.analysis.dependencies.waits import LOST
from tracetui.parsers import schema

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.dependencies.model import Model
    from tracetui.analysis.dependencies.walk import Times
    from tracetui.analysis.selection import Selection

HOST, CALL, LATENCY, GAP, RETURN, WORK = range(6)
"""What a piece of the path is: host time between calls, an API call, the way from a launch to the GPU, time between two
activities, the return of a call that waited, an activity."""
RESOURCES = (
    "loader",  # the host waits for the next batch
    "python",  # a Python function is the innermost call
    "operator",  # an operator of the framework is
    "api",  # a CUDA call is
    "host",  # none was recorded
    "wait",  # a call waits, and what it waits for was not recorded
    "launch",  # the way from a launch to the GPU
    "kernel",
    "communication",  # collectives, with their waiting for other ranks
    "memcpy",
    "memset",
    "gap",  # between two activities of a stream
    "return",  # from the end of the awaited work to the return of the call
)
GPU = frozenset({"kernel", "communication", "memcpy", "memset", "gap"})
"""The resources that are the GPU's."""
_HOST_KINDS = {"python": ("python", "module"), "operator": ("operator",), "api": ("runtime", "driver")}


@dataclass(frozen=True)
class Pieces:
    """The pieces of all steps' paths, each step's from its end to its beginning."""

    what: Ints
    """`HOST`, `CALL`, …"""
    at: Ints
    """Position of the call or of the activity."""
    ns: Ints
    """How long the piece takes in the replay."""
    step: Ints
    """Position of the step among those that were replayed."""


@dataclass(frozen=True)
class CriticalPath:
    """The critical path of a selection's steps."""

    resources: pl.DataFrame
    """resource, ns (per step), percent (of the path), pieces, longest_ns: in the order of `RESOURCES`, none that is 0."""
    stretches: pl.DataFrame
    """resource, name, ns (per step), percent, pieces, longest_ns, start (of the longest, on the trace's clock), row and
    frame (``host`` or ``device``) of the longest: the most time first."""
    steps: int
    """How many steps it is the mean of."""
    step_ns: float
    """The mean length of the path."""

    def share(self, *resources: str) -> float:
        """Percent of the path that runs through these resources."""
        return float(self.resources.filter(pl.col("resource").is_in(resources))["percent"].sum())


def critical_path(sel: Selection, model: Model) -> CriticalPath:
    """Follows what each step waited for, from the end of its last GPU work back to that of the step before.

    The path is that of the model's first end: of the clean step where that is known, else of the recorded one.
    """
    graph, times = model.graph, model.times()
    pieces = _pieces(graph, times)
    return _summed(sel, graph, pieces)


def _pieces(graph: Graph, times: Times) -> Pieces:
    work, calls = graph.work, graph.calls
    step = work.step if graph.steps.height else np.zeros(work.start.size, np.int64)
    known = np.flatnonzero((step != NONE) & (work.call != NONE))
    lasts: dict[int, int] = {}
    work_end = times.work_end.tolist()
    for item, number in zip(known.tolist(), step[known].tolist(), strict=True):
        if number not in lasts or work_end[item] > work_end[lasts[number]]:
            lasts[number] = item
    work_start, followed, released = times.work_start.tolist(), times.followed.tolist(), times.released.tolist()
    call_start, call_end = times.call_start.tolist(), times.call_end.tolist()
    launch, before, own = work.call.tolist(), calls.before.tolist(), calls.own.tolist()
    found: list[tuple[int, int, int, int]] = []
    ends = [work_end[lasts[number]] for number in sorted(lasts)]
    begins = [None, *ends[:-1]]
    if len(ends) == 1:
        begins = [min(work_start[item] for item in known.tolist())]
    for place, number in enumerate(sorted(lasts)):
        begin = begins[place]
        if begin is None:
            continue
        item, upto, call = lasts[number], ends[place], NONE
        while upto > begin:
            if item != NONE:
                upto = _add(found, WORK, item, work_start[item], upto, begin, place)
                cause = followed[item]
                if cause != NONE:
                    upto = _add(found, GAP, item, work_end[cause], upto, begin, place)
                    item = cause
                    continue
                call = launch[item]
                if call == NONE:
                    break
                upto = _add(found, LATENCY, item, call_start[call], upto, begin, place)
                item = NONE
                continue
            earlier = before[call]
            if own[call] != NONE and (earlier == NONE or call_end[own[call]] > call_end[earlier]):
                earlier = own[call]
            if earlier == NONE:
                upto = _add(found, HOST, call, begin, upto, begin, place)
                break
            upto = _add(found, HOST, call, call_end[earlier], upto, begin, place)
            call = earlier
            if released[call] != NONE:
                item = released[call]
                upto = _add(found, RETURN, call, work_end[item], upto, begin, place)
            else:
                upto = _add(found, CALL, call, call_start[call], upto, begin, place)
    columns = np.array(found, np.int64).reshape(-1, 4)
    return Pieces(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3])


def _add(
    found: list[tuple[int, int, int, int]], what: int, at: int, start: int, end: int, begin: int, step: int
) -> int:
    """Adds the part of a piece that lies in the step, and returns where the path goes on."""
    start = max(start, begin)
    if end > start:
        found.append((what, at, end - start, step))
    return min(start, end)


def _summed(sel: Selection, graph: Graph, pieces: Pieces) -> CriticalPath:
    """Names the pieces and adds them up."""
    steps = max(len(np.unique(pieces.step)), 1)
    parts = [_of_work(sel, graph, pieces), _of_calls(sel, graph, pieces), _of_host(sel, graph, pieces)]
    named = pl.concat([part for part in parts if part.height]) if any(part.height for part in parts) else _NAMED.clone()
    whole = int(named["ns"].sum())
    share = (100 * pl.col("ns").sum() / whole if whole else pl.lit(None, pl.Float64)).alias("percent")
    sums = (
        (pl.col("ns").sum() / steps).alias("ns"), share, pl.len().alias("pieces"),
        pl.col("ns").max().alias("longest_ns"),
    )  # fmt: skip
    longest = pl.col("ns").arg_max()
    order = pl.Enum(RESOURCES)
    resources = named.group_by("resource").agg(*sums).sort(pl.col("resource").cast(order))
    stretches = named.group_by("resource", "name").agg(
        *sums, *(pl.col(name).get(longest) for name in ("start", "row", "frame"))
    )
    stretches = stretches.sort("ns", "resource", "name", descending=[True, False, False])
    return CriticalPath(resources, stretches, steps, whole / steps)


_NAMED = pl.DataFrame(
    schema={
        "resource": pl.String,
        "name": pl.String,
        "ns": pl.Int64,
        "start": pl.Int64,
        "row": pl.Int64,
        "frame": pl.String,
    }
)


def _table(resource: pl.Series, name: pl.Series, ns: Ints, start: Ints, row: Ints, frame: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "resource": resource,
            "name": name,
            "ns": ns,
            "start": start,
            "row": row,
            "frame": pl.Series([frame] * len(ns), dtype=pl.String),
        },
        schema=_NAMED.schema,
    )


def _of_work(sel: Selection, graph: Graph, pieces: Pieces) -> pl.DataFrame:
    """Activities, the gaps between them and the ways of launches, named by the activity."""
    chosen = np.isin(pieces.what, (WORK, GAP, LATENCY))
    at, what = pieces.at[chosen], pieces.what[chosen]
    row = graph.work.row[at]
    device = sel.trace.device
    name = device["name"].gather(row).cast(pl.String)
    kind = device["kind"].gather(row).cast(pl.String).replace({"graph": "kernel"})
    collective = pl.Series(matching(device["name"].gather(row), is_collective_kernel)) & (kind == "kernel")
    resource = (
        kind.set(collective, "communication")
        .set(pl.Series(what == GAP), "gap")
        .set(pl.Series(what == LATENCY), "launch")
    )
    return _table(resource, name, pieces.ns[chosen], graph.work.start[at], row, "device")


def _of_calls(sel: Selection, graph: Graph, pieces: Pieces) -> pl.DataFrame:
    """API calls, and the returns of those that waited."""
    chosen = np.isin(pieces.what, (CALL, RETURN))
    at = pieces.at[chosen]
    row = graph.calls.row[at]
    name = sel.trace.host["name"].gather(row).cast(pl.String)
    lost = graph.calls.kind[at] == LOST
    resource = pl.Series(
        np.where(pieces.what[chosen] == RETURN, "return", np.where(lost, "wait", "api")), dtype=pl.String
    )
    return _table(resource, name, pieces.ns[chosen], graph.calls.start[at], row, "host")


def _of_host(sel: Selection, graph: Graph, pieces: Pieces) -> pl.DataFrame:
    """Host time between calls, divided among the innermost calls in it as they were recorded."""
    chosen = pieces.what == HOST
    at, ns = pieces.at[chosen], pieces.ns[chosen]
    if not at.size:
        return _NAMED.clone()
    calls = graph.calls
    threads = threads_of(sel.trace.host)
    known = np.unique(threads[calls.row])
    number = np.full(int(threads.max()) + 1, NONE, np.int64)
    number[known] = np.arange(known.size)
    end = calls.start[at]
    begin = end - calls.stretch[at]
    layers = host_layers(sel, number[threads], (int(begin.min()), int(end.max())))
    scale = ns / np.maximum(calls.stretch[at], 1)
    thread = number[threads[calls.row[at]]]
    parts = [_inside(sel, layers, which, begin[thread == which], end[thread == which], scale[thread == which])
             for which in range(known.size)]  # fmt: skip
    return pl.concat([part for part in parts if part.height] or [_NAMED.clone()])


def _inside(sel: Selection, layers: HostLayers, thread: int, begin: Ints, end: Ints, scale: Ints) -> pl.DataFrame:
    """The pieces of one thread: each cut where its innermost call changes."""
    layer = layers.layers[thread]
    if not begin.size:
        return _NAMED.clone()
    order = np.argsort(begin)
    begin, end, scale = begin[order], end[order], scale[order]
    edges = np.unique(np.concatenate((layer.time, begin, end)))
    mid_start, mid_end = edges[:-1], edges[1:]
    owner = np.searchsorted(begin, mid_start, side="right") - 1
    inside = (owner >= 0) & (mid_start < end[np.maximum(owner, 0)])
    mid_start, mid_end, owner = mid_start[inside], mid_end[inside], owner[inside]
    piece = np.searchsorted(layer.time, mid_start, side="right") - 1
    row = np.where(piece >= 0, np.append(layer.row, NONE)[piece], NONE)
    ns = np.rint((mid_end - mid_start) * scale[owner]).astype(np.int64)
    kinds = np.append(layers.kind, np.uint8(255))[row]
    loading = covered(layers.loading, mid_start, mid_end) > 0
    resource = np.full(row.size, "host", object)
    for name, of in _HOST_KINDS.items():
        resource[np.isin(kinds, [schema.HOST_KINDS.index(kind) for kind in of])] = name
    resource[loading] = "loader"
    name = sel.trace.host["name"].gather(pl.Series(np.maximum(row, 0))).cast(pl.String)
    name = name.set(pl.Series(row == NONE), "no call recorded")
    return _table(pl.Series(resource.astype(str)), name, ns, mid_start, row, "host").filter(pl.col("ns") > 0)
