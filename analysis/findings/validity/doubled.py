"""Is every activity in the recording once, and does a stream do one thing at a time?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import lane_order, numbered_by, row_ids
from tracetui.analysis.base import names
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.declared.validity import V20, V21
from tracetui.parsers.nesting import LaneClock

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

WORK = ("kernel", "memcpy", "memset", "graph")
SAME = ("kind", "name", "device", "stream", "context", "graph_node", "start", "duration")
"""What no two activities of a stream can share."""
ALL = ("gpu", "shares", "whole", "steps", "counters")


@looks_for(V20)
def recorded_twice(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    work = facts.trace.device.select(SAME)
    work = work.filter(pl.col("kind").is_in(WORK) & (pl.col("duration") > 0) & pl.col("start").is_not_null())
    if not work.height:
        return Abstention("GPU work with a place in time")
    extra = _at_one_moment(work).filter(~pl.struct(*SAME).is_first_distinct())
    copies = int((work["kind"] != "kernel").sum())
    doubled_copies = extra.filter(pl.col("kind") != "kernel").height
    share = 100 * extra.height / work.height
    of_copies = 100 * doubled_copies / copies if copies else 0.0
    if max(share, of_copies) <= limits.share_percent:
        return None
    only_copies = doubled_copies == extra.height
    time = 100 * int(extra["duration"].sum()) / int(work["duration"].sum())
    void = time > limits.refuted_percent
    what = "copies and fills" if only_copies else "GPU events"
    number = of_copies if only_copies else share
    return Finding(
        "invalid" if void else "critical",
        f"{words.percent(number)} of the {what} are duplicates: the file holds them twice",
        (
            Evidence("duplicates", extra.height, query=Query("kernels")),
            Evidence("GPU events", work.height),
            Evidence("of them copies and fills", doubled_copies),
            Evidence("GPU time that counts double", int(extra["duration"].sum()), "ns"),
        ),
        f"{words.count(extra.height)} of {words.count(work.height)} events have the stream, name, start and duration "
        f"of another; {words.percent(time)} of the GPU time",
        refutes=ALL if void else (),
    )


def _at_one_moment(work: pl.DataFrame) -> pl.DataFrame:
    """The activities that begin when another one does: only these can be the same."""
    start = work["start"].to_numpy()
    order = np.argsort(start, kind="stable")
    again = start[order[1:]] == start[order[:-1]]
    several = np.zeros(start.size, np.bool_)
    several[order[1:][again]] = several[order[:-1][again]] = True
    return work.filter(pl.Series(several))


@looks_for(V21)
def inside_others(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    items = _in_order(facts)
    inside, size = items.inside, items.start.size
    if not size:
        return Abstention("GPU work with a place in time")
    if not inside.size:
        return None
    lasting = items.end - items.start
    holders = items.holder[np.append(True, items.holder[1:] != items.holder[:-1])]  # they ascend
    held, time = int(lasting[inside].sum()), int(lasting.sum())
    at = int(holders[lasting[holders].argmax()])
    longest = items.work.row(int(items.row[at]), named=True)
    few = holders.size == 1 or 100 * holders.size / size <= limits.few_percent
    blamed = int(lasting[holders].sum()) if few else held
    share = 100 * blamed / time
    void = share > limits.refuted_percent
    lasts = int(lasting[at])
    single = f"A duration that can't be: {words.ns(lasts)} of one {longest['kind']}, while "
    many = "Streams do several things at once: "
    return Finding(
        "invalid" if void else "warning",
        (single if few else many)
        + f"{words.things(inside.size, 'activity', 'activities')} of the same stream "
        + ("begin and end inside of it" if few else "begin and end inside others; two recordings seem to be mixed"),
        (
            Evidence("begin and end inside others", inside.size),
            Evidence("others that hold them", holders.size),
            Evidence("longest of these", lasts, "ns", Query("kernels", row=str(longest["name"]))),
            Evidence("GPU time of all work", time, "ns"),
        ),
        f"{words.count(inside.size)} of {words.count(size)} activities lie inside {holders.size} others; "
        f"{words.ns(blamed)} of {words.ns(time)} = {words.percent(share)}",
        advice="Leave out the step that holds this activity (--steps), or record again."
        if few
        else "Look at each process or rank by itself; if the file was merged of several, take those.",
        refutes=("gpu", "shares", "whole", "steps") if void else (),
    )


class _Ordered(Struct, frozen=True):
    """What streams do one after the other."""

    start: Ints
    end: Ints
    row: Ints
    """Row of `work`."""
    work: pl.DataFrame
    inside: Ints
    """Positions of what lies inside something that began before on its stream."""
    holder: Ints
    """The position of what holds each of them."""


def _in_order(facts: Facts) -> _Ordered:
    columns = ("kind", "name", "device", "stream", "context", "process", "start", "duration", "launch", "graph_node")
    work = facts.trace.device.select(*columns, "correlation").filter(pl.col("kind").is_in(WORK))
    work = work.drop_nulls(["start", "duration"])
    # with a place more, for no launch
    called = np.append(names.matching(facts.trace.host["name"], lambda name: "GraphLaunch" in name), False)
    launched = called[row_ids(work["launch"])] if called.any() else np.zeros(work.height, np.bool_)
    of_graph = (work["graph_node"].is_not_null() | pl.Series(launched)) & work["correlation"].is_not_null()
    work = work.select(
        "kind", "name", "device", "stream", "context", "process", "start", "correlation",
        end=pl.col("start") + pl.col("duration"),
    )  # fmt: skip
    lane = ("device", "stream", "context", "process")
    if of_graph.any():
        spans = work.filter(of_graph).group_by(*lane, "correlation").agg(
            pl.col("kind", "name").first(), pl.col("start").min(), pl.col("end").max()
        )  # fmt: skip
        work = pl.concat([work.filter(~of_graph), spans.select(work.columns)])
    lanes = numbered_by(work, lane)
    start, end = work["start"].to_numpy(), work["end"].to_numpy()
    order = lane_order(lanes, start, end)
    lanes, start, end = lanes[order], start[order], end[order]
    # the one that reaches farthest: the last that reached beyond all before it on its stream
    clock = LaneClock(int(lanes.max(initial=0)) + 1, start, end)
    key = clock.key(lanes, end)
    before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(key))[: key.size]
    holder = np.maximum.accumulate(np.where(key > before, np.arange(key.size), 0))
    holder = np.append(0, holder)[: key.size]
    inside = np.flatnonzero((lanes[holder] == lanes) & (end < end[holder]) & (start >= start[holder]))
    return _Ordered(start, end, order, work, inside, holder[inside])
