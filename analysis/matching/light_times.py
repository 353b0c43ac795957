"""Times of GPU work out of a run's light recording, launch by launch, for the tables of its rich one.

The rich recording has the names (operators, modules, shapes, stacks), and its own recording slowed the program down. So
tables keep its launches and what belongs to them, and take the time of each launch from the light recording: the mean
over the light steps in which it was found. Counts, steps and host times stay those of the rich recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import row_ids
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.matching.launch_order import MOST_EDITS, NONE, in_order, paired
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection, WorkTimes, in_steps, select
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Bools, Ints

WORK = ("kernel", "memcpy", "memset", "graph")


def rows_in_rich(light: Trace, rich: Trace) -> Ints:
    """Finds each kernel, copy and fill of the light recording in the rich one of the same run.

    A light step is compared with the first of the rich ones that `_compared` gives it. Within a step both are sequences
    in the order of their launches; elements are the same if name and grid are. What the order leaves over, such as
    launches of two threads that took turns differently, is paired by name and grid where both have equally many.

    Returns:
        For each row of the light recording's device frame the one of the rich recording's, or -1: work alone has one,
        waits have none, nor has what no step launched.
    """
    ours, theirs = Work.of(light), Work.of(rich)
    keys, their_keys = work_keys(light.device, ours.rows, rich.device, theirs.rows)
    rich_row = np.full(light.device.height, NONE, np.int64)
    first: dict[int, tuple[slice, slice]] = {}
    for mine, other in _compared(ours, keys, theirs, their_keys):
        first.setdefault(mine.start, (mine, other))
    for mine, other in first.values():
        place = aligned_work(keys[mine], their_keys[other])
        matched = np.flatnonzero(place != NONE)
        rich_row[ours.rows[mine][matched]] = theirs.rows[other][place[matched]]
    return rich_row


class Work(Struct, frozen=True):
    """The GPU work in a recording's steps, step by step in the order of the launches."""

    rows: Ints
    """Of the device frame."""
    bounds: Ints

    @classmethod
    def of(cls, trace: Trace) -> Work:
        """The work of a recording."""
        device = trace.device
        kind = device["kind"].to_physical().to_numpy()
        is_work = np.isin(kind, [schema.DEVICE_KINDS.index(name) for name in WORK])
        step = row_ids(device["step"])
        rows = np.flatnonzero(is_work & (step != NONE))
        # work of one launch, as of a CUDA graph, is ordered by its place in the graph: its branches run as they can
        start = device["start"].to_numpy()
        launched = start.copy()
        launch = row_ids(device["launch"])
        has_launch = launch != NONE
        launched[has_launch] = trace.host["start"].to_numpy()[launch[has_launch]]
        node = device["graph_node"].fill_null(NONE).to_numpy()
        rows = rows[np.lexsort((start[rows], node[rows], launched[rows], step[rows]))]
        bounds = np.searchsorted(step[rows], np.arange(trace.steps.height + 1))
        return cls(rows, bounds)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return self.bounds.size - 1

    def of_step(self, step: int) -> slice:
        """Where a step's work is among `rows`."""
        return slice(int(self.bounds[step]), int(self.bounds[step + 1]))


def work_keys(left: pl.DataFrame, left_rows: Ints, right: pl.DataFrame, right_rows: Ints) -> tuple[Ints, Ints]:
    """A number for each row's name and grid, the same in both frames."""
    split = left_rows.size
    frames = ((left, left_rows), (right, right_rows))
    keys = np.concatenate([row_ids(frame["name"].to_physical())[rows] for frame, rows in frames])
    grids = [frame["grid"].arr.to_struct(["x", "y", "z"]).struct.unnest() for frame, _ in frames]
    for axis in "xyz":
        size = np.concatenate([row_ids(grid[axis])[rows] for grid, (_, rows) in zip(grids, frames, strict=True)])
        size = np.unique(size, return_inverse=True)[1]
        keys = np.unique(keys * (int(size.max(initial=0)) + 1) + size, return_inverse=True)[1].astype(np.int64)
    return keys[:split], keys[split:]


def aligned_work(ours: Ints, theirs: Ints) -> Ints:
    """The place among `theirs` of each of `ours`, or `NONE`."""
    place = in_order(theirs, ours, edits=MOST_EDITS)
    left = np.flatnonzero(place == NONE)
    free = np.ones(theirs.size, np.bool_)
    free[place[place != NONE]] = False
    right = np.flatnonzero(free)
    if left.size and right.size:
        more = paired(theirs[right], ours[left], np.full(left.size, NONE, np.int64))
        has_partner = more != NONE
        place[left[has_partner]] = right[more[has_partner]]
    return place


LEAST_PERCENT = 95.0
"""Below this share of GPU time found, of either recording's steps, the rich recording keeps its own times.

The GPU time of equal launches differs little between the two recordings (by under 1 % in 33 of 37 programs), so with
more than a few percent of other work a table of mixed times would be further from the program than one recording's own.
"""


