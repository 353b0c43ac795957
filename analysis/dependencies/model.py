"""The program behind a recording: its graph, priced as recorded and without what the profiler may have cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from statistics import fmean
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct

from tracetui.analysis.base import intervals
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.dependencies.costs import Costs, Times, as_recorded, recorded_steps, step_times, transfers, walk
from tracetui.analysis.dependencies.graph import Graph, graph, launching_threads
from tracetui.analysis.dependencies.host_layers import host_layers
from tracetui.analysis.gpu.step_kinds import are_mixed, typical_ns
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection, select
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Bools, Floats, Ints

Side: TypeAlias = Literal["host", "gpu", "ranks", "unknown"]


MOST_PYTHON_NS = 25_000
"""The most that a Python event can cost: the tracer looks up the line that runs, which takes long in the one long
function that torch.compile generates."""


CALL, OPERATOR, PYTHON = 17_500, 5_200, 2_600
PRICES = {
    "operator": OPERATOR,
    "annotation": OPERATOR,
    "dataloader": OPERATOR,
    "runtime": CALL,
    "driver": CALL,
    "python": PYTHON,
    "module": PYTHON,
}
"""The most that recording one event costs the host, ns, by kind of host event.

At least nine of ten programs whose steps were timed without a profiler too stayed below (docs/metrics.md has the fit).
"""
_PYTHON = ("python", "module")


class RecordingCost(Struct, frozen=True):
    """The most that is the profiler's of each stretch of host time before a call, with the call itself, ns."""

    most: Ints
    events: dict[str, int]
    """How many host events of each kind were recorded on the threads that launch, within the graph."""


@latest
def recording_cost(sel: Selection, graph: Graph) -> RecordingCost:
    """Counts what was recorded in each stretch, and prices it.

    Where stacks were recorded, at most all the time in which a Python function was the innermost call counts as the
    profiler's.
    """
    calls = graph.calls
    host = sel.trace.host
    threads = launching_threads(host, calls.row)
    begin, end = calls.start - calls.stretch, calls.end
    layers = host_layers(sel, graph)
    start = host["start"].to_numpy()
    inside = (threads >= 0) & (start >= begin.min()) & (start < end.max())
    start, kind_of = start[inside], layers.kind[inside]
    size = calls.row.size
    most = np.zeros(size, np.int64)
    counted, python, spent = {}, np.zeros(size, np.int64), np.zeros(size, np.int64)
    for kind, price in PRICES.items():
        mine = np.sort(start[kind_of == schema.HOST_KINDS.index(kind)])
        number = np.searchsorted(mine, end, side="left") - np.searchsorted(mine, begin, side="left")
        counted[kind] = int(number.sum())
        if kind not in _PYTHON:
            most += number * price
            continue
        python += number
        spent += layers.spent(begin, end, schema.HOST_KINDS.index(kind))
    most += np.maximum(python * PYTHON, np.minimum(spent, python * MOST_PYTHON_NS))
    lasted = calls.stretch + (calls.end - calls.start)
    return RecordingCost(np.minimum(most, lasted), counted)


def sides(
    step_ns: float,
    host_free_ns: float,
    kernels_free_ns: float,
    in_time_ns: float | None,
    missed_ns: float,
) -> frozenset[Side]:
    """The sides that may limit a step: ``host``, ``gpu``, or ``ranks``, whose lateness free hosts would gain most.

    Args:
        step_ns: the step.
        host_free_ns: what would be left of it with a free host.
        kernels_free_ns: the same with free GPU work.
        in_time_ns: the same with all other ranks in time; None if none may have been waited for.
        missed_ns: how much the replay of the recorded step misses. It may be missed on any side, so each of these times
            may be longer or shorter by it.
    """
    limits: set[Side] = set()
    waited_ns = 0.0 if in_time_ns is None else step_ns - in_time_ns
    for off, late in product((-missed_ns, missed_ns), repeat=2):
        free = host_free_ns + off
        if waited_ns > 0 and 2 * (waited_ns + late) > step_ns - free:
            limits.add("ranks")
        else:
            limits.add("host" if kernels_free_ns - off > free else "gpu")
    return frozenset(limits)


