"""Chains to their root: A waited for B in one group because B had waited for C in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.ranks.together.waiting import NOBODY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.ranks.matching.clocks import Clocks
    from tracetui.analysis.ranks.together.waiting import Waiting

    Ints = NDArray[np.int64]

SHARE = 0.5
"""What a rank had waited before must explain this much of its lateness to be its cause."""
MOST_LINKS = 64
_BITS = 21


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
    if not use.any():
        return itself
    longest = _longest(found.wait[order], low[use], began[use])
    parent = itself.copy()
    parent[chosen[use]] = found.instance[order[longest]]
    # a cause is an instance that somebody was late for
    parent = np.where(found.last[parent] != NOBODY, parent, itself)
    for _ in range(MOST_LINKS):
        further = parent[parent]
        if (further == parent).all():
            break
        parent = further
    return parent


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


def _longest(wait: Ints, low: Ints, high: Ints) -> Ints:
    """Of each stretch of the order, where the longest wait stands."""
    coded = np.r_[(np.minimum(wait, 1 << 40) << _BITS) | (np.arange(wait.size) & ((1 << _BITS) - 1)), 0]
    bounds = np.empty(2 * low.size, np.int64)
    bounds[0::2], bounds[1::2] = low, high
    best = np.maximum.reduceat(coded, bounds)[0::2] & ((1 << _BITS) - 1)
    # places beyond the bits' range: the number within the stretch is told by where it begins
    top = low & ~((1 << _BITS) - 1)
    found: Ints = np.where((top | best) >= low, top | best, (top | best) + (1 << _BITS))
    return found
