"""Replays a run's launches to predict how long it would last if some of its GPU work were shorter or absent.

The recording is played again with the host as one line of launches and waits and the GPU as one queue. A kernel starts
when the work before it is done and its launch has been made; a wait of the host ends when the work that it waited for
ends. Nothing else moves. If nothing is removed, the replay ends when the recording did, to the nanosecond.

Several GPUs count as one. The answer is an upper bound of the gain: launching costs no latency, and work that
overlapped other work still does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.projection import lanes_of
from tracetui.analysis.base import intervals, names
from tracetui.analysis.gpu.activities import Activities, activities
from tracetui.analysis.gpu.steps import step_slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

    Bools = NDArray[np.bool_]

BLOCKING_CALL_NS = 100_000
"""A call other than a wait may be waiting too if it takes longer than this while the GPU works: for room in the launch
queue, or for a copy from pageable memory."""
WAITS = re.compile(
    r"^(cuda|hip|cu)\w*Synchronize|^(cuda|hip)Memcpy(2D|3D|\w*Symbol)?$|^cuMemcpy(HtoD|DtoH|DtoD)?(_v2)?$"
)
"""Calls that return only once the GPU has done what they wait for."""
_NEVER = np.iinfo(np.int64).min // 4


@dataclass(frozen=True)
class _Gone:
    """Host time that is removed."""

    at: Ints
    """When each part of it is removed, ascending."""
    total: Ints
    """The sum removed before each of these times, and the whole sum at the end, ns."""

    @classmethod
    def of(cls, at: Ints, amount: Ints, more_at: Ints, more: Ints) -> _Gone:
        at, amount = np.concatenate((at, more_at)), np.concatenate((amount, more))
        order = np.argsort(at, kind="stable")
        return cls(at[order], np.concatenate(([0], np.cumsum(amount[order]))))

    def before(self, time: Ints) -> Ints:
        """How much host time is removed before each time, ns."""
        found: Ints = self.total[np.searchsorted(self.at, time, side="right")]
        return found


@dataclass(frozen=True)
class Replay:
    """A selection's GPU work and the host's launches and waits, within its steps."""

    work: Activities
    """The activities that run in the window, in order of their start."""
    rows: Ints
    """The row of each in the trace's device frame."""
    window: tuple[int, int]
    gap: Ints
    """The time before each activity in which nothing runs, ns."""
    own: Ints
    """What each activity adds to the time in which anything runs, ns."""
    called: Ints
    """When its launch started; a time long before the window if the trace doesn't say."""
    waited: Bools
    """Whether the GPU had nothing to do when its launch was made."""
    launch: Ints
    """Host row of its launch, -1 where unknown."""
    host_cost: Ints
    """What its launch cost the host: the time since the previous launch on the same thread, or the length of the call
    for a thread's first launch; at most the median of those times. If one launch started several activities, only the
    first has a cost; the others have 0."""
    per_launch_ns: float
    """That median."""
    waits: tuple[Ints, Ints]
    """Start and end of the calls in which the host waits for the GPU."""
    host_end: int
    """When the host's work in the window ends."""

    def exclusive(self, chosen: Bools) -> Ints:
        """The time that each chosen activity adds while only chosen work runs, ns."""
        mine = intervals.union(self.work.start[chosen], self.work.end[chosen])
        others = intervals.union(self.work.start[~chosen], self.work.end[~chosen])
        alone = intervals.subtract(mine, others)
        spent = intervals.covered(alone, self.work.end - self.own, self.work.end)
        return np.where(chosen, np.minimum(spent, self.own), 0)

    def saved_ns(
        self, chosen: Bools, *, factor: float = 0.0, fewer_launches: bool = False, alone: Ints | None = None
    ) -> int:
        """Returns by how much the window would shrink if the chosen activities took `factor` of their time, ns.

        Args:
            chosen: marks the activities of `work`.
            factor: 0 for work that vanishes.
            fewer_launches: whether the host does not make their launches either.
            alone: the result of `exclusive` for them, if already computed.
        """
        if not chosen.any():
            return 0
        spared = np.rint((self.exclusive(chosen) if alone is None else alone) * (1 - factor)).astype(np.int64)
        host = self._spared_launches(chosen) if fewer_launches else np.zeros(chosen.size, np.int64)
        return max(self.window[1] - self.window[0] - self.length(spared, host), 0)

    def without_waits(self, start: Ints, end: Ints) -> Replay:
        """Returns the same replay except that the host does not wait in these calls."""
        return replace(self, waits=intervals.subtract(self.waits, intervals.union(start, end)))

    def _spared_launches(self, chosen: Bools) -> Ints:
        """The host's cost of the launches that start only chosen work."""
        kept = _marked(self.launch[~chosen], int(self.launch.max(initial=-1)))
        return np.where(chosen & ~kept[self.launch], self.host_cost, 0)

    def saved_calls_ns(self, start: Ints, end: Ints, chosen: Bools) -> int:
        """Returns by how much the window would shrink without these host calls and the chosen activities, ns."""
        less = self.without_waits(start, end).length(self.exclusive(chosen), more=(end, end - start))
        return max(self.window[1] - self.window[0] - less, 0)

    def length(self, spared: Ints, host: Ints | None = None, more: tuple[Ints, Ints] | None = None) -> int:
        """Returns how long the window lasts if each activity and its launch are shortened by these times, ns.

        Args:
            spared: GPU time removed from each activity.
            host: host time removed from the launch of each activity.
            more: other host time that is removed: when, and how much.
        """
        gone = _Gone.of(*((self.called, host) if host is not None else intervals.empty()), *(more or intervals.empty()))
        busy = self.own - spared
        vanished = (busy == 0) & (spared > 0)
        gap = np.where(self.waited | vanished, 0, self.gap)
        ready = np.where(self.waited, self.work.end - self.own, self.called)
        ready[vanished] = _NEVER
        done = np.cumsum(gap + busy)
        reach = np.maximum.accumulate(self.work.end)
        start, end = self.waits
        last_of = np.searchsorted(reach, end, side="right") - 1
        real = (last_of >= 0) & (reach[last_of] > start)  # the others return at once
        start, end, last_of = start[real], end[real], last_of[real]
        first_of = np.append(np.searchsorted(np.maximum.accumulate(self.called), end, side="left"), done.size)
        lead, lead_of_waits = gone.before(self.called), gone.before(start)
        ends = np.empty_like(done)
        shift, begin, before = 0, 0, self.window[0]
        for number, until in enumerate(first_of.tolist()):
            if until > begin:
                part = slice(begin, until)
                offset = int(done[begin - 1]) if begin else 0
                arrive = ready[part] - shift - lead[part]
                latest = np.maximum.accumulate(np.maximum(arrive + busy[part] - done[part], before - offset))
                ends[part] = latest + done[part]
                begin, before = until, int(ends[until - 1])
            if number < start.size and begin:
                last, ahead = min(int(last_of[number]), begin - 1), int(lead_of_waits[number])
                if reach[last] > start[number]:
                    returns = max(int(start[number]) - shift - ahead, int(ends[last] + end[number] - reach[last]))
                    shift = int(end[number]) - returns - ahead
        finish = self.host_end - shift - int(gone.total[-1])
        return max(finish, int(ends[-1])) - self.window[0]