def agreed(verdicts: Iterable[Side]) -> Side:
    """The one side that is said; the host where it is a host in any case, of this rank or another."""
    distinct = set(verdicts)
    if distinct == {"host", "ranks"}:
        return "host"
    return distinct.pop() if len(distinct) == 1 else "unknown"


TOLERANCE = 0.07
"""How far the step with a free host may lie from the real step of a program that waits for its GPU alone: the largest
error seen on runs with clean steps (docs/metrics.md)."""
AHEAD = 0.05
"""By this part of the clean steps a host is ahead of its GPU that gives them out sooner than they end: more than the
work of the last step, which the host leaves behind where it is the limit, can be of ten steps but the first."""
UNEXPLAINED = 0.03
"""From this error on, the unchanged replay of a step does not explain the recorded one."""
LAUNCHING_NS = 200_000
"""Host time up to this long between two launches is the launching of operators, one after the other: PyTorch takes some
5 to 50 µs for one, several times that on a slow host under a profiler. Longer stretches are other work."""
_ROUNDS = 12


class End(Struct, frozen=True, eq=False):
    """One price of the host's time."""

    costs: Costs
    step_ns: Ints
    """Each step, replayed."""
    times: Times
    """When everything happens in that replay."""

    @property
    def median_ns(self) -> float:
        """The median step."""
        return float(np.median(self.step_ns))


class Saved(Struct, frozen=True):
    """What a change would save of the median step, ns: the least and the most that the recording allows."""

    least_ns: float
    most_ns: float
    shares: tuple[float, ...]
    """At each end, the part of that end's own median step."""


FITS = 0.01
"""How much shorter than the clean step a replay with a faster host may be, and still be of that program."""


