"""One clock for all hosts: a collective ends on all of its ranks at nearly one moment, which shows how clocks differ.

Every rank's clock is fitted by an offset and a slope, robustly (medians of pieces, then the median of their slopes).
What is left of the ends is the residual: nothing finer than it can be said of times on different ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.ranks.summary import Calls, RankSummary
from tracetui.parsers.arrays import Bools, Floats, Ints

PIECES = 24
"""The ends are summed up in so many medians before slopes are taken: as good, and linear in the number of ends."""
LEAST = 3
"""Fewer common collectives fit no clock."""
ONE_CLOCK_NS = 100_000
"""On one host ends differed by 63 µs at most; an offset below this is no offset where hosts are not recorded."""
ROUNDS = 2
FITTED = {
    "place": pl.Int64(),
    "rank": pl.Int64(),
    "offset_ns": pl.Float64(),
    "drift_ppm": pl.Float64(),
    "residual_ns": pl.Float64(),
    "ends": pl.Int64(),
    "about_ns": pl.Int64(),
}


class Clocks(Struct, frozen=True):
    """How each rank's clock differs from the reference's."""

    fitted: pl.DataFrame
    """A row per place: offset and residual are null where nothing could be fitted. The offset is that of the moment
    ``about_ns``."""
    residual_ns: float
    """Of all ends, the 95th percentile of the distance to their collective's end; infinite where nothing is known."""
    begin: Ints
    """Of each call: when it began, on the common clock."""
    end: Ints

    @property
    def one(self) -> bool:
        """Whether all ranks that could be compared have one clock."""
        offset = self.fitted["offset_ns"].drop_nulls()
        return not (offset != 0).any()


def fit(calls: Calls, summaries: Sequence[RankSummary]) -> Clocks:
    """Fits the clocks of all ranks; ranks of one host have one.

    Args:
        calls: `matched.Matched.calls`.
        summaries: of all ranks, by place.
    """
    begin, end = (calls[name].to_numpy() for name in ("begin", "end"))
    place, instance = narrow(calls["place"].to_numpy()), narrow(calls["instance"].to_numpy())
    clock = narrow(_clock_of(summaries))
    shared = _at_once(calls).to_numpy()
    if calls.height and not shared.any():
        shared[:] = True
    middle = int(np.median(end)) if end.size else 0
    offset, slope, known = _Fit(
        clock[place[shared]], instance[shared], end[shared] - middle, clock.max(initial=-1) + 1
    ).solve()
    if not any(one.host for one in summaries):
        reach = float(np.abs(end - middle).max()) if end.size else 0.0
        apart = np.abs(offset) + np.abs(slope) * reach > ONE_CLOCK_NS
        offset, slope = np.where(apart, offset, 0.0), np.where(apart, slope, 0.0)
    change = offset[clock] if clock.size else offset
    rate = slope[clock] if clock.size else slope

    def moved(time: Ints) -> Ints:
        found: Ints = time - np.rint(change[place] + rate[place] * (time - middle)).astype(np.int64)
        return found

    common = moved(end)
    away = _from_middle(instance[shared], common[shared].astype(np.float64))
    residual = float(np.percentile(np.abs(away), 95)) if away.size else float("inf")
    table = _table(summaries, clock, (change, rate, known), place[shared], away)
    table = table.with_columns(about_ns=pl.lit(middle, pl.Int64))
    return Clocks(table, residual, moved(begin), common)


MOST_DRIFT = 300e-6
"""Clocks of hosts drift apart by less, ns per ns."""
ONE_HOST_NS = 100_000_000
"""Recordings of one host name its times alike, to within this, however each process converts its GPU's."""
LEAST_PROOF = 6
"""Fewer common collectives prove nothing against a rank."""


