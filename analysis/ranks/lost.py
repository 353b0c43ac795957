"""What a job lost, collective by collective along its critical path: made by which rank and why, or by a slow transfer.

The path goes back from the last end: where a collective held a rank up it goes to the rank that came last. At each
collective on it the last rank's lateness is what it has made since the others were together: what it did more than its
peers between the same collectives. Lateness that is only met again, at later collectives that nobody's GPU stood still
in, is not counted again. So all that is lost is a part of the path, which is as long as the recording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.ranks.clocks import narrow, rows_of
from tracetui.analysis.ranks.summary import Calls
from tracetui.analysis.ranks.waiting import Waiting
from tracetui.parsers.arrays import Floats, Ints

PARTS = ("gpu", "silent", "loader", "calls")
"""What a rank did since the collective before: GPU work, silent host time, waiting for data, other host time."""
CALLS = len(PARTS) - 1
TRANSFER = "transfer"
SHARE = 0.1
"""A rank that stood still for so much of its waiting was held up by it."""
LAUNCH_SHARE = 0.1
"""A host that launched a collective so little before it began, of its lateness, is what it was late by."""
PATH: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    "own_ns": pl.Float64(),  # the path is on this rank, per step
    "transfer_ns": pl.Float64(),  # of collectives through which it came to this rank
    "late_ns": pl.Float64(),  # others stood still until it came
    "percent": pl.Float64(),  # own time, of the path
    "waits": pl.Int64(),  # how often the path goes to this rank
}
LOST: dict[str, pl.DataType] = {
    "step": pl.Int64(),  # null where no step launched it
    "rank": pl.Int64(),  # who made it; of a transfer who came last to it
    "cause": pl.String(),  # one of PARTS, `TRANSFER`, or other: lateness that nothing recorded explains
    "lost_ns": pl.Int64(),
}
OTHER = "other"
NO_STEP, NEVER = -(1 << 30), -(1 << 62)
"""In arrays, the step of calls that no step launched, and the time of launches that are not recorded."""


class Lost(Struct, frozen=True):
    """What was lost where. Its parts add up to no more than the recording lasts."""

    path: pl.DataFrame
    """A row per rank that the critical path is on (`PATH`), the longest first."""
    parts: pl.DataFrame
    """`LOST`."""


def lost(found: Waiting, slower: Ints, peers: Ints, steps: int) -> Lost:
    """Follows the critical path.

    Args:
        found: the waiting.
        slower: `links.beyond_usual`.
        peers: by place, a number for each set of ranks that do the same work.
        steps: what "per step" divides by.
    """
    if not found.calls.height:
        return Lost(pl.DataFrame(schema=PATH), pl.DataFrame(schema=LOST))
    walk = _Walk(found, _more(found, peers), slower)
    walk.run()
    whole = walk.whole
    rows = [
        (rank, ns / steps, walk.transfer[rank] / steps, walk.late[rank] / steps, 100 * ns / whole if whole else None,
         walk.waits[rank])
        for rank, ns in walk.own.items()
    ]  # fmt: skip
    parts = [
        (None if step == NO_STEP else step, rank, cause, round(ns))
        for (step, rank, cause), ns in walk.lost.items()
        if round(ns) > 0
    ]
    return Lost(
        pl.DataFrame(rows, schema=PATH, orient="row").sort("own_ns", "rank", descending=[True, False]),
        pl.DataFrame(parts, schema=LOST, orient="row").sort("step", "rank", "cause"),
    )


def _more(found: Waiting, peers: Ints) -> list[Ints]:
    """By `PARTS`, per call: what its rank did more than its peers since the collective before.

    Ranks of one role launch the same collectives in the same order, so the n-th of a step is compared with the n-th.
    """
    calls = found.calls
    place = narrow(calls["place"].to_numpy())
    # work whose launch is not recorded comes first
    launched = calls["launched"].fill_null(NEVER).to_numpy()
    by_launch = narrow(np.lexsort((calls["begin"].to_numpy(), launched, place)))
    step, slot = _codes(calls.frame["step"]), narrow(peers)[place]
    for code in (
        step,
        _place_in(narrow(step + place.astype(np.int64) * (int(step.max()) + 1)), by_launch),
        _codes(calls.frame["kind"]),
    ):
        slot = narrow(slot.astype(np.int64) * (int(code.max()) + 1) + code)
    del step, code
    since = _above_middle(_since(calls, place, launched, by_launch), slot)
    del place, launched, by_launch
    return [*(_above_middle(_known(calls, name), slot) for name in OWN), since]


OWN = ("own_gpu_ns", "silent_ns", "loader_ns")
"""Which column of `summary.COLLECTIVES` says each part; the last is the time between the launches."""


def _known(calls: Calls, name: str) -> Floats:
    """The values, NaN where they are not known; nobody waits for a loader that is not recorded."""
    without = 0.0 if name == "loader_ns" else float("nan")
    values: Floats = calls.frame[name].cast(pl.Float64).fill_null(without).to_numpy()
    return values


def _since(calls: Calls, place: Ints, launched: Ints, by_launch: Ints) -> Floats:
    """Per call: the time since the launch of the one before it in which its host neither waited nor was silent."""
    after, before = by_launch[1:], by_launch[:-1]
    told = (place[after] == place[before]) & (launched[before] != NEVER)
    since = np.full(place.size, np.nan)
    since[after] = np.where(told, launched[after] - launched[before], np.nan)
    for name in ("silent_ns", "loader_ns", "blocked_ns"):
        since -= _known(calls, name)
    np.maximum(since, 0, out=since)
    return since


def _codes(column: pl.Series) -> Ints:
    """A number for each value."""
    return narrow(column.to_physical().rank("dense").fill_null(0).cast(pl.Int64).to_numpy())


def _place_in(code: Ints, order: Ints) -> Ints:
    """How many of the same code come before each in this order."""
    together = order[np.argsort(code[order], kind="stable")]
    first = np.flatnonzero(np.r_[True, np.diff(code[together]) != 0])
    found = np.empty(code.size, np.int64)
    found[together] = np.arange(code.size) - np.repeat(first, np.diff(np.r_[first, code.size]))
    return found


def _above_middle(values: Floats, slot: Ints) -> Ints:
    """How far each value lies above the lower median of its slot; 0 where it is NaN."""
    order = narrow(np.lexsort((values, slot)))  # NaN is last
    first = np.flatnonzero(np.r_[True, np.diff(slot[order]) != 0])
    ascending = values[order]
    known = np.add.reduceat(~np.isnan(ascending), first)
    ascending -= np.repeat(ascending[first + np.maximum(known - 1, 0) // 2], np.diff(np.r_[first, values.size]))
    above = np.empty(values.size, np.int64)
    above[order] = np.nan_to_num(ascending, copy=False)
    return narrow(above)


class _Walk:
    """The walk back along the path, with what it has found so far, in ns."""

    def __init__(self, found: Waiting, more: list[Ints], slower: Ints) -> None:
        calls, clocks = found.calls, found.clocks
        last, lasted = narrow(found.last)[found.instance], narrow(clocks.end - clocks.begin)
        bare = narrow(np.minimum(calls.frame["exposed_ns"].fill_null(0).to_numpy(), lasted))
        mine = last == np.arange(last.size, dtype=np.int32)
        # how long a rank stood still for a later one: its GPU had nothing else to do, where that of the last one had
        transfer = narrow(np.minimum(found.transfer, np.where(found.last >= 0, bare[np.maximum(found.last, 0)], 0)))
        hidden = found.transfer - transfer
        stood = np.where((last >= 0) & ~mine, np.clip(bare - transfer[found.instance], 0, None), 0)
        self.held = (stood > 0) & (stood >= SHARE * found.wait)
        others = pl.DataFrame({"instance": found.instance, "stood": stood}).filter(pl.Series(~mine))
        usual = others.group_by("instance").agg(pl.col("stood").median())
        cost = np.zeros(found.first.size, np.int64)
        cost[usual["instance"].to_numpy()] = usual["stood"].to_numpy()
        cost = narrow(cost)
        # of two that are late together the path is on one, which need not be the last by some µs
        known = (last >= 0) & (found.late > 0)
        late_by = np.where(known, np.minimum(found.late + hidden[found.instance], cost[found.instance]), 0)
        self.late_by = narrow(late_by)
        del late_by, stood, others, known, mine, lasted
        self.more, self.last, self.bare = more, last, bare
        self.begin, self.end = clocks.begin, clocks.end
        ahead = (pl.col("begin").cast(pl.Int64) - pl.col("launched")).cast(pl.Float32)
        led = ahead - ahead.quantile(0.05).over("place").fill_null(0.0)
        self.ahead = calls.frame.select(led.fill_null(np.inf)).to_series().to_numpy()
        self.rank, self.place = narrow(calls["rank"].to_numpy()), narrow(calls["place"].to_numpy())
        self.step = narrow(calls["step"].fill_null(NO_STEP).to_numpy())
        self.rows = rows_of(self.place, int(self.place.max()) + 1, clocks.end)
        sends = (pl.col("channel") >= 0) | (pl.col("kind") == "send_recv").fill_null(value=False)
        self.sends = calls.frame.select(sends).to_series().to_numpy()
        self.slower = narrow(slower)[found.instance]
        self.first = int(clocks.begin.min())
        self.start = int(clocks.end.argmax())
        self.whole = int(self.end[self.start]) - self.first
        self.own: dict[int, int] = defaultdict(int)
        self.transfer: dict[int, int] = defaultdict(int)
        self.late: dict[int, int] = defaultdict(int)
        self.waits: dict[int, int] = defaultdict(int)
        self.lost: dict[tuple[int, int, str], float] = defaultdict(float)

    def run(self) -> None:
        """From the last end to the first begin."""
        row, time = self.start, int(self.end[self.start])
        through: list[int] = []
        while time > self.first:
            place, rank = int(self.place[row]), int(self.rank[row])
            mine = self.rows[place]
            at = int(np.searchsorted(self.end[mine], time, side="right")) - 1
            reached = time
            while at >= 0 and not self._leads(int(mine[at]), time):
                through.append(int(mine[at]))
                at -= 1
            call = int(mine[at]) if at >= 0 else -1
            since = int(self.end[call]) if call >= 0 else self.first
            self._account(rank, since, reached, through)
            if call < 0:
                return
            row = int(self.last[call])
            time = int(self.begin[row])
            cause = int(self.rank[row])
            moved = max(int(self.end[call]) - time, 0)
            self.transfer[cause] += moved
            self.waits[cause] += 1
            self._slow_transfer(call, cause, moved)
            through = [row]

    def _leads(self, call: int, time: int) -> bool:
        """Whether the path changes ranks here; what began no earlier than the path has come leads nowhere."""
        return bool(self.held[call]) and bool(self.begin[self.last[call]] < time)

    def _account(self, rank: int, since: int, reached: int, through: Sequence[int]) -> None:
        """A stretch of the path on one rank, which ends at its arrival to the first of these calls of its, the last."""
        own = reached - since
        new, old, before, step = np.zeros(len(PARTS)), np.zeros(len(PARTS)), since, NO_STEP
        slowed = 0
        for row in reversed(through):
            if self.step[row] != step:  # what nobody met in the step after it, nobody waited for
                new, old, step = np.zeros(len(PARTS)), new, int(self.step[row])
            new = new + [part[row] for part in self.more]
            if new[:CALLS].sum() <= 0:
                new[:CALLS] = 0
            if self.late_by[row] <= 0 or self.begin[row] > reached:
                # one that took long, while this GPU stood still, makes it late to the next
                slowed += int(min(self.slower[row], self.bare[row]))
                continue
            late = left = int(min(self.late_by[row], max(self.begin[row] - before, 0)))
            for made in (old, new):
                left -= self._made(row, rank, made, left)
            slowed = min(slowed, left)
            self.lost[step, rank, TRANSFER] += slowed
            late, left, slowed = late - slowed, left - slowed, 0
            if self.sends[row]:  # in a pipeline each stage waits for the one before it: that makes nobody late
                late, left = late - left, 0
            self.late[rank] += late
            self.lost[step, rank, OTHER] += left
            new[CALLS] = old[CALLS] = 0
            before = int(self.begin[row])
            if self.end[row] <= reached:
                bare = int(min(self.bare[row], self.end[row] - self.begin[row]))
                own -= bare
                self.transfer[rank] += bare
                self._slow_transfer(row, rank, bare)
        self.own[rank] += max(own, 0)

    def _made(self, row: int, rank: int, made: Floats, late: int) -> int:
        """Explains lateness by what a rank did more, which is used up by it; returns how much is explained."""
        more = np.maximum(made, 0)
        if self.ahead[row] > LAUNCH_SHARE * late:  # its GPU was what it waited for, not its host
            more[CALLS] = 0
        told = int(min(max(float(made[:CALLS].sum()), 0.0) + float(more[CALLS]), late))
        if told > 0:
            share = told * more / more.sum()
            made -= share
            for name, ns in zip(PARTS, share.tolist(), strict=True):
                self.lost[int(self.step[row]), rank, name] += ns
        return max(told, 0)

    def _slow_transfer(self, call: int, rank: int, moved: int) -> None:
        self.lost[int(self.step[call]), rank, TRANSFER] += min(int(self.slower[call]), moved)
