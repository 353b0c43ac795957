"""The critical path of each step: the chain of host work, launches and GPU work that decides how long it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.host_layers import host_layers
from tracetui.analysis.dependencies.path_pieces import (
    CALL,
    GAP,
    GPU_RESOURCES,
    HOST,
    HOST_RESOURCES,
    LATENCY,
    RESOURCES,
    RETURN,
    WORK,
    call_resources,
    inner_calls,
    pieces,
    work_resources,
)

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.graph import Graph
    from tracetui.analysis.dependencies.model import Model
    from tracetui.analysis.dependencies.path_pieces import Codes, Pieces
    from tracetui.analysis.selection import Selection

__all__ = ["GPU_RESOURCES", "HOST_RESOURCES", "RESOURCES", "CriticalPath", "critical_path"]


class CriticalPath(Struct, frozen=True):
    """The critical path of a selection's steps."""

    resources: pl.DataFrame
    """resource, ns (per step), percent (of the path), pieces, longest_ns: in the order of `RESOURCES`."""
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


@latest
def critical_path(sel: Selection, model: Model) -> CriticalPath:
    """Follows what each step waited for, from the end of its last GPU work back to that of the step before.

    The path is that of the model's first end: of the clean step where that is known, else of the recorded one.
    """
    return _summed(sel, model.graph, pieces(model))


def _summed(sel: Selection, graph: Graph, pieces: Pieces) -> CriticalPath:
    """Names the pieces and adds them up."""
    steps = max(len(np.unique(pieces.step)), 1)
    parts = [_of_work(sel, graph, pieces), _of_calls(sel, graph, pieces), _of_host(sel, graph, pieces)]
    stretches = pl.concat(parts)
    whole = int(stretches["sum"].sum())
    shown = (
        (pl.col("sum") / steps).alias("ns"),
        (100 * pl.col("sum") / whole if whole else pl.lit(None, pl.Float64)).alias("percent"),
    )
    sums = pl.col("sum", "pieces").sum(), pl.col("longest_ns").max()
    resources = stretches.group_by("resource").agg(*sums).with_columns(*shown).drop("sum")
    resources = resources.sort(pl.col("resource").cast(pl.Enum(RESOURCES)))
    # a call that two threads make is named twice
    longest = pl.col("start", "row", "frame").get(pl.col("longest_ns").arg_max())
    stretches = stretches.group_by("resource", "name").agg(longest, *sums).with_columns(*shown).drop("sum")
    stretches = stretches.sort("ns", "resource", "name", descending=[True, False, False])
    return CriticalPath(
        resources.select(_SUMS), stretches.select(_SUMS[0], "name", *_SUMS[1:], *_LONGEST), steps, whole / steps
    )


_SUMS = ("resource", "ns", "percent", "pieces", "longest_ns")
_LONGEST = ("start", "row", "frame")


def _grouped(events: pl.DataFrame, frame: str, resource: Codes, ns: Ints, start: Ints, row: Ints) -> pl.DataFrame:
    """Pieces by resource and by the name of their host or device row, with the longest of each.

    Args:
        events: the host or device frame.
        frame: what it is called.
        resource: of each piece, its place in `RESOURCES`.
        ns: how long it takes.
        start: when it begins in the recording.
        row: its row; -1 for none.
    """
    name = events["name"].to_physical().to_numpy()
    code = np.append(name, _NAMELESS)[row] if name.size else np.full(row.size, _NAMELESS)
    table = pl.DataFrame({"code": code, "number": resource, "ns": ns, "start": start, "row": row})
    longest = pl.col("start", "row").get(pl.col("ns").arg_max())
    table = table.filter(pl.col("ns") > 0)
    found = table.group_by("code", "number").agg(
        pl.col("ns").sum().alias("sum"), pl.len().alias("pieces"), pl.col("ns").max().alias("longest_ns"), longest
    )
    named = events["name"].gather(found["row"].clip(0)).cast(pl.String)
    return found.select(
        pl.lit(pl.Series(RESOURCES)).gather(pl.col("number")).alias("resource"),
        pl.when(pl.col("row") >= 0).then(pl.lit(named)).otherwise(pl.lit("no call recorded")).alias("name"),
        "sum", "pieces", "longest_ns", "start", "row", pl.lit(frame).alias("frame"),
    )  # fmt: skip


_NAMELESS = np.iinfo(np.uint32).max


def _of_work(sel: Selection, graph: Graph, pieces: Pieces) -> pl.DataFrame:
    """Activities, the gaps between them and the ways of launches, named by the activity."""
    chosen = np.isin(pieces.what, (WORK, GAP, LATENCY))
    at, what = pieces.at[chosen], pieces.what[chosen]
    device = sel.trace.device
    resource = work_resources(device, graph, at, what)
    return _grouped(device, "device", resource, pieces.ns[chosen], graph.work.start[at], graph.work.row[at])


def _of_calls(sel: Selection, graph: Graph, pieces: Pieces) -> pl.DataFrame:
    """API calls, and the returns of those that waited."""
    chosen = np.isin(pieces.what, (CALL, RETURN))
    at = pieces.at[chosen]
    resource = call_resources(graph, at, pieces.what[chosen])
    return _grouped(sel.trace.host, "host", resource, pieces.ns[chosen], graph.calls.start[at], graph.calls.row[at])


def _of_host(sel: Selection, graph: Graph, pieces: Pieces) -> pl.DataFrame:
    """Host time between calls, divided among the innermost calls in it as they were recorded."""
    chosen = pieces.what == HOST
    at, ns = pieces.at[chosen], pieces.ns[chosen]
    calls = graph.calls
    end = calls.start[at]
    found = inner_calls(sel.trace.host, graph, host_layers(sel, graph), at, end - calls.stretch[at], end)
    scale = ns / np.maximum(calls.stretch[at], 1)
    part = np.rint((found.stop - found.start) * scale[found.owner]).astype(np.int64)
    return _grouped(sel.trace.host, "host", found.resource, part, found.start, found.row)
