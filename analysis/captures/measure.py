"""What was launched on the GPU while ranges were open, all sets of ranges at once; GPU work by category and kind."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.analysis.attribution.calltree import NONE, add_up, codes_of, dense, lanes_of, row_ids
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.attribution.projection import EVER, NEVER, over_slices
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.captures import spans
from tracetui.analysis.captures.spans import Spans
from tracetui.analysis.gpu.activities import distinct
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.categories import encode, texts
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_names import kind_of


class Launched(Struct):
    """GPU work of one process in the order of its launches."""

    time: Ints
    """When each was launched."""
    start: Ints
    end: Ints
    category: NDArray[np.uint32]
    """The code of each one's category."""
    names: dict[int, str]
    """The text of each code."""
    spent: Ints
    in_steps: Bools | None
    """What was launched in a step; None without steps."""


class Sums(Struct, frozen=True):
    """One value per set of ranges; times in ns."""

    instances: Ints
    host: Ints
    spent: dict[str, Ints]
    """GPU time by category."""
    calls: dict[str, Ints]
    span: Ints
    step_instances: Ints | None = None
    """Counts only what is inside steps, as the next two do; None without steps."""
    step_host: Ints | None = None
    step_launched: Ints | None = None


def category_of(device: pl.DataFrame) -> pl.Series:
    """Each device row's kernel category, or its kind where it is not a kernel."""
    return _category_of(device, pl.String())


def _category_of(device: pl.DataFrame, dtype: pl.DataType) -> pl.Series:
    by_name = names.mapped(device["name"], kernel_names.category, "other", dtype).alias("category")
    is_kernel = device["kind"].is_in(["kernel", "graph"])
    return by_name if is_kernel.all() else by_name.zip_with(is_kernel, device["kind"].cast(pl.String).cast(dtype))


class Ranges(Struct, frozen=True):
    """Ranges of the host as arrays, thread by thread in the order of the host frame; times in ns."""

    lane: Ints
    """The thread of each (`calltree.lanes_of`)."""
    start: Ints
    end: Ints
    name: Ints
    """What each is called, as a number."""

    def take(self, chosen: Bools) -> Ranges:
        """The chosen ones."""
        if chosen.all():
            return self
        return Ranges(self.lane[chosen], self.start[chosen], self.end[chosen], self.name[chosen])


class Measure:
    """Measures sets of ranges of one selection, all sets at once."""

    def __init__(self, sel: Selection, ranges: Ranges, is_step: Bools, *, apart: bool = True) -> None:
        """Prepares the ranges in scope.

        Args:
            sel: where they come from.
            ranges: the ranges of its whole trace.
            is_step: for each number of `Ranges.name`, whether such ranges stand for steps where the trace has none.
            apart: whether sums are told apart by category and by what is in steps.
        """
        self._apart = apart
        self._process = _process_of_lanes(sel.trace.host)
        if sel.trace.steps.height:
            begin = sel.steps["start"].to_numpy()
            end = begin + sel.steps["duration"].to_numpy()
        else:
            marks = ranges.take(is_step[ranges.name])
            ordered = spans.in_order(marks.lane, marks.start, marks.end)
            ordered = ordered.take(spans.outermost(ordered))
            begin, end = ordered.start, ordered.end
        self._count = begin.size
        self._steps = intervals.union(begin, end) if begin.size else None
        scope = self._steps if sel.by_steps else None
        if sel.scope.window is not None:
            low, high = (np.array([edge]) for edge in sel.scope.window)
            scope = (low, high) if scope is None else intervals.intersect(scope, (low, high))
        self.ranges = ranges if scope is None else ranges.take(intervals.contains(scope, ranges.start))
        self._work = _by_process(sel, self._steps, apart=apart)

    def whole_steps(self) -> tuple[int | None, int | None, int | None]:
        """How many steps there are, their host time and that of what was launched in them; nulls without steps."""
        if self._steps is None:
            return None, None, None
        launched = sum(int(of.spent[of.in_steps].sum()) for of in self._work.values() if of.in_steps is not None)
        return self._count, intervals.length(self._steps), launched

    def sums(self, ranges: Ranges, size: int) -> Sums:
        """Adds up ranges by their `name`, here the number of a set from 0 to `size`."""
        lanes = self._process.size
        # a set's ranges of one thread are a group
        groups, group = spans.dense_groups(ranges.name * lanes + ranges.lane)
        of_group = groups // lanes
        ordered = spans.in_order(group, ranges.start, ranges.end)
        reached = spans.reached_before(ordered)
        is_outer = spans.outermost(ordered, reached)
        on_threads = spans.union(ordered, reached)
        instances = add_up(of_group, spans.per_group(ordered, is_outer, groups.size), size)
        host = add_up(of_group, spans.per_group(on_threads, on_threads.end - on_threads.start, groups.size), size)
        outer = ordered.take(is_outer) if self._apart else None
        del ordered, reached, is_outer, group
        processes, of_lane = np.unique(self._process, return_inverse=True)
        of_process = of_lane[groups % lanes] * size + of_group
        pieces = spans.union(spans.regrouped(on_threads, of_process[on_threads.group]))
        spent, calls, span, inside = self._launched(pieces, processes, size)
        if self._steps is None or outer is None:
            return Sums(instances, host, spent, calls, span)
        begun = intervals.contains(self._steps, outer.start)
        covered = intervals.covered(self._steps, on_threads.start, on_threads.end)
        return Sums(
            instances,
            host,
            spent,
            calls,
            span,
            step_instances=add_up(of_group, spans.per_group(outer, begun, groups.size), size),
            step_host=add_up(of_group, spans.per_group(on_threads, covered, groups.size), size),
            step_launched=inside,
        )

    def _launched(
        self, pieces: Spans, processes: Ints, size: int
    ) -> tuple[dict[str, Ints], dict[str, Ints], Ints, Ints]:
        """What was launched in each set's stretches of time.

        Args:
            pieces: stretches, those of each process and in it of each set as a group.
            processes: the processes, ascending.
            size: how many sets there are.

        Returns:
            Time by category, number by category, span on the GPU, and time of what was launched in steps.
        """
        spent: dict[str, Ints] = {}
        calls: dict[str, Ints] = {}
        span, inside = np.zeros(size, np.int64), np.zeros(size, np.int64)
        edges = np.searchsorted(pieces.group, np.arange(processes.size * size + 1))
        for at, process in enumerate(processes.tolist()):
            # where the stretches of each set begin, and where the last one's end
            sets = edges[at * size : (at + 1) * size + 1]
            here = slice(int(sets[0]), int(sets[-1]))
            if (launched := self._work.get(process)) is None or here.start == here.stop:
                continue
            of_set = sets[:-1] - here.start, sets[1:] - here.start
            low = np.searchsorted(launched.time, pieces.start[here], side="left")
            high = np.searchsorted(launched.time, pieces.end[here], side="left")
            first = over_slices(np.minimum, launched.start, low, high, EVER)
            last = over_slices(np.maximum, launched.end, low, high, NEVER)
            span += spans.between(np.where(high > low, last - first, 0), *of_set)
            del first, last
            none = np.zeros(size, np.int64)
            for code, category in launched.names.items():
                mine = launched.category == code
                whole = len(launched.names) == 1
                among = high - low if whole else spans.between(mine, low, high)
                calls[category] = calls.get(category, none) + spans.between(among, *of_set)
                among = spans.between(launched.spent if whole else np.where(mine, launched.spent, 0), low, high)
                spent[category] = spent.get(category, none) + spans.between(among, *of_set)
            if launched.in_steps is not None:
                mine = np.where(launched.in_steps, launched.spent, 0)
                inside += spans.between(spans.between(mine, low, high), *of_set)
        return spent, calls, span, inside


