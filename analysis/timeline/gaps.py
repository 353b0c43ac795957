"""The longest stretches in which a whole GPU is idle: what the host's threads did, and which call ended them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, lanes_of, parents_of, row_ids
from tracetui.analysis.attribution.place import BACKWARD, own_frames, range_names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.dependencies.critical_path import path_lane, path_within
from tracetui.analysis.dependencies.model import Model
from tracetui.analysis.gpu.activities import WORK
from tracetui.analysis.gpu.idle import CAUSE, gaps
from tracetui.analysis.kernels import operator_names
from tracetui.analysis.sampled_calls import located, told
from tracetui.analysis.selection import Selection, step_at
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints
from tracetui.parsers.nesting import LaneClock, nest

MOST_EVENTS = 400_000
"""Own times are added up only for stretches with at most this many host events."""
UNRECORDED = "(nothing recorded)"
MOST_CALLS = 3
"""So many calls are named."""


@dataclass(frozen=True, eq=False)
class ThreadCalls:
    """The calls of one thread; ranges are none."""

    host: pl.DataFrame
    rows: Ints
    """Of the host frame, in the order of their beginning."""
    start: Ints
    ranges: Ints
    """Rows of ranges and of waits for data: these nest among themselves."""
    range_start: Ints

    def own_times(self, start: int, end: int) -> tuple[tuple[str, int], ...]:
        """The calls with the most own time within a stretch.

        Returns:
            (name, ns), the most first, at most `MOST_CALLS`; the time in which no call ran is `UNRECORDED`. Empty
            where more than `MOST_EVENTS` calls ran.
        """
        rows = self._within(start, end)
        if rows.size > MOST_EVENTS:
            return ()
        events = self.host.select("name", "start", "duration")[rows]
        begin = events["start"].to_numpy()
        inside = np.minimum(begin + events["duration"].to_numpy(), end) - np.maximum(begin, start)
        inside = np.maximum(inside, 0)
        own = inside.copy()
        parent = parents_of(self.host)[rows]
        at = np.minimum(np.searchsorted(rows, parent), max(rows.size - 1, 0))
        is_inside = (parent != NONE) & (rows[at] == parent) if rows.size else np.zeros(0, np.bool_)
        np.subtract.at(own, at[is_inside], inside[is_inside])
        named = pl.DataFrame({"name": events["name"].cast(pl.String), "ns": np.maximum(own, 0)})
        top = (
            named.group_by("name")
            .agg(pl.col("ns").sum())
            .filter(pl.col("ns") > 0)
            .sort("ns", "name", descending=[True, False])
        )
        named_calls = [(str(name), int(ns)) for name, ns in top.iter_rows()]
        left = end - start - sum(ns for _, ns in named_calls)
        if left > 0:
            named_calls.append((UNRECORDED, left))
        return tuple(sorted(named_calls, key=lambda item: -item[1])[:MOST_CALLS])

    def _within(self, start: int, end: int) -> Ints:
        """Rows of the calls that touch a stretch, ascending: those open when it begins, and those that begin in it."""
        first, last = np.searchsorted(self.start, [start, end]).tolist()
        before = int(np.searchsorted(self.range_start, start))
        parents, lasting, begun = parents_of(self.host), self.host["duration"], self.host["start"]
        kind, around = self.host["kind"], set()
        # what is open when the stretch begins encloses the one before it, or is that one
        for rows, place in ((self.rows, first), (self.ranges, before)):
            row = int(rows[place - 1]) if place else NONE
            while row != NONE:
                if begun[row] + (lasting[row] or 0) > start and kind[row] != "annotation":
                    around.add(row)
                row = int(parents[row])
        return np.union1d(np.array(sorted(around), np.int64), self.rows[first:last])


def calls_of_thread(host: pl.DataFrame, row: int) -> ThreadCalls:
    """The calls of the thread that made a call.

    Args:
        host: the host frame (`schema.HOST`), in which the rows of a thread stand together.
        row: the call's row.
    """
    lanes = lanes_of(host)
    low, high = np.searchsorted(lanes, [lanes[row], lanes[row] + 1]).tolist()
    part = host.slice(low, high - low)
    kind, start = part["kind"], part["start"].to_numpy()
    rows = np.flatnonzero((kind != "annotation").to_numpy())
    ranges = np.flatnonzero(kind.is_in(["annotation", "dataloader"]).to_numpy())
    rows, ranges = (found[np.argsort(start[found], kind="stable")] for found in (rows, ranges))
    return ThreadCalls(host, rows + low, start[rows], ranges + low, start[ranges])


MOST = 200
"""So many gaps are looked at, the longest ones."""
GAPS: dict[str, pl.DataType] = {
    "device": pl.Int64(),
    "step": pl.Int64(),
    "start": pl.Int64(),
    "at_ns": pl.Int64(),
    "duration_ns": pl.Int64(),
    "percent": pl.Float64(),
    "cause": CAUSE,
    "host": pl.String(),
    "call": pl.String(),
    "host_percent": pl.Float64(),
    "behind": pl.String(),
    "launched_after_ns": pl.Int64(),
    "next": pl.String(),
    "path": pl.String(),
    "path_percent": pl.Float64(),
}


def longest_gaps(sel: Selection, model: Model | None = None) -> pl.DataFrame:
    """The longest gaps of whole GPUs in scope, the longest first, with what the host did and what ended each.

    Args:
        sel: the recording.
        model: its replay (`dependencies.model.model`), which knows the critical path; None if there is none.

    Returns:
        A row per gap: device; step (its index; null outside of all steps); start (ns on the trace's clock) and at_ns
        (since the recording began); duration_ns; percent (of all idle time of this GPU in scope); cause (as of
        `gpu.idle`); host and call (where the host was for most of it, as of `gaps_by_cause`) and host_percent (of the
        gap); behind (the operator of what ended it, else the call that launched it; null where neither is known) and
        launched_after_ns (the launch, after the gap began; negative if before it); next (the work that ended it; null
        where the scope did); path and path_percent (what the critical path runs through for most of the gap, and for
        how much of it; null where the path is not known there).
    """
    sel = sel.recorded
    every = gaps(sel).filter(pl.col("stream").is_null())
    total = pl.col("duration_ns").sum().over("device")
    longest = every.with_columns(percent=100 * pl.col("duration_ns") / total)
    # equal lengths in the order of time, so that the list is the same each time
    longest = longest.sort("duration_ns", "start", "device", descending=[True, False, False]).head(MOST)
    if not longest.height:
        return pl.DataFrame(schema=GAPS)
    trace, window = sel.trace, sel.trace.info.window
    start = longest["start"].to_numpy()
    ended_by, launches = _ended_by(trace, longest)
    path = None if model is None else path_lane(sel, model)
    behind = _behind(sel, ended_by, launches)
    called = _placed(trace, longest).group_by("gap", "host", "operator").agg(pl.col("ns").sum())
    called = called.sort("ns", "operator", descending=[True, False])
    call = pl.col("operator").filter(pl.col("operator") != pl.col("host")).first()
    was_in = called.group_by("gap", "host", maintain_order=True).agg(pl.col("ns").sum(), call=call)
    was_in = was_in.sort("gap", "ns", "host", descending=[False, True, False]).unique("gap", maintain_order=True)
    rows = []
    for number, (begin, lasting) in enumerate(longest.select("start", "duration_ns").iter_rows()):
        launch, work = int(launches[number]), int(ended_by[number])
        through = [] if path is None else path_within(path, begin, begin + lasting).head(1).rows()
        rows.append(
            {
                "behind": behind[number],
                "launched_after_ns": int(trace.host["start"][launch]) - begin if launch != NONE else None,
                "next": str(trace.device["name"][work]) if work != NONE else None,
                "path": through[0][0] if through else None,
                "path_percent": 100 * through[0][2] / lasting if through else None,
            }
        )
    found = pl.concat([longest, was_in, pl.DataFrame(rows, schema_overrides=GAPS)], how="horizontal")
    return found.with_columns(
        host_percent=100 * pl.col("ns") / pl.col("duration_ns"),
        at_ns=pl.col("start") - (window[0] if window else 0),
        step=step_at(sel.steps.sort("start"), start),
    ).select(pl.col(name).cast(dtype) for name, dtype in GAPS.items())


CAUSES: dict[str, pl.DataType] = {
    "depth": pl.Int64(),
    "cause": CAUSE,
    "host": pl.String(),
    "duration_ns": pl.Int64(),
    "percent": pl.Float64(),
    "gaps": pl.Int64(),
    "call": pl.String(),
    "longest_ns": pl.Int64(),
    "start": pl.Int64(),
    "at_ns": pl.Int64(),
    "device": pl.Int64(),
}


def gaps_by_cause(sel: Selection) -> pl.DataFrame:
    """All gaps of whole GPUs in scope by their cause and by where in the program the host was, the most time first.

    The host is the thread that launched what ended a gap. A gap in which it was in several places is divided among
    them, so that the places of a cause add up to it, and the causes to all idle time.

    Returns:
        A row for each cause (depth 0), followed by its places (depth 1): cause (as of `gpu.idle`); host (the innermost
        frame of the program's own, with its line where samples tell it; where none was recorded the module, else the
        range, else the call; or `UNRECORDED`; at depth 0 the cause); duration_ns; percent (of all idle time in scope);
        gaps (how many); call (what the frame called for most of it); longest_ns, start (ns on the trace's clock), at_ns
        (since the recording began) and device of the longest of these gaps, which the host may have been in for a part.
    """
    sel = sel.recorded
    every = gaps(sel).filter(pl.col("stream").is_null())
    trace, window = sel.trace, sel.trace.info.window
    if not every.height:
        return pl.DataFrame(schema=CAUSES)
    found = _placed(trace, every).join(every.drop("stream").with_row_index("gap"), on="gap", maintain_order="left")
    by = ["cause", "host"]
    mostly = found.filter(pl.col("operator") != pl.col("host")).group_by(*by, "operator").agg(pl.col("ns").sum())
    mostly = mostly.sort("ns", "operator", descending=[True, False]).unique(by, keep="first", maintain_order=True)
    found = found.sort("duration_ns", "start", descending=[True, False])
    sums = (
        pl.col("ns").sum(), pl.col("start", "device").first(), pl.col("gap").n_unique().alias("gaps"),
        pl.col("duration_ns").first().alias("longest_ns"),
    )  # fmt: skip
    causes, places = (found.group_by(key, maintain_order=True).agg(sums) for key in ("cause", by))
    places = places.join(mostly.select(*by, call="operator"), on=by, how="left", maintain_order="left")
    rows = pl.concat(
        [causes.with_columns(depth=0, host=pl.col("cause").cast(pl.String)), places.with_columns(depth=1)],
        how="diagonal",
    )
    return (
        rows.with_columns(
            duration_ns="ns",
            percent=100 * pl.col("ns") / every["duration_ns"].sum(),
            at_ns=pl.col("start") - (window[0] if window else 0),
            of_cause=pl.col("ns").max().over("cause"),
        )
        .sort("of_cause", "cause", "depth", "ns", "host", descending=[True, False, False, True, False])
        .select(pl.col(name).cast(dtype) for name, dtype in CAUSES.items())
    )


def _placed(trace: Trace, every: pl.DataFrame) -> pl.DataFrame:
    """Gaps in pieces, each with where the host was and what it called there.

    Args:
        trace: the recording.
        every: the gaps.

    Returns:
        gap (its number), ns (of the piece), host (as of `gaps_by_cause`), operator.
    """
    launches = _ended_by(trace, every)[1]
    # where no launch is known, the first thread; a recording without calls has none
    pieces = _pieces(trace, every, np.append(lanes_of(trace.host), 0)[np.maximum(launches, 0)])
    middle, row = ((pieces["begin"] + pieces["end"]) // 2).to_numpy(), pieces["row"].to_numpy()
    ranges = range_names(trace, np.where(row >= 0, row, launches[pieces["gap"].to_numpy()]), middle)
    there = located(trace, row, middle, ranges)
    frame = pl.lit(told(there))
    there = there.with_columns(pl.col(pl.Categorical).cast(pl.String))
    module = pl.when("backward").then(BACKWARD + pl.col("module")).otherwise("module")
    host = pl.coalesce(frame, module, "range", "operator", pl.lit(UNRECORDED))
    placed = pl.concat([pieces, there.drop("call")], how="horizontal")
    return placed.select("gap", "operator", host=host, ns=pl.col("end") - pl.col("begin"))


def _pieces(trace: Trace, every: pl.DataFrame, lane: Ints) -> pl.DataFrame:
    """Gaps cut wherever the program goes from one call of its own code to another on their threads.

    Args:
        trace: the recording.
        every: the gaps.
        lane: the thread of each.

    Returns:
        gap (its number), begin, end, row (the innermost such call of the host; -1 for none).
    """
    host, lanes = trace.host, lanes_of(trace.host)
    of, outermost = own_frames(trace), parents_of(host) == NONE
    outer = outermost & ~of_kinds(host["kind"], "annotation", "dataloader")
    rows = np.flatnonzero(of.own | (of.unit[:-1] == np.arange(host.height)) | outer)
    rows = rows[np.isin(lanes[rows], lane)]
    rows = rows[np.lexsort((host["start"].to_numpy()[rows], lanes[rows]))]
    start, lasting = host["start"].to_numpy()[rows], host["duration"].fill_null(0).to_numpy()[rows]
    calls = nest(lanes[rows], start, lasting, LaneClock(int(lane.max()) + 1, start, start + lasting))
    begin = every["start"].to_numpy()
    end = begin + every["duration_ns"].to_numpy()
    gap, cut = [np.arange(begin.size)], [begin]
    for number in np.unique(lane).tolist():
        mine, on = np.flatnonzero(lane == number), lanes[rows] == number
        cuts = np.unique(np.concatenate((start[on], calls.end[on])))
        low, high = np.searchsorted(cuts, begin[mine], "right"), np.searchsorted(cuts, end[mine], "left")
        counts = np.maximum(high - low, 0)
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        gap.append(np.repeat(mine, counts))
        cut.append(cuts[np.repeat(low, counts) + within])
    pieces = pl.DataFrame({"gap": np.concatenate(gap).astype(np.uint32), "begin": np.concatenate(cut)}).sort(
        "gap", "begin"
    )
    until = pl.Series(end).gather(pieces["gap"])
    pieces = pieces.with_columns(end=pl.col("begin").shift(-1).over("gap").fill_null(until))
    at = calls.innermost_at(lane[pieces["gap"].to_numpy()], ((pieces["begin"] + pieces["end"]) // 2).to_numpy())
    return pieces.with_columns(row=np.append(rows, NONE)[at])


def _ended_by(trace: Trace, found: pl.DataFrame) -> tuple[Ints, Ints]:
    """The device row of the work that ends each gap, and the host row of its launch; -1 for none."""
    work = _next_work(trace, found)
    return work, np.append(row_ids(trace.device["launch"]), NONE)[work]


def _next_work(trace: Trace, longest: pl.DataFrame) -> Ints:
    """The device row of the work that ends each gap, or -1."""
    work = trace.device.with_row_index("row").filter(
        pl.col("kind").is_in(WORK) & pl.col("start").is_not_null() & (pl.col("duration") > 0)
    )
    ends = np.full(longest.height, NONE, np.int64)
    for device in longest["device"].unique(maintain_order=True):
        own = work.filter(pl.col("device").eq_missing(device)).sort("start", maintain_order=True)
        on = longest["device"].eq_missing(device).to_numpy()
        end = (longest["start"] + longest["duration_ns"]).to_numpy()[on]
        at = np.searchsorted(own["start"].to_numpy(), end)
        rows = np.append(own["row"].cast(pl.Int64).to_numpy(), NONE)[at]
        # work that begins later did not end it: the scope did
        begun = np.append(own["start"].to_numpy(), np.iinfo(np.int64).max)[at]
        ends[on] = np.where(begun == end, rows, NONE)
    return ends


def _behind(sel: Selection, ended_by: Ints, launches: Ints) -> list[str | None]:
    """The operator of the work that ends each gap, else the call that launched it."""
    has_work = np.flatnonzero(ended_by != NONE)
    behind: list[str | None] = [None] * ended_by.size
    operators = operator_names(sel, sel.trace.device[ended_by[has_work]])
    for place, operator in zip(has_work.tolist(), operators, strict=True):
        launch = int(launches[place])
        behind[place] = operator or (str(sel.trace.host["name"][launch]) if launch != NONE else None)
    return behind