@dataclass(frozen=True, eq=False)
class Model:
    """A graph with what is known about its host's time.

    Without clean steps the host's time is known between two ends: as recorded, and without the most that recording may
    have cost. With clean steps there is one end, at which the cost is what leaves them; in a job there are two, since
    how much of it is the other ranks' is not known.
    """

    sel: Selection
    """What was replayed: the selection, or the light recording of its run."""
    graph: Graph
    cost: RecordingCost
    recorded_ns: float
    """The median step as recorded."""
    clean_ns: float | None
    """The median step without a profiler; None if nobody timed it."""
    ends: tuple[End, ...]
    """From the slowest host to the fastest."""
    clean_step_ns: tuple[int, ...] = ()
    """The clean steps themselves."""
    transfer: Ints | None = None
    """What each activity takes at most without waiting for other ranks, ns; None if none may have waited."""
    ahead_ns: float | None = None
    """How long the host takes to give a clean step out, where that is sooner than the GPU ends it, so that the step
    can't wait for it; None where it isn't."""

    @property
    def step_ns(self) -> float:
        """The base of gains: the clean step where it is known, else the recorded one."""
        return self.recorded_ns if self.clean_ns is None else self.clean_ns

    @property
    def step_count(self) -> int:
        """On how many steps the medians rest: the typical ones."""
        return int(self.ends[0].step_ns.size)

    @cached_property
    def _unchanged(self) -> Ints:
        """Each step in a replay of what was recorded."""
        if self.clean_ns is None:
            return self.ends[0].step_ns
        return step_times(self.graph, walk(self.graph, as_recorded(self.graph)))

    @property
    def replayed_ns(self) -> float:
        """The median step in a replay of what was recorded."""
        return float(np.median(self._unchanged))

    @cached_property
    def missed_ns(self) -> float:
        """How far the unchanged replay is from the recorded steps, in the median; at least what it misses theirs by.

        Time that the replay lacks, or has too much of, may be the host's or the GPU's: every replay is uncertain by it.
        """
        taken = recorded_steps(self.graph)
        return max(float(np.median(np.abs(self._unchanged - taken))), abs(self.replayed_ns - self.recorded_ns))

    @cached_property
    def unexplained(self) -> tuple[int, ...]:
        """The steps, by position, that the unchanged replay misses by more than `UNEXPLAINED`."""
        taken = recorded_steps(self.graph)
        off = np.abs(self._unchanged - taken) > UNEXPLAINED * np.maximum(taken, 1)
        first = self.graph.steps.height - taken.size if self.graph.steps.height else 0
        return tuple((np.flatnonzero(off) + max(first, 0)).tolist())

    @cached_property
    def host_free_ns(self) -> float:
        """The median step if the host took no time, except for waiting; in a job of ranks, no rank's host.

        Collectives count as their transfer only, as far as the recording tells it.
        """
        costs = in_time(as_recorded(self.graph), self.transfer)
        nothing = np.zeros_like(costs.stretch)
        return self._median(replace(costs, stretch=nothing, call=nothing))

    @cached_property
    def ranks_in_time_ns(self) -> tuple[float, ...]:
        """The median step if no other rank came late to a collective, at each end."""
        if self.transfer is None:
            return tuple(end.median_ns for end in self.ends)
        return tuple(self._median(in_time(end.costs, self.transfer)) for end in self.ends)

    @cached_property
    def kernels_free_ns(self) -> tuple[float, ...]:
        """The median step if all GPU work took no time, at each end; never longer than a clean step that is known."""
        most = float("inf") if self.clean_ns is None else self.clean_ns
        return tuple(min(self._median(without_work(end.costs)), most) for end in self.ends)

    @property
    def waits_for(self) -> Side:
        """Which of both would shorten the step more if it were free; ``unknown`` where that is not the same throughout.

        It must hold at both ends, and whatever the time is that the unchanged replay misses. Where one end says the
        host and the other the lateness of other ranks, a host it is, of this rank or another.

        Where a free host would gain no more than the method's error on clean steps, the GPU is the limit: also of a
        program whose clean step nobody timed, since that lies between the step with a free host and the recorded one.
        So it is where the host was seen to be ahead, alone: in a job it may be other ranks that the GPU waits for.
        """
        if self.ahead_ns is not None or self.step_ns <= (self.host_free_ns - self.missed_ns) * (1 + TOLERANCE):
            return "gpu"
        return agreed(self.sides)

    @property
    def misses_too_much(self) -> bool:
        """Whether it can't be told for what the unchanged replay misses: one end alone is not the same throughout."""
        explained = self.step_ns <= self.host_free_ns * (1 + TOLERANCE)
        return self.waits_for == "unknown" and (explained or any(agreed(side) == "unknown" for side in self._sides))

    @cached_property
    def sides(self) -> frozenset[Side]:
        """What the ends say; ``ranks`` where most of what free hosts would gain is the lateness of other ranks."""
        return frozenset().union(*self._sides)

    @cached_property
    def _sides(self) -> tuple[frozenset[Side], ...]:
        """What each end says."""
        figures = zip(self.ends, self.kernels_free_ns, self.ranks_in_time_ns, strict=True)
        return tuple(
            sides(end.median_ns, self.host_free_ns, free, late if self.transfer is not None else None, self.missed_ns)
            for end, free, late in figures
        )

    @cached_property
    def _hosts(self) -> tuple[End, ...]:
        """The ends, and the fastest host that fits them too: any is known only by the step that it leaves.

        A GPU that limits the step hides how far its host is ahead, so a free one fits; of a step that waits for its
        host, the clean step fixes it.
        """
        last = self.ends[-1]
        if self.waits_for == "host" or (self.clean_ns is None and self.waits_for != "gpu"):
            return self.ends
        if self.waits_for == "gpu":
            return (*self.ends, _end(self.graph, host_times(last.costs, 0.0)))
        slow, fast, best = 1.0, 0.0, last
        for _ in range(_ROUNDS // 2):
            factor = (slow + fast) / 2
            end = _end(self.graph, host_times(last.costs, factor))
            if end.median_ns < last.median_ns * (1 - FITS):
                fast = factor
            else:
                slow, best = factor, end
        return (*self.ends, best)

    def saved(self, change: Callable[[Costs], Costs], *, may_hold_loss: bool = False) -> Saved:
        """What a change of the costs would save of the median step, over both ends.

        Where the host is the limit and took longer than its recording's cost explains, what is over the clean step is
        saved already.

        Args:
            change: new costs of old ones.
            may_hold_loss: whether, where the clean steps are the longer ones, the host may have lost all that time with
                what the change takes away, such as the making of batches.
        """
        gains = self.saved_by_host(change)
        shares = tuple(gain / max(end.median_ns, 1.0) for gain, end in zip(gains, self._hosts, strict=True))
        lost = self._with_loss(change) if may_hold_loss else 0.0
        return Saved(min(gains), max(*gains, lost), shares)

    def saved_by_host(self, change: Callable[[Costs], Costs]) -> list[float]:
        """What it would save with each host that fits the step, ns; see `saved`."""
        gains = []
        for end in self._hosts:
            after = step_times(self.graph, walk(self.graph, change(end.costs)))
            over = end.median_ns - self.step_ns if self.clean_ns is not None and self.waits_for == "host" else 0.0
            gains.append(max(self.typical(end.step_ns - after) - max(over, 0.0), 0.0))
        return gains

    def _with_loss(self, change: Callable[[Costs], Costs]) -> float:
        """What the change saves of a longer clean step if the host lost nothing in what stays."""
        recorded = as_recorded(self.graph)
        if self.clean_ns is None or self.ends[0].costs.stretch.sum() <= recorded.stretch.sum():
            return 0.0
        return max(self.clean_ns - self._median(change(recorded)), 0.0)

    def _median(self, costs: Costs) -> float:
        return self.typical(step_times(self.graph, walk(self.graph, costs)))

    def typical(self, steps: Floats | Ints) -> float:
        """The median of the steps, or their mean where the program's step is one, as no kind of step is most."""
        is_mean = bool(self.clean_step_ns) and are_mixed(self.clean_step_ns)
        return float(np.mean(steps) if is_mean else np.median(steps))

    def times(self) -> Times:
        """The replay at the first end: the program where it is known, else as recorded."""
        return self.ends[0].times


def program_model(sel: Selection) -> Model | None:
    """The model that the verdict and gains of GPU work rest on: of the run's light recording where it has one.

    That recording has more steps and slows the host down less. It stands for the whole run only: of some steps, GPUs or
    a marked range the recording itself is replayed.
    """
    clean = sel.trace.clean_step_ns
    if sel.trace.light is not None and sel.scope == Scope() and (light := sel.trace.light()) is not None:
        replayed = model(_whole(light), clean, sel.trace, _ahead_ns(sel.trace)) if light.steps.height else None
        if replayed is not None:
            return replayed
    return model(sel, clean, ahead_ns=_ahead_ns(sel.trace))


def _ahead_ns(trace: Trace) -> float | None:
    """See `Model.ahead_ns`; the first clean step fills what the host is ahead by."""
    steps, given_out = trace.clean_step_ns[1:], trace.clean_host_ns[1:]
    is_ahead = len(steps) == len(given_out) > 0 and sum(given_out) < (1 - AHEAD) * sum(steps)
    return fmean(given_out) if is_ahead else None


@kept
def _whole(trace: Trace) -> Selection:
    return select(trace)


@latest
def model(
    sel: Selection,
    clean_step_ns: Sequence[int] = (),
    described: Trace | None = None,
    ahead_ns: float | None = None,
) -> Model | None:
    """Builds the model of a selection.

    Args:
        sel: the recording.
        clean_step_ns: the program's steps as timed without a profiler.
        described: the run's rich recording, which knows more of its collectives; None if `sel` is of that.
        ahead_ns: see `Model.ahead_ns`.

    Returns:
        None where there is no graph, no step has GPU work, or a marked range holds too little to be replayed.
    """
    found = graph(sel)
    if found is None:
        return None
    recorded = recorded_steps(found)
    if not recorded.size:
        return None
    cost = recording_cost(sel, found)
    costs = as_recorded(found)
    taken = float(np.median(recorded))
    bounds = transfers(sel, described)
    transfer = None if bounds is None else _of_work(bounds, found, costs)
    if clean_step_ns:
        clean = typical_ns(clean_step_ns)
        cleaned = tuple(_cleaned(found, costs, cost, clean, transfer))
        ahead = ahead_ns if transfer is None else None
        return Model(sel, found, cost, taken, clean, cleaned, tuple(clean_step_ns), transfer, ahead)
    # the other ranks' hosts were slowed down by recording too
    ends = (_end(found, costs), _end(found, in_time(less_host(costs, cost.most), transfer)))
    replayed = Model(sel, found, cost, taken, None, ends, transfer=transfer)
    # a marked range may cut what its launches wait for
    is_cut = sel.scope.window is not None and min(replayed.host_free_ns, *replayed.kernels_free_ns) < 0
    return None if is_cut else replayed


def _of_work(bounds: Ints, found: Graph, costs: Costs) -> Ints | None:
    """What each activity of the graph takes at most without waiting; None if none is any shorter for it."""
    least = bounds[found.work.row]
    transfer = np.where(least >= 0, np.minimum(least, costs.work), costs.work)
    return transfer if (transfer < costs.work).any() else None


def _end(found: Graph, costs: Costs) -> End:
    times = walk(found, costs)
    return End(costs, step_times(found, times), times)


def _cleaned(found: Graph, costs: Costs, cost: RecordingCost, clean_ns: float, transfer: Ints | None) -> list[End]:
    """What brings the replayed median step closest to the clean one: a part of the largest cost of recording.

    In a job the other ranks' hosts were slowed down too, and their ranks came late for it. Then there are two ends: the
    first takes off of what collectives waited before it takes anything off the host, the second the other way round.
    """
    recorded = _end(found, costs)
    if recorded.median_ns <= clean_ns:
        return [_slower(found, recorded, clean_ns)]

    def less(host: float, waiting: float) -> End:
        spared = np.rint(cost.most * host).astype(np.int64)
        return _end(found, in_time(less_host(costs, spared), transfer, waiting))

    if transfer is None:
        return [_closest(lambda part: less(part, 0), clean_ns)]
    most_host, least_host = less(0, 1), less(1, 0)
    return [
        _closest(lambda part: less(0, part) if most_host.median_ns <= clean_ns else less(part, 1), clean_ns),
        _closest(lambda part: less(part, 0) if least_host.median_ns <= clean_ns else less(1, part), clean_ns),
    ]


def _closest(replayed: Callable[[float], End], clean_ns: float) -> End:
    """The part between 0 and 1, the more the shorter the step, that brings the median closest to the clean step."""
    low, high, best = 0.0, 1.0, None
    for _ in range(_ROUNDS):
        part = (low + high) / 2
        best = replayed(part)
        low, high = (part, high) if best.median_ns > clean_ns else (low, part)
    assert best is not None
    return best


def _slower(found: Graph, recorded: End, clean_ns: float) -> End:
    """A host that is slower by the factor that brings the replayed median step closest to a longer clean one.

    Only where the host is the limit: what lengthens another program's clean steps is not known.
    """
    costs, best = recorded.costs, recorded
    nothing = np.zeros_like(costs.stretch)
    free = step_times(found, walk(found, replace(costs, stretch=nothing, call=nothing)))
    if clean_ns <= float(np.median(free)) * (1 + TOLERANCE):
        return recorded
    low, high = 1.0, 2 * clean_ns / max(recorded.median_ns, 1.0)
    for _ in range(_ROUNDS):
        factor = (low + high) / 2
        best = _end(found, replace(costs, stretch=np.rint(costs.stretch * factor).astype(np.int64)))
        low, high = (factor, high) if best.median_ns < clean_ns else (low, factor)
    return best


def host_times(costs: Costs, factor: float) -> Costs:
    """Costs in which all that the host does takes `factor` of its time, waiting apart."""
    return replace(
        costs,
        stretch=np.rint(costs.stretch * factor).astype(np.int64),
        call=np.rint(costs.call * factor).astype(np.int64),
    )


def less_host(costs: Costs, spared: Ints) -> Costs:
    """Costs without some time of each call's stretch, then of the call itself; neither falls below zero."""
    stretch = np.maximum(costs.stretch - spared, 0)
    rest = np.maximum(spared - costs.stretch, 0)
    return replace(costs, stretch=stretch, call=np.maximum(costs.call - rest, 0))


def partly(costs: Costs, changed: Costs, part: float) -> Costs:
    """Costs of which only a part of a change was had; what no longer waits does not wait."""
    kinds = ("stretch", "call", "work", "gap")
    pairs = ((kind, getattr(costs, kind), getattr(changed, kind)) for kind in kinds)
    return replace(changed, **{kind: old + np.rint(part * (new - old)).astype(np.int64) for kind, old, new in pairs})


def in_time(costs: Costs, transfer: Ints | None, part: float = 1.0) -> Costs:
    """Costs without a part of what collectives waited for other ranks."""
    if transfer is None:
        return costs
    return replace(costs, work=costs.work - np.rint(part * (costs.work - transfer)).astype(np.int64))


def without_work(costs: Costs) -> Costs:
    """Costs with all GPU work free."""
    nothing = np.zeros_like(costs.work)
    return replace(costs, work=nothing, gap=nothing)


def faster_work(
    found: Graph, costs: Costs, chosen: Bools, factor: float, *, fewer_launches: bool = False, whole_way: bool = False
) -> Costs:
    """Costs in which the chosen work takes `factor` of its time; 0: none, and nothing is launched for it if so asked.

    A launch that is no longer made spares its own time and the host's stretch before it, in which its operator runs: at
    most the median of both over all launches, or with `whole_way` all of it, and never more than `LAUNCHING_NS`: in few
    launches far from each other the median is other work too.
    """
    work = np.where(chosen, np.rint(costs.work * factor).astype(np.int64), costs.work)
    gap = np.where(chosen, 0, costs.gap) if factor == 0 else costs.gap
    costs = replace(costs, work=work, gap=gap)
    if not fewer_launches:
        return costs
    number = np.diff(found.first)
    kept = np.bincount(found.work.call[~chosen & (found.work.call >= 0)], minlength=number.size) > 0
    launches = number > 0
    each = costs.stretch + costs.call
    most = min(int(np.median(each[launches])), LAUNCHING_NS) if launches.any() and not whole_way else LAUNCHING_NS
    return less_host(costs, np.where(launches & ~kept, np.minimum(each, most), 0))


def without_copies(found: Graph, costs: Costs, chosen: Bools) -> Costs:
    """Costs with the chosen work free, and without the calls that make it or wait for nothing else."""
    calls, work = found.calls, found.work
    made = np.unique(work.call[chosen & (work.call >= 0)])
    waits = np.repeat(np.arange(calls.row.size), np.diff(calls.wait_from))
    others = np.bincount(waits[~chosen[calls.waited]], minlength=calls.row.size)
    waiting = np.unique(waits)
    gone = np.union1d(made, waiting[others[waiting] == 0])
    call = costs.call.copy()
    call[gone] = 0
    costs = replace(costs, call=call, no_wait=costs.no_wait | frozenset(gone.tolist()))
    return faster_work(found, costs, chosen, 0.0)


def without_calls(found: Graph, costs: Costs, gone: Intervals) -> Costs:
    """Costs without the host's time in these intervals, and without the waits of calls inside them."""
    calls = found.calls
    begin = calls.start - calls.stretch
    inside = intervals.covered(gone, calls.start, calls.end) >= np.maximum(calls.end - calls.start, 1)
    spared = intervals.covered(gone, begin, calls.start)
    stretch = np.maximum(costs.stretch - spared, 0)
    return replace(
        costs,
        stretch=stretch,
        call=np.where(inside, 0, costs.call),
        no_wait=costs.no_wait | frozenset(np.flatnonzero(inside).tolist()),
    )