@latest
def _process_of_lanes(host: pl.DataFrame) -> Ints:
    """The process of each of `lanes_of`."""
    lane = lanes_of(host)
    first = np.searchsorted(lane, np.arange(int(lane[-1]) + 1 if lane.size else 0))
    process: Ints = host["process"].gather(first).fill_null(NONE).to_numpy()
    return process


def _by_process(sel: Selection, steps: Intervals | None, *, apart: bool) -> dict[int, Launched]:
    """The device work in scope whose launch is known, by process."""
    device = device_work(sel)
    if device["launch"].null_count() or device["start"].null_count():
        device = device.filter(pl.col("launch").is_not_null() & pl.col("start").is_not_null())
    if not device.height:
        return {}
    host = sel.trace.host
    launch = row_ids(device["launch"])
    time, start = host["start"].to_numpy()[launch], device["start"].to_numpy()
    spent = device["duration"].fill_null(0).to_numpy()
    code = codes_of(_category_of(device, pl.Categorical())) if apart else np.full(device.height, encode([""])[0])
    of_lane = _process_of_lanes(host)
    inside = steps if apart else None
    # of most recordings there is only one
    if bool((of_lane == of_lane[:1]).all()):
        return {int(of_lane[0]): _launched_of(time, start, spent, code, inside)}
    process = of_lane[lanes_of(host)[launch]]
    found = {}
    for number in distinct(process):
        mine = process == number
        found[number] = _launched_of(time[mine], start[mine], spent[mine], code[mine], inside)
    return found


def _launched_of(time: Ints, start: Ints, spent: Ints, code: NDArray[np.uint32], steps: Intervals | None) -> Launched:
    """The work of one process, in the order of its launches."""
    if bool((time[1:] < time[:-1]).any()):
        order = np.argsort(time, kind="stable")
        time, start, spent, code = time[order], start[order], spent[order], code[order]
    inside = None if steps is None else intervals.contains(steps, time)
    return Launched(time, start, start + spent, code, texts(dense(code)[1].astype(np.uint32)), spent, inside)


def kind_series(device: pl.DataFrame) -> pl.Series:
    """Each device row's kind: of a kernel by its name (`kind_of`), else what it is (``memcpy``)."""
    by_name = names.mapped(device["name"], kind_of, "other", pl.String())
    is_kernel = device["kind"].is_in(["kernel", "graph"])
    kinds: pl.Series = by_name.zip_with(is_kernel, device["kind"].cast(pl.String)).alias("kind")
    return kinds


def kind_times(sel: Selection) -> pl.DataFrame:
    """One row per kind of GPU work in scope, per step: kind, calls, ns, ``top``: its kernel with most time."""
    device = device_work(sel)
    work = device.select(
        kind_series(device), pl.col("name").cast(pl.String), pl.col("duration").fill_null(0).alias("ns")
    )
    by_name = work.group_by("kind", "name").agg(calls=pl.len(), ns=pl.col("ns").sum())
    by_name = by_name.sort("ns", "name", descending=[True, False])
    steps = sel.step_count
    return (
        by_name.group_by("kind", maintain_order=True)
        .agg(calls=pl.col("calls").sum() / steps, ns=pl.col("ns").sum() / steps, top=pl.col("name").first())
        .sort("ns", "kind", descending=[True, False])
    )