@dataclass(frozen=True, eq=False)
class LightTimes:
    """What the light recording of a run tells about the work in its rich one."""

    light: Trace | None
    """The light recording; None where it can't be read."""
    times: WorkTimes | None = None
    """The times of the rich recording's work; None where they are not used."""
    problem: str = ""
    """Why they are not used, in words; empty where they are."""
    launches: int = 0
    """How many kernels, copies and fills the light steps launched."""
    matched: int = 0
    """How many of them were found in the rich recording's steps."""
    percent: float | None = None
    """The share of the light steps' GPU time that they hold; None without any."""
    lost_ns: float = 0.0
    """GPU time per light step of the others: no table has it."""
    kept: int = 0
    """How many of the rich steps' launches are in no light step, and keep their own time."""
    kept_percent: float | None = None
    """Their share of the rich steps' GPU time; None without any."""


def with_light_times(sel: Selection) -> Selection:
    """The selection with the times of its run's light recording, if it has one; that is read when a table asks."""
    if sel.trace.light is None or sel.times is not None:
        return sel
    trace = sel.trace
    return replace(sel, times=lambda: _used(light_times(trace)))


def light_selection(sel: Selection) -> Selection | None:
    """The whole light recording; None unless its times are used and the selection is of the whole run.

    Steps and stretches of time of the one recording are none of the other. The verdict knows no other case either.
    """
    if sel.times is None or sel.work_times is None or sel.scope != Scope():
        return None
    times = light_times(sel.trace)
    return None if times is None or times.light is None else _whole(times.light)


def launching(sel: Selection) -> Selection:
    """Whose launches are nearest to the program's: those of the light recording's steps, else the selection's."""
    light = light_selection(sel)
    return sel if light is None else in_steps(light)


@kept
def _whole(light: Trace) -> Selection:
    return select(light)


def _used(times: LightTimes | None) -> WorkTimes | None:
    return None if times is None else times.times


@kept
def light_times(rich: Trace) -> LightTimes | None:
    """Finds the times of a recording's work in the light recording of its run; None where there is none."""
    if rich.light is None:
        return None
    light = rich.light()
    if light is None:
        return LightTimes(None, problem="it can't be read")
    if rich.marked_by is not None:
        return LightTimes(light, problem=f"it has no ranges called {rich.marked_by.name}, which are the steps")
    if not rich.steps.height or not light.steps.height:
        return LightTimes(
            light, problem="its steps are not known" if rich.steps.height else "the rich one has no steps"
        )
    return _carried(light, rich)


def _carried(light: Trace, rich: Trace) -> LightTimes:
    ours, theirs = Work.of(light), Work.of(rich)
    keys, their_keys = work_keys(light.device, ours.rows, rich.device, theirs.rows)
    spent = light.device["duration"].fill_null(0).to_numpy()[ours.rows]
    own = rich.device["duration"].fill_null(0).to_numpy()[theirs.rows]
    total, often = np.zeros(own.size, np.int64), np.zeros(own.size, np.int64)
    matched, steps = np.zeros(spent.size, np.bool_), set[int]()
    for mine, other in _compared(ours, keys, theirs, their_keys):
        place = aligned_work(keys[mine], their_keys[other])
        at = np.flatnonzero(place != NONE)
        total[other.start + place[at]] += spent[mine][at]
        often[other.start + place[at]] += 1
        matched[mine.start + at] = True
        steps |= {mine.start} if at.size else set()
    timed = often > 0
    mean = np.rint(total / np.maximum(often, 1)).astype(np.int64)
    duration = rich.device["duration"].scatter(theirs.rows[timed], mean[timed]) if timed.any() else None
    times = LightTimes(
        light,
        launches=int(ours.rows.size),
        matched=int(matched.sum()),
        percent=_share(spent, matched),
        lost_ns=float(spent[~matched].sum()) / light.steps.height,
        kept=int((~timed).sum()),
        kept_percent=_share(own, ~timed),
    )
    shares = (times.percent, None if times.kept_percent is None else 100 - times.kept_percent)
    least = min((share for share in shares if share is not None), default=0.0)
    if duration is None or least < LEAST_PERCENT:
        return replace(times, problem=f"only {least:.3g} % of the GPU time is of work that both recordings have")
    return replace(times, times=WorkTimes(duration, len(steps)))


def _compared(ours: Work, keys: Ints, theirs: Work, their_keys: Ints) -> Iterator[tuple[slice, slice]]:
    """Which light step is compared with which rich ones, as the places of their work.

    With every rich step that launched the same work in the same order; where none did, with the one that launched most
    nearly as much, of several the one of its number, from the beginning again where there are fewer of those.
    """
    steps = [theirs.of_step(step) for step in range(theirs.steps)]
    launched = [their_keys[other].tobytes() for other in steps]
    for step in range(ours.steps if steps else 0):
        mine = ours.of_step(step)
        size, told = mine.stop - mine.start, keys[mine].tobytes()
        in_turn = [(step + later) % len(steps) for later in range(len(steps))]
        alike = [other for other in in_turn if launched[other] == told]
        nearest = min(in_turn, key=lambda other, size=size: abs(steps[other].stop - steps[other].start - size))  # type: ignore[misc]
        for other in alike or [nearest]:
            yield mine, steps[other]


def _share(spent: Ints, chosen: Bools) -> float | None:
    total = int(spent.sum())
    return 100 * int(spent[chosen].sum()) / total if total else None