def strangers(found: Calls, summaries: Sequence[RankSummary]) -> set[int]:
    """The places whose collectives can't be those of most others, whatever their clocks: they are of another job.

    No rank is done with a collective before another has come to it, and clocks drift apart by parts in 10,000.

    Args:
        found: `matched.Matched.calls`.
        summaries: of all ranks, by place.
    """
    calls = found.frame.filter(_at_once(found))
    if not calls.height:
        return set()
    place, instance = calls["place"].to_numpy(), calls["instance"].to_numpy()
    times = calls.select(pl.col("begin", "end").cast(pl.Float64)).to_numpy().T
    rows = rows_of(place, len(summaries))
    left = {at for at in range(len(summaries)) if rows[at].size >= LEAST_PROOF}
    best: tuple[set[int], set[int]] = set(), set()
    # the largest set of ranks that fit each other; most jobs are one
    while len(left) > len(best[0]):
        root = max(left, key=lambda at: (rows[at].size, -at))
        together, others, reached = {root}, set[int](), True
        known = np.full((2, int(instance.max()) + 1), np.nan)
        known[:, instance[rows[root]]] = times[:, rows[root]]
        while reached:
            reached = False
            for at in sorted(left - together - others):
                mine = rows[at][~np.isnan(known[1, instance[rows[at]]])]
                if mine.size < LEAST_PROOF:
                    continue
                reached = True
                one_host = summaries[at].host is not None and summaries[at].host == summaries[root].host
                if (moved := _fits(times[:, mine], known[:, instance[mine]], one_host=one_host)) is None:
                    others.add(at)
                    continue
                together.add(at)
                fresh = rows[at][np.isnan(known[1, instance[rows[at]]])]
                known[:, instance[fresh]] = times[:, fresh] - moved[0] - moved[1] * times[:, fresh]
        if len(together) > len(best[0]):
            best = together, others
        left -= together
    # who shares collectives with strangers alone is one
    strange, shared = best[1], set(instance[np.isin(place, list(best[0]))].tolist())
    with_them = set(instance[np.isin(place, list(strange))].tolist()) - shared
    return strange | {at for at in range(len(summaries)) if with_them & set(instance[rows[at]].tolist())} - best[0]


def _fits(times: Floats, known: Floats, *, one_host: bool) -> tuple[float, float] | None:
    """Offset and slope of a clock by which begins and ends are those of the same collectives; None if there is none."""
    away = times[1] - known[1]
    offset, slope = line(times[1], away)
    drifts = abs(slope) * float(np.ptp(times[1])) > ONE_CLOCK_NS
    if (drifts and abs(slope) > MOST_DRIFT) or (one_host and abs(float(np.median(away))) > ONE_HOST_NS):
        return None
    begin, end = times - offset - slope * times
    late = np.maximum(begin, known[0]) - np.minimum(end, known[1])
    return (offset, slope) if 2 * int((late > ONE_CLOCK_NS).sum()) <= late.size else None


def _at_once(calls: Calls) -> pl.Series:
    """Which calls end everywhere at once; broadcasts, sends and gathers end where they are done."""
    return ~calls.frame["kind"].is_in(["broadcast", "send", "recv", "gather", "scatter", "reduce"]).fill_null(
        value=True
    )


def _table(
    summaries: Sequence[RankSummary],
    clock: Ints,
    fitted: tuple[Floats, Floats, Bools],
    place: Ints,
    away: Floats,
) -> pl.DataFrame:
    change, rate, known = fitted
    seen = (
        pl.DataFrame({"place": place, "away": np.abs(away)})
        .group_by("place")
        .agg(residual_ns=pl.col("away").median(), ends=pl.len().cast(pl.Int64))
    )
    table = pl.DataFrame(
        {
            "place": np.arange(len(summaries)),
            "rank": [one.rank for one in summaries],
            "offset_ns": pl.Series(change, dtype=pl.Float64),
            "drift_ppm": pl.Series(rate * 1e6, dtype=pl.Float64),
            "known": pl.Series(known[clock] if clock.size else [], dtype=pl.Boolean),
        }
    ).join(seen, on="place", how="left", maintain_order="left")
    blank = [pl.when("known").then(pl.col(name)).alias(name) for name in ("offset_ns", "drift_ppm")]
    return table.with_columns(*blank, ends=pl.col("ends").fill_null(0)).select(
        pl.col(name).cast(dtype) for name, dtype in FITTED.items() if name != "about_ns"
    )


def _clock_of(summaries: Sequence[RankSummary]) -> Ints:
    """A number per clock: that of its host, or its own where the host is not known."""
    numbers: dict[object, int] = {}
    found = [numbers.setdefault(one.host or place, len(numbers)) for place, one in enumerate(summaries)]
    return np.array(found, np.int64)


def _from_middle(instance: Ints, time: Floats) -> Floats:
    """How far each time lies from the median of its instance."""
    if not time.size:
        return time
    frame = pl.DataFrame({"instance": instance, "time": time})
    return frame.select(pl.col("time") - pl.col("time").median().over("instance")).to_series().to_numpy()