def replay(sel: Selection) -> Replay | None:
    """Returns the replay of a selection; None if its steps hold no GPU work."""
    slots = step_slots(sel)
    if not slots.start.size or not sel.trace.has_timeline:
        return None
    window = (int(slots.start[0]), int(slots.end[-1]))
    work = activities(sel)
    inside = (work.start >= window[0]) & (work.end <= window[1])
    inside &= work.end > work.start
    work = work.where(inside)
    if not work.start.size:
        return None
    reach = np.concatenate(([window[0]], np.maximum.accumulate(work.end)[:-1]))
    own = np.maximum(work.end - np.maximum(reach, work.start), 0)
    launch = work.column("launch")
    host = sel.trace.host
    began = host["start"].to_numpy()
    called: Ints = np.full(launch.size, _NEVER, np.int64)
    called[launch >= 0] = began[launch[launch >= 0]]
    cost, median = _host_cost(sel, launch, called)
    waits, last = _waits(sel, work, window)
    return Replay(
        work=work,
        rows=_rows(sel, work, inside),
        window=window,
        gap=np.maximum(work.start - reach, 0),
        own=own,
        called=called,
        waited=called > reach,
        launch=launch,
        host_cost=cost,
        per_launch_ns=median,
        waits=waits,
        host_end=_host_end(sel, window, int(work.end.max()), last),
    )


