"""Waiting against transfer: who came last to each collective, and who waited for whom.

The last to arrive waits for nobody, so the shortest duration of a collective is its transfer, and what a rank's own
lasts longer is waiting. This needs no common clock. Who came last is told by the clocks as fitted, as far as they tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.ranks.matching.clocks import Clocks

    Ints = NDArray[np.int64]

NOBODY = -1
WAITS = {"rank": pl.Int64(), "for_rank": pl.Int64(), "wait_ns": pl.Int64(), "collectives": pl.Int64()}


class Waiting(Struct, frozen=True):
    """Arrays per call, in the order of `Matched.calls`, and per instance."""

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


def waiting(calls: pl.DataFrame, clocks: Clocks) -> Waiting:
    """Splits every matched collective into waiting and transfer.

    Args:
        calls: `matched.Matched.calls`, by instance.
        clocks: its times on the common clock.
    """
    instance = calls["instance"].to_numpy()
    if not instance.size:
        none = np.empty(0, np.int64)
        return Waiting(*[none] * 9)
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
    return Waiting(
        wait, late, instance, first, size, transfer, last, last_late, by_arrival[after - 1] - by_arrival[after - 2]
    )


def who_for_whom(calls: pl.DataFrame, found: Waiting, culprit: Ints) -> pl.DataFrame:
    """How long each rank waited for each other; a row per pair that did.

    Args:
        calls: `matched.Matched.calls`.
        found: its waiting.
        culprit: per instance, the rank that the others waited for, or `NOBODY`.
    """
    if not found.instance.size:
        return pl.DataFrame(schema=WAITS)
    frame = pl.DataFrame({"rank": calls["rank"], "for_rank": culprit[found.instance], "wait_ns": found.wait}).filter(
        (pl.col("for_rank") != NOBODY) & (pl.col("rank") != pl.col("for_rank")) & (pl.col("wait_ns") > 0)
    )
    return (
        frame.group_by("rank", "for_rank")
        .agg(pl.col("wait_ns").sum(), collectives=pl.len().cast(pl.Int64))
        .sort("wait_ns", "rank", "for_rank", descending=[True, False, False])
        .cast(WAITS)  # type: ignore[arg-type]
    )
