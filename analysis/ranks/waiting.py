"""Waiting against transfer: who came last to each collective, and who waited for whom in the end.

The last to arrive waits for nobody, so the shortest duration of a collective is its transfer, and what a rank's own
lasts longer is waiting. This needs no common clock. Who came last is told by the clocks as fitted, as far as they tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.ranks.clocks import Clocks, narrow, rows_of
from tracetui.analysis.ranks.summary import Calls
from tracetui.parsers.arrays import Ints

NOBODY = -1
WAITS = {"rank": pl.Int64(), "for_rank": pl.Int64(), "wait_ns": pl.Int64(), "collectives": pl.Int64()}


class Waiting(Struct, frozen=True, dict=True):
    """Arrays per call, in the order of `Matched.calls`, and per instance."""

    calls: Calls
    """`matched.Matched.calls`, by instance."""
    clocks: Clocks
    """Their times on the common clock."""
    wait: Ints
    """Per call: how much longer it lasted than the shortest of its instance."""
    late: Ints
    """Per call: how long after the median rank it arrived; 0 for the earlier half."""
    instance: Ints
    """Per call."""
    first: Ints
    """Per instance: its first call."""
    size: Ints
    transfer: Ints
    last: Ints
    """Per instance: the call that arrived last; `NOBODY` where no arrival is later than clocks tell."""
    last_late: Ints
    """Per instance: how long after the median rank the last one arrived."""
    alone: Ints
    """Per instance: the gap to the one before it, which it alone costs."""

    @cached_property
    def culprit(self) -> Ints:
        """Per instance: the rank that came last, or `NOBODY`."""
        rank = self.calls["rank"].to_numpy()
        of_last: Ints = np.where(
            self.last == NOBODY, NOBODY, rank[np.maximum(self.last, 0)] if rank.size else self.last
        )
        return of_last

    @cached_property
    def origin(self) -> Ints:
        """Per instance: the rank at the root of its lateness, which the others waited for in the end, or `NOBODY`."""
        root = roots(self)
        of_root: Ints = np.where(self.culprit == NOBODY, NOBODY, self.culprit[root] if root.size else self.culprit)
        return of_root

    @cached_property
    def stood(self) -> tuple[Ints, Ints]:
        """Per call, its part of its rank's waiting and of its transfers, of which neither counts any moment twice.

        Collectives of several streams run at once: what is waiting in one of them is no transfer of another.
        """
        begin, end = self.clocks.begin, self.clocks.end
        place = narrow(self.calls["place"].to_numpy())
        waits = narrow(_united(place, begin, begin + self.wait))
        return waits, narrow(np.maximum(_united(place, begin, end) - waits, 0))


def _united(place: Ints, begin: Ints, end: Ints) -> Ints:
    """How much each interval adds to those of its place that begin before it."""
    found: Ints = np.empty(begin.size, np.int64)
    for rows in rows_of(place, int(place.max(initial=-1)) + 1, begin):
        low, high = begin[rows], end[rows]
        low[1:] = np.maximum(low[1:], np.maximum.accumulate(high)[:-1])
        found[rows] = np.maximum(high - low, 0)
    return found


def waiting(calls: Calls, clocks: Clocks) -> Waiting:
    """Splits every matched collective into waiting and transfer.

    Args:
        calls: `matched.Matched.calls`, by instance.
        clocks: its times on the common clock.
    """
    instance = narrow(calls["instance"].to_numpy())
    if not instance.size:
        none = np.empty(0, np.int64)
        return Waiting(calls, clocks, *[none] * 9)
    first = np.flatnonzero(np.r_[True, instance[1:] != instance[:-1]])
    size = np.diff(np.r_[first, instance.size])
    duration = (calls["end"] - calls["begin"]).to_numpy().astype(np.int64)
    transfer = np.minimum.reduceat(duration, first)
    wait = duration - np.repeat(transfer, size)
    # without clocks, what lasts shortest came last
    unclear = not np.isfinite(clocks.residual_ns)
    arrival = -duration if unclear else clocks.begin
    order = np.lexsort((arrival, instance))
    by_arrival = arrival[order]
    after = first + size
    low, high = by_arrival[first + (size - 1) // 2], by_arrival[first + size // 2]
    # of two, the earlier one is what the later is compared with
    middle = np.where(size == 2, low, low + (high - low) // 2)
    late = np.maximum(arrival - np.repeat(middle, size), 0)
    last_late = by_arrival[after - 1] - middle
    told = last_late > (0.0 if unclear else clocks.residual_ns)
    last = np.where(told, order[after - 1], NOBODY)
    alone = by_arrival[after - 1] - by_arrival[after - 2]
    return Waiting(calls, clocks, narrow(wait), narrow(late), instance, first, size, transfer, last, last_late, alone)


MOST_PAIRS = 1 << 16
"""So many pairs are told: of thousands of ranks each may wait for hundreds of others."""


def who_for_whom(found: Waiting, most: int = MOST_PAIRS) -> tuple[pl.DataFrame, int]:
    """How long each rank waited for each other in the end, a row per pair that did; and how many pairs did.

    Of more than `most` pairs they are those of the ranks that were waited for longest.
    """
    if not found.instance.size:
        return pl.DataFrame(schema=WAITS), 0
    told = {"for_rank": narrow(found.origin)[found.instance], "wait_ns": found.stood[0]}
    every = (
        found.calls.frame.lazy()
        .select(pl.col("rank").cast(pl.Int32))
        .with_columns(pl.Series(name, values) for name, values in told.items())
        .filter((pl.col("for_rank") != NOBODY) & (pl.col("rank") != pl.col("for_rank")) & (pl.col("wait_ns") > 0))
    )
    summed = every.group_by("for_rank").agg(pl.col("wait_ns").cast(pl.Int64).sum(), pairs=pl.col("rank").n_unique())
    causes = summed.collect().sort("wait_ns", "for_rank", descending=[True, False])
    before = pl.col("pairs").cum_sum() - pl.col("pairs")
    kept = causes.filter((before == 0) | (before + pl.col("pairs") <= most))["for_rank"]
    pairs = (
        every.filter(pl.col("for_rank").is_in(kept.implode()))
        .group_by("rank", "for_rank")
        .agg(pl.col("wait_ns").cast(pl.Int64).sum(), collectives=pl.len().cast(pl.Int64))
        .collect()
        .sort("wait_ns", "rank", "for_rank", descending=[True, False, False])
        .cast(WAITS)  # type: ignore[arg-type]
    )
    return pairs, int(causes["pairs"].sum())


SHARE = 0.5
"""What a rank had waited before must explain this much of its lateness to be its cause."""
MOST_LINKS = 64
AT_ONCE = 1 << 22
"""So many calls are looked at together: ranks of many groups have long stretches that overlap."""


def roots(found: Waiting) -> Ints:
    """Per instance, the instance whose last rank is the root of its lateness; itself where there is no earlier cause.

    The last rank of an instance is looked at from the end of the collective before it in the same group (where all
    were together) to its arrival. If it waited in collectives of other groups meanwhile for half of its lateness or
    more, the longest of these waits is what made it late.
    """
    calls, clocks = found.calls, found.clocks
    itself: Ints = np.arange(found.first.size, dtype=np.int64)
    chosen = np.flatnonzero(found.last != NOBODY)
    if not chosen.size or calls.frame.n_unique(["group_id", "channel"]) < 2:
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
    causes = _causes(order, found, low[use], began[use])
    parent = itself.copy()
    parent[chosen[use]] = np.where(causes < 0, chosen[use], causes)
    rest = (parent[chosen] == chosen) & (since >= 0)
    parent[chosen[rest]] = _still_late(found, chosen[rest], order[since[rest]])
    # a cause is an instance that somebody was late for
    parent = np.where(found.last[parent] != NOBODY, parent, itself)
    for _ in range(MOST_LINKS):
        further = parent[parent]
        if (further == parent).all():
            break
        parent = further
    return parent


def _still_late(found: Waiting, instances: Ints, before: Ints) -> Ints:
    """The collective before each of these in its group, where its last rank was late already; else each itself.

    Those that wait in a collective which their GPU computes beside run on meanwhile: they are not together after it,
    and the next one meets the same lateness again.
    """
    calls, lasted = found.calls, found.clocks.end - found.clocks.begin
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


def _previous_in_group(calls: Calls, at: Ints, late: Ints) -> Ints:
    """Where the call before each of these, of its rank, group and channel, stands in the order; -1 if none does."""
    group = calls.frame.select(pl.struct("group_id", "channel").rank("dense")).to_series().to_numpy()
    place = calls["place"].to_numpy()
    by_group = np.lexsort((at, group, place))
    same = np.r_[False, (place[by_group][1:] == place[by_group][:-1]) & (group[by_group][1:] == group[by_group][:-1])]
    before: Ints = np.full(at.size, -1, np.int64)
    before[by_group[1:]] = np.where(same[1:], at[by_group[:-1]], -1)
    return before[late]


def _causes(calls: Ints, found: Waiting, low: Ints, high: Ints) -> Ints:
    """Of each stretch of calls, the instance that made its rank late; -1 where it waited for nobody in particular.

    Many short waits for one rank outweigh a long one for another, as the one in which a pipeline fills: of the rank
    that was waited for longest in sum, the longest wait.
    """
    rank, culprit = found.calls["rank"].to_numpy(), found.culprit[found.instance[calls]]
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