def _rows(sel: Selection, work: Activities, inside: Bools) -> Ints:
    frame = sel.trace.device.with_row_index("row").filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
    if sel.scope.devices is not None:
        frame = frame.filter(pl.col("device").is_in(list(sel.scope.devices)))
    rows: Ints = frame["row"].cast(pl.Int64).to_numpy()[inside]
    return rows


def _host_cost(sel: Selection, launch: Ints, called: Ints) -> tuple[Ints, float]:
    """The host's cost of each activity's launch, and the median time from one launch to the next."""
    known = np.flatnonzero(_marked(launch, int(launch.max(initial=-1)))[:-1])
    cost = np.zeros(launch.size, np.int64)
    if not known.size:
        return cost, 0.0
    calls = sel.trace.host.select("process", "thread", "start", "duration")[known]
    since = _since_the_one_before(calls)
    passed = since.drop_nulls()
    median = float(passed.median()) if passed.len() else float(calls["duration"].median() or 0)  # type: ignore[arg-type]
    each = np.clip(since.fill_null(calls["duration"]).to_numpy(), 0, round(median))
    first = np.empty(int(launch.max()) + 2, np.int64)  # -1, no launch, has the spare entry at the end
    first[launch[::-1]] = np.arange(launch.size - 1, -1, -1)  # for a repeated index the last write wins
    cost[first[known]] = each
    return cost, median


def _marked(launch: Ints, highest: int) -> Bools:
    """Marks which host rows up to the highest occur in `launch`; the last entry stands for -1, no launch."""
    found = np.zeros(highest + 2, np.bool_)
    found[launch] = True
    return found


def _since_the_one_before(calls: pl.DataFrame) -> pl.Series:
    """Time from the end of the thread's previous call to the end of each call, ns; null for a thread's first."""
    lane = lanes_of(calls)
    start = calls["start"].to_numpy()
    end = start + calls["duration"].to_numpy()
    threads = calls.select(pl.struct("process", "thread").n_unique()).item()
    if lane.size and threads == lane[-1] + 1 and bool(((start[1:] > start[:-1]) | (lane[1:] != lane[:-1])).all()):
        since = pl.Series(np.append(0, end[1:] - end[:-1]))
        return since.set(pl.Series(np.append(True, lane[1:] != lane[:-1])), None)
    ends = calls.with_columns(end=pl.Series(end))
    return ends.select(pl.col("end") - pl.col("end").shift(1).over("process", "thread", order_by="start")).to_series()


def _waits(sel: Selection, work: Activities, window: tuple[int, int]) -> tuple[tuple[Ints, Ints], int]:
    """The merged intervals in which the host waits for the GPU in the window, and the end of its last call."""
    calls = sel.trace.host.filter(
        pl.col("kind").is_in(["runtime", "driver"])
        & (pl.col("start") >= window[0])
        & (pl.col("start") + pl.col("duration") <= window[1])
    )
    if not calls.height:
        return intervals.empty(), window[0]
    start = calls["start"].to_numpy()
    end = start + calls["duration"].to_numpy()
    busy = intervals.union(work.start, work.end)
    waits = names.matching(calls["name"], lambda name: WAITS.search(name) is not None)
    waits |= (end - start >= BLOCKING_CALL_NS) & (intervals.covered(busy, start, end) * 2 > end - start)
    return intervals.union(start[waits], end[waits]), int(end.max())


def _host_end(sel: Selection, window: tuple[int, int], gpu_end: int, last_call: int) -> int:
    if gpu_end < window[1]:
        return window[1]
    steps = sel.steps
    if steps.height:
        last_call = max(last_call, int((steps["start"] + steps["duration"]).max()))
    return min(last_call, window[1])
