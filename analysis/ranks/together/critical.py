"""The critical path across ranks: from the last end backwards, each time to the rank that the others waited for.

A summary has no dependencies of single kernels. The path goes from rank to rank where a collective that its GPU could
not hide made one wait for another; between two of these it stays on its rank. Sends count as they do in `waiting`.
"""

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

PATH: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    "own_ns": pl.Float64(),  # the path is on this rank, per step
    "transfer_ns": pl.Float64(),  # of collectives through which it came to this rank
    "percent": pl.Float64(),  # own time, of the path
    "waits": pl.Int64(),  # how often the path goes to this rank
}


def critical_path(calls: pl.DataFrame, clocks: Clocks, found: Waiting, steps: int) -> pl.DataFrame:
    """A row per rank that the path is on (`PATH`), the longest first.

    Args:
        calls: `matched.Matched.calls`.
        clocks: their times on the common clock.
        found: their waiting.
        steps: what "per step" divides by.
    """
    if not calls.height:
        return pl.DataFrame(schema=PATH)
    walked = _Walk(calls, clocks, found)
    walked.run()
    rows = [
        {
            "rank": rank,
            "own_ns": own / steps,
            "transfer_ns": walked.transfer.get(rank, 0.0) / steps,
            "percent": 100 * own / walked.whole if walked.whole else None,
            "waits": walked.waits.get(rank, 0),
        }
        for rank, own in walked.own.items()
    ]
    return pl.DataFrame(rows, schema=PATH).sort("own_ns", "rank", descending=[True, False])


class _Walk:
    """The way back through a recording."""

    def __init__(self, calls: pl.DataFrame, clocks: Clocks, found: Waiting) -> None:
        self.found, self.begin, self.end = found, clocks.begin, clocks.end
        self.rank = calls["rank"].to_numpy()
        self.place = calls["place"].to_numpy()
        exposed = calls["exposed_ns"].fill_null(0).to_numpy()
        last = found.last[found.instance]
        # a rank is held up where it waited for another, and its GPU had nothing else to do for that long
        held = (last != NOBODY) & (last != np.arange(last.size)) & (exposed >= found.wait) & (found.wait > 0)
        self.order = np.lexsort((self.end, self.place))
        self.order = self.order[held[self.order]]
        self.bounds = np.searchsorted(self.place[self.order], np.arange(int(self.place.max()) + 2))
        self.own: dict[int, float] = {}
        self.transfer: dict[int, float] = {}
        self.waits: dict[int, int] = {}
        self.whole = 0.0
        """From the first begin to the last end."""

    def run(self) -> None:
        """From the last end to the first begin."""
        row = int(self.end.argmax())
        time, first = int(self.end[row]), int(self.begin.min())
        self.whole = float(time - first)
        while time > first:
            place, rank = int(self.place[row]), int(self.rank[row])
            mine = self.order[self.bounds[place] : self.bounds[place + 1]]
            at = int(np.searchsorted(self.end[mine], time, side="right")) - 1
            call = int(mine[at]) if at >= 0 else -1
            # what began no earlier than the path has come leads nowhere
            after = int(self.found.last[self.found.instance[call]]) if call >= 0 else -1
            if call < 0 or int(self.begin[after]) >= time:
                _add(self.own, rank, time - first)
                return
            end, arrived = int(self.end[call]), int(self.begin[after])
            cause = int(self.rank[after])
            _add(self.own, rank, time - end)
            _add(self.transfer, cause, max(end - arrived, 0))
            self.waits[cause] = self.waits.get(cause, 0) + 1
            row, time = after, arrived


def _add(sums: dict[int, float], rank: int, ns: float) -> None:
    sums[rank] = sums.get(rank, 0.0) + ns
