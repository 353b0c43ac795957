"""What was launched on the GPU while ranges were open: sums over sets of ranges, all sets at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import (
    NONE,
    add_up,
    codes_of,
    count,
    dense,
    lane_order,
    numbered_by,
    row_ids,
)
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.attribution.projection import EVER, NEVER, over_slices
from tracetui.analysis.base import intervals, names
from tracetui.parsers.categories import texts
from tracetui.parsers.names import kernel_names
from tracetui.parsers.nesting import LaneClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tracetui.analysis.attribution.calltree import Bools
    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.analysis.selection import Selection


@dataclass(slots=True)
class Launched:
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


@dataclass(frozen=True, slots=True)
class Sums:
    """One value per set of ranges; times in ns."""

    instances: Ints
    host: Ints
    spent: dict[str, Ints]
    """GPU time by category."""
    calls: dict[str, Ints]
    span: Ints
    step_instances: Ints | None = None
    """Counts only what is inside steps, as the next two do; null without steps."""
    step_host: Ints | None = None
    step_launched: Ints | None = None


def category_of(device: pl.DataFrame) -> pl.Series:
    """Each device row's kernel category, or its kind where it is not a kernel."""
    return _category_of(device, pl.String())


def _category_of(device: pl.DataFrame, dtype: pl.DataType) -> pl.Series:
    by_name = names.mapped(device["name"], kernel_names.category, "other", dtype).alias("category")
    is_kernel = device["kind"].is_in(["kernel", "graph"])
    return by_name if is_kernel.all() else by_name.zip_with(is_kernel, device["kind"].cast(pl.String).cast(dtype))


class Measure:
    """Measures sets of ranges of one selection, all sets at once."""

    def __init__(self, sel: Selection, ranges: pl.DataFrame, *, apart: bool = True) -> None:
        """Prepares the ranges in scope.

        Args:
            sel: where they come from.
            ranges: ``process``, ``thread``, ``start``, ``end`` and ``role`` of each.
            apart: whether sums are told apart by category and by what is in steps.
        """
        work = _launches(sel, apart=apart)
        self._apart = apart
        steps = sel.steps.select("start", end=pl.col("start") + pl.col("duration"))
        if not sel.trace.steps.height:
            steps = _outermost(_in_order(ranges.filter(pl.col("role") == "step"), ["process", "thread"]))
            steps = steps.select("start", "end")
        self._count = steps.height
        self._steps = intervals.union(steps["start"].to_numpy(), steps["end"].to_numpy()) if steps.height else None
        scope = self._steps if sel.by_steps else None
        if sel.scope.window is not None:
            low, high = (np.array([edge]) for edge in sel.scope.window)
            scope = (low, high) if scope is None else intervals.intersect(scope, (low, high))
        if scope is not None:
            ranges = ranges.filter(pl.Series(_begun_in(scope, ranges["start"].to_numpy())))
        self.ranges = ranges
        self._work = _by_process(work, self._steps if apart else None)

    def whole_steps(self) -> tuple[int | None, int | None, int | None]:
        """How many steps there are, their host time and that of what was launched in them; nulls without steps."""
        if self._steps is None:
            return None, None, None
        launched = sum(int(of.spent[of.in_steps].sum()) for of in self._work.values() if of.in_steps is not None)
        return self._count, intervals.length(self._steps), launched

    def sums(self, ranges: pl.DataFrame, size: int) -> Sums:
        """Adds up ranges by their column ``number``, from 0 to `size`."""
        ranges = _in_order(
            ranges.select("process", "thread", "number", "start", "end"), ["process", "thread", "number"]
        )
        outermost = _outermost(ranges)
        number = outermost["number"].to_numpy()
        on_threads = _union(ranges)
        start, end = on_threads["start"].to_numpy(), on_threads["end"].to_numpy()
        of_thread = on_threads["number"].to_numpy()
        pieces = _union(_in_order(on_threads, ["process", "number"]))
        instances, host = count(number, size), add_up(of_thread, end - start, size)
        spent, calls, span, inside = self._launched(pieces, size)
        if self._steps is None or not self._apart:
            return Sums(instances, host, spent, calls, span)
        begun = _begun_in(self._steps, outermost["start"].to_numpy())
        return Sums(
            instances,
            host,
            spent,
            calls,
            span,
            step_instances=count(np.where(begun, number, NONE), size),
            step_host=add_up(of_thread, intervals.covered(self._steps, start, end), size),
            step_launched=inside,
        )

    def _launched(self, pieces: pl.DataFrame, size: int) -> tuple[dict[str, Ints], dict[str, Ints], Ints, Ints]:
        """What was launched in each set's stretches of time.

        Returns:
            Time by category, number by category, span on the GPU, and time of what was launched in steps.
        """
        spent: dict[str, Ints] = {}
        calls: dict[str, Ints] = {}
        span, inside = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for (process,), rows in _parts(pieces):
            if (launched := self._work.get(int(str(process)))) is None:
                continue
            number, start, end = (rows[name].to_numpy() for name in ("number", "start", "end"))
            low = np.searchsorted(launched.time, start, side="left")
            high = np.searchsorted(launched.time, end, side="left")
            first = over_slices(np.minimum, launched.start, low, high, EVER)
            last = over_slices(np.maximum, launched.end, low, high, NEVER)
            span += add_up(number, np.where(high > low, last - first, 0), size)
            none = np.zeros(size, np.int64)
            for code, category in launched.names.items():
                mine = launched.category == code
                whole = len(launched.names) == 1
                among = high - low if whole else _between(mine, low, high)
                calls[category] = calls.get(category, none) + add_up(number, among, size)
                among = _between(launched.spent if whole else np.where(mine, launched.spent, 0), low, high)
                spent[category] = spent.get(category, none) + add_up(number, among, size)
            if launched.in_steps is not None:
                mine = np.where(launched.in_steps, launched.spent, 0)
                inside += add_up(number, _between(mine, low, high), size)
        return spent, calls, span, inside