class _Fit:
    """Offsets and slopes of clocks from the ends of collectives that they share."""

    def __init__(self, clock: Ints, instance: Ints, end: Ints, clocks: int) -> None:
        self.clock, self.instance, self.clocks = clock, instance, clocks
        self.end = end.astype(np.float64)
        self.offset, self.slope = np.zeros(clocks), np.zeros(clocks)
        self.known = np.zeros(clocks, np.bool_)
        self.rows = rows_of(clock, clocks)

    def solve(self) -> tuple[Floats, Floats, Bools]:
        """From the clock with most ends outwards, group by group; then all against the medians of all."""
        if self.end.size:
            root = int(np.argmax([rows.size for rows in self.rows]))
            self.known[root] = True
            while self._reach():
                pass
            for _ in range(ROUNDS if self.clocks > 2 else 0):
                self._refine()
            self.offset -= self.offset[root]
            self.slope -= self.slope[root]
        return self.offset, self.slope, self.known

    def _reach(self) -> bool:
        """Fits the clocks that share collectives with those already known."""
        told = self.known[self.clock]
        reference = self._ends_of(told)
        found = False
        for clock in np.flatnonzero(~self.known).tolist():
            rows = self.rows[clock]
            target = reference[self.instance[rows]]
            mine = rows[~np.isnan(target)]
            if mine.size >= LEAST:
                self._set(clock, mine, reference)
                found = True
        return found

    def _refine(self) -> None:
        reference = self._ends_of(self.known[self.clock])
        for clock in np.flatnonzero(self.known).tolist():
            if self.rows[clock].size >= LEAST:
                self._set(clock, self.rows[clock], reference)

    def _ends_of(self, rows: Bools) -> Floats:
        """The median end of each instance over these rows, on the common clock; NaN where there is none."""
        clock = self.clock[rows]
        time = self.end[rows] - self.offset[clock] - self.slope[clock] * self.end[rows]
        frame = pl.DataFrame({"instance": self.instance[rows], "time": time})
        ends = frame.group_by("instance").agg(pl.col("time").median())
        reference = np.full(int(self.instance.max()) + 1, np.nan)
        reference[ends["instance"].to_numpy()] = ends["time"].to_numpy()
        return reference

    def _set(self, clock: int, rows: Ints, reference: Floats) -> None:
        time = self.end[rows]
        self.offset[clock], self.slope[clock] = line(time, time - reference[self.instance[rows]])
        self.known[clock] = True


def narrow(values: Ints) -> Ints:
    """The same in half of the memory where it has no numbers of more than four bytes."""
    fits = values.size and np.iinfo(np.int32).min < values.min() <= values.max() < np.iinfo(np.int32).max
    found: Ints = values.astype(np.int32) if fits else values
    return found


def rows_of(code: Ints, count: int, time: Ints | None = None) -> list[Ints]:
    """The rows of each number below `count`, as they stand or in the order of a time."""
    order = narrow(np.argsort(code, kind="stable") if time is None else np.lexsort((time, code)))
    bounds = np.searchsorted(code[order], np.arange(count + 1))
    return [order[low:high] for low, high in pairwise(bounds.tolist())]


def line(time: Floats, away: Floats) -> tuple[float, float]:
    """Offset at zero and slope of a robust line; the slope is 0 where it explains no more than the noise."""
    order = np.argsort(time, kind="stable")
    count = min(PIECES, max(time.size // 3, 1))
    # pieces of one length; the few ends left over count in the offset only
    pieces = order[: order.size // count * count].reshape(count, -1)
    x, y = np.median(time[pieces], axis=1), np.median(away[pieces], axis=1)
    flat = float(np.median(away))
    slope = 0.0
    if x.size > 2:
        first, second = np.triu_indices(x.size, 1)
        apart = x[second] - x[first]
        use = apart > 0
        if use.any():
            slope = float(np.median((y[second] - y[first])[use] / apart[use]))
    offset = float(np.median(away - slope * time))
    left = float(np.median(np.abs(away - offset - slope * time)))
    # a slope has to explain more over the whole recording than what it leaves
    if abs(slope) * float(np.ptp(x)) <= 2 * left or left >= float(np.median(np.abs(away - flat))):
        return flat, 0.0
    return offset, slope
