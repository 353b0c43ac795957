"""Chains to their root: A waited for B in one group because B had waited for C in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.ranks.together.waiting import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tracetui.analysis.ranks.matching.clocks import Clocks
    from tracetui.analysis.ranks.together.waiting import Waiting

    Ints = NDArray[np.int64]

SHARE = 0.5
"""What a rank had waited before must explain this much of its lateness to be its cause."""
MOST_LINKS = 64
AT_ONCE = 1 << 22
"""So many calls are looked at together: ranks of many groups have long stretches that overlap."""


def roots(calls: pl.DataFrame, clocks: Clocks, found: Waiting) -> Ints:
    """Per instance, the instance whose last rank is the root of its lateness; itself where there is no earlier cause.

    The last rank of an instance is looked at from the end of the collective before it in the same group (where all
    were together) to its arrival. If it waited in collectives of other groups meanwhile for half of its lateness or
    more, the longest of these waits is what made it late.
    """
    count = found.first.size
    itself: Ints = np.arange(count, dtype=np.int64)
    chosen = np.flatnonzero(found.last != NOBODY)
    if not chosen.size or calls.n_unique(["group_id", "channel"]) < 2:
        return itself
    place = calls["place"].to_numpy()
    order = np.lexsort((clocks.end, place))
    at = np.empty(order.size, np.int64)
    at[order] = np.arange(order.size)
    waited = np.r_[0, np.cumsum(found.wait[order])]
    # the calls of the late rank that ended after its group was together, and before it arrived
    late = found.last[chosen]
    began = _ended_before(place, clocks.end, order, place[late], clocks.begin[late] + 1)
    since = _previous_in_group(calls, at, late)
    low = np.maximum(since + 1, np.searchsorted(place[order], place[late]))
    use = (began > low) & (waited[began] - waited[np.minimum(low, began)] >= SHARE * found.last_late[chosen])
    causes = _causes(calls["rank"].to_numpy(), order, found, low[use], began[use])
    parent = itself.copy()
    parent[chosen[use]] = np.where(causes < 0, chosen[use], causes)
    rest = (parent[chosen] == chosen) & (since >= 0)
    parent[chosen[rest]] = _still_late(calls, clocks, found, chosen[rest], order[since[rest]])
    # a cause is an instance that somebody was late for
    parent = np.where(found.last[parent] != NOBODY, parent, itself)
    for _ in range(MOST_LINKS):
        further = parent[parent]
        if (further == parent).all():
            break
        parent = further
    return parent


def _still_late(calls: pl.DataFrame, clocks: Clocks, found: Waiting, instances: Ints, before: Ints) -> Ints:
    """The collective before each of these in its group, where its last rank was late already; else each itself.

    Those that wait in a collective which their GPU computes beside run on meanwhile: they are not together after it,
    and the next one meets the same lateness again.
    """
    lasted = clocks.end - clocks.begin
    beside = lasted - np.minimum(calls["exposed_ns"].cast(pl.Int64).fill_null(1 << 60).to_numpy(), lasted)
    others = found.last[found.instance] != np.arange(lasted.size)
    computed = np.add.reduceat(np.where(others, beside, 0), found.first) / np.maximum(found.size - 1, 1)
    previous, place = found.instance[before], calls["place"].to_numpy()
    same = (found.last[previous] == before) & (place[before] == place[found.last[instances]])
    kept: Ints = np.where(same & (computed[previous] >= SHARE * found.last_late[instances]), previous, instances)
    return kept


def _ended_before(place: Ints, end: Ints, order: Ints, which: Ints, time: Ints) -> Ints:
    """In the order of calls by place and end: the first of a place that had not ended by a time."""
    base = int(end.min()) if end.size else 0
    span = int(end.max()) - base + 2 if end.size else 1
    keys = place[order] * span + (end[order] - base)
    found: Ints = np.searchsorted(keys, which * span + np.clip(time - base, 0, span - 1))
    return found


def _previous_in_group(calls: pl.DataFrame, at: Ints, late: Ints) -> Ints:
    """Where the call before each of these, of its rank, group and channel, stands in the order; -1 if none does."""
    group = calls.select(pl.struct("group_id", "channel").rank("dense")).to_series().to_numpy()
    place = calls["place"].to_numpy()
    by_group = np.lexsort((at, group, place))
    same = np.r_[False, (place[by_group][1:] == place[by_group][:-1]) & (group[by_group][1:] == group[by_group][:-1])]
    before: Ints = np.full(at.size, -1, np.int64)
    before[by_group[1:]] = np.where(same[1:], at[by_group[:-1]], -1)
    return before[late]


def _causes(rank: Ints, calls: Ints, found: Waiting, low: Ints, high: Ints) -> Ints:
    """Of each stretch of calls, the instance that made its rank late; -1 where it waited for nobody in particular.

    Many short waits for one rank outweigh a long one for another, as the one in which a pipeline fills: of the rank
    that was waited for longest in sum, the longest wait.
    """
    last = found.last[found.instance[calls]]
    culprit = np.where(last == NOBODY, NOBODY, rank[last])
    wait = np.where((culprit == NOBODY) | (culprit == rank[calls]), 0, found.wait[calls])
    result: Ints = np.full(low.size, -1, np.int64)
    size = high - low
    ends = np.cumsum(size)
    for first, after in _portions(ends):
        stretch = np.repeat(np.arange(first, after), size[first:after])
        begun = np.repeat(low[first:after] - (ends[first:after] - size[first:after]), size[first:after])
        at = np.arange(ends[first] - size[first], ends[after - 1]) + begun
        frame = pl.DataFrame({"stretch": stretch, "culprit": culprit[at], "wait": wait[at], "at": at})
        by_rank = frame.filter(pl.col("wait") > 0).group_by("stretch", "culprit")
        summed = by_rank.agg(pl.col("wait").sum(), longest=pl.col("at").get(pl.col("wait").arg_max()))
        best = summed.sort("wait", "longest", descending=True).unique("stretch", keep="first", maintain_order=True)
        result[best["stretch"].to_numpy()] = found.instance[calls[best["longest"].to_numpy()]]
    return result


def _portions(ends: Ints) -> Iterator[tuple[int, int]]:
    """Stretches in portions of not much more than `AT_ONCE` calls."""
    first = 0
    while first < ends.size:
        before = int(ends[first - 1]) if first else 0
        after = max(int(np.searchsorted(ends, before + AT_ONCE, side="right")), first + 1)
        yield first, after
        first = after
