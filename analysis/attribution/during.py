"""What a thread did during a stretch of time: its calls by their own time there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, lanes_of, parents_of

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints

MOST_EVENTS = 400_000
"""Own times are added up only for stretches with at most this many host events."""
UNRECORDED = "(nothing recorded)"
MOST = 3
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
            (name, ns), the most first, at most `MOST`; the time in which no call ran is `UNRECORDED`. Empty where more
            than `MOST_EVENTS` calls ran.
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
        known = (parent != NONE) & (rows[at] == parent) if rows.size else np.zeros(0, np.bool_)
        np.subtract.at(own, at[known], inside[known])
        named = pl.DataFrame({"name": events["name"].cast(pl.String), "ns": np.maximum(own, 0)})
        top = (
            named.group_by("name")
            .agg(pl.col("ns").sum())
            .filter(pl.col("ns") > 0)
            .sort("ns", "name", descending=[True, False])
        )
        found = [(str(name), int(ns)) for name, ns in top.iter_rows()]
        left = end - start - sum(ns for _, ns in found)
        if left > 0:
            found.append((UNRECORDED, left))
        return tuple(sorted(found, key=lambda item: -item[1])[:MOST])

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