def _parts(pieces: pl.DataFrame) -> Iterable[tuple[tuple[object, ...], pl.DataFrame]]:
    """The rows of each process; most recordings have one, which needs no copy."""
    if pieces.height and pieces["process"].min() == pieces["process"].max() and not pieces["process"].null_count():
        return (((pieces["process"][0],), pieces),)
    return pieces.group_by("process", maintain_order=True)


def _between(values: Ints | Bools, low: Ints, high: Ints) -> Ints:
    """The sum of ``values[low:high]`` of each pair."""
    running = np.zeros(values.size + 1, np.int64)
    np.cumsum(values, out=running[1:])
    found: Ints = running[high] - running[low]
    return found


def _in_order(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Sorts by ``group`` (a number for each combination of values in `keys`), then by start, then the longer first."""
    group = numbered_by(rows, keys)
    order = lane_order(group, rows["start"].to_numpy(), rows["end"].to_numpy())
    group = group[order]
    ordered = bool((order[1:] > order[:-1]).all())
    return (rows if ordered else rows[order]).with_columns(group=pl.Series(group, dtype=pl.Int64))


def _keys(rows: pl.DataFrame) -> tuple[Ints, Ints, Ints]:
    """Starts, ends and a floor below the group of ordered ranges, as whole numbers that also order the groups."""
    group, start, end = (rows[name].to_numpy() for name in ("group", "start", "end"))
    clock = LaneClock(int(group[-1]) + 1 if group.size else 0, start, end)
    return clock.key(group, start), clock.key(group, end), clock.floor(group)


def _outermost(ordered: pl.DataFrame) -> pl.DataFrame:
    """The ranges that are not inside another one of their group."""
    start, end, floor = _keys(ordered)
    reached = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1])) if end.size else end
    at_its_end = (start == reached) & (end == reached)  # an instant, right behind another
    return ordered.filter(pl.Series((reached < floor) | (end > reached) | at_its_end, dtype=pl.Boolean))


def _union(ordered: pl.DataFrame) -> pl.DataFrame:
    """The time that lies in at least one range of its group, as disjoint stretches."""
    lasting = ordered.filter(pl.col("end") > pl.col("start"))
    if not lasting.height:
        return lasting
    start, end, _ = _keys(lasting)
    first = np.concatenate(([0], np.flatnonzero(start[1:] > np.maximum.accumulate(end)[:-1]) + 1))
    return lasting[first].with_columns(end=pl.Series(np.maximum.reduceat(lasting["end"].to_numpy(), first)))


def _begun_in(within: Intervals, start: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    at = np.searchsorted(within[0], start, side="right") - 1
    if not within[0].size:
        return np.zeros(start.size, np.bool_)
    inside: np.ndarray[tuple[int], np.dtype[np.bool_]] = (at >= 0) & (start < within[1][at])
    return inside


def _launches(sel: Selection, *, apart: bool) -> pl.DataFrame:
    """The device work in scope whose launch is known: start, duration, category, and process and time of the launch."""
    device = device_work(sel)
    device = device.filter(device["launch"].is_not_null() & device["start"].is_not_null())
    launch = row_ids(device["launch"])
    host = sel.trace.host
    return device.select(
        "start",
        pl.col("duration").fill_null(0),
        time=pl.Series(host["start"].to_numpy()[launch]),
        process=pl.Series(host["process"].fill_null(NONE).to_numpy()[launch]),
        category=_category_of(device, pl.Categorical()) if apart else pl.lit("", pl.Categorical),
    )


def _by_process(work: pl.DataFrame, steps: Intervals | None) -> dict[int, Launched]:
    processes = work["process"].unique(maintain_order=True).to_list()
    if len(processes) == 1:
        return {processes[0]: _launched_of(work, steps)}
    return {process: _launched_of(work.filter(pl.col("process") == process), steps) for process in processes}


def _launched_of(rows: pl.DataFrame, steps: Intervals | None) -> Launched:
    """The work of one process, in the order of its launches."""
    time, start, spent = (rows[name].to_numpy() for name in ("time", "start", "duration"))
    code = codes_of(rows["category"])
    if bool((time[1:] < time[:-1]).any()):
        order = np.argsort(time, kind="stable")
        time, start, spent, code = time[order], start[order], spent[order], code[order]
    inside = None if steps is None else _begun_in(steps, time)
    return Launched(time, start, start + spent, code, texts(dense(code)[1].astype(np.uint32)), spent, inside)
