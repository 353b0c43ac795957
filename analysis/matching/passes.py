"""Which GPU work of a run's light recording is which of its rich one: the one has the times, the other the names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from tracetui.analysis.matching.launch_order import MOST_EDITS, NONE, in_order, paired
from tracetui.parsers import schema

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from tracetui.parsers import Trace

    Ints = NDArray[np.int64]

WORK = ("kernel", "memcpy", "memset", "graph")
OUTSIDE = "launched outside the steps, as the warm-up of the recording is"
NO_STEPS = "the rich recording has no steps"
NOT_THERE = "no work of this name in the rich step"
OTHER_GRID = "in the rich step with another grid only"
MORE_OFTEN = "more often than in the rich step, or in another order"
"""The reasons in `PassMatch.unmatched`."""


class PassMatch(Struct, frozen=True):
    """What `match_passes` found. Rows are those of the device frames."""

    rich_row: Ints
    """For each row of the light recording the one of the rich recording, or -1: work alone has one, waits have none."""
    rich_step: Ints
    """For each light step the rich step that it was compared with, or -1; rows of the steps frames."""
    in_steps: int
    """How much of the light recording's work was launched in its steps."""
    matched: int
    """How much of that was found in the rich recording."""
    unmatched: dict[str, int]
    """The rest, and what was launched outside the steps, by reason."""
    rich_unmatched: int
    """How much work of the rich recording's steps is in no light step that was compared with them."""

    @property
    def percent(self) -> float | None:
        """Share of the work in the light steps that was found; null without any."""
        return 100 * self.matched / self.in_steps if self.in_steps else None


def match_passes(light: Trace, rich: Trace) -> PassMatch:
    """Finds each kernel, copy and fill of the light recording in the rich one of the same run.

    The n-th light step is compared with the n-th rich one, and from the beginning again where there are fewer of those.
    Within a step both are sequences in the order of their launches; elements are the same if name and grid are. What
    the order leaves over, such as launches of two threads that took turns differently, is paired by name and grid where
    both have equally many.
    """
    ours, theirs = Work.of(light), Work.of(rich)
    keys, their_keys, named, their_named = work_keys(light.device, ours.rows, rich.device, theirs.rows)
    rich_row = np.full(light.device.height, NONE, np.int64)
    rich_step = np.full(light.steps.height, NONE, np.int64)
    used = np.zeros(theirs.rows.size, np.bool_)
    reasons: dict[str, int] = {OUTSIDE: ours.outside}
    for step in range(light.steps.height):
        mine = ours.of_step(step)
        if not rich.steps.height:
            reasons[NO_STEPS] = reasons.get(NO_STEPS, 0) + mine.stop - mine.start
            continue
        rich_step[step] = step % rich.steps.height
        other = theirs.of_step(int(rich_step[step]))
        place = aligned_work(keys[mine], their_keys[other])
        found = np.flatnonzero(place != NONE)
        used[other.start + place[found]] = True
        rich_row[ours.rows[mine][found]] = theirs.rows[other][place[found]]
        lost = place == NONE
        same_name = np.isin(named[mine], their_named[other])
        same_key = np.isin(keys[mine], their_keys[other])
        for reason, rows in (
            (NOT_THERE, ~same_name),
            (OTHER_GRID, same_name & ~same_key),
            (MORE_OFTEN, same_key),
        ):
            reasons[reason] = reasons.get(reason, 0) + int((lost & rows).sum())
    compared = np.isin(theirs.step, rich_step)
    return PassMatch(
        rich_row=rich_row,
        rich_step=rich_step,
        in_steps=int(ours.rows.size),
        matched=int((rich_row != NONE).sum()),
        unmatched={reason: count for reason, count in reasons.items() if count},
        rich_unmatched=int((compared & ~used).sum()),
    )


class Work(Struct, frozen=True):
    """The GPU work in a recording's steps, step by step in the order of the launches."""

    rows: Ints
    """Of the device frame."""
    step: Ints
    bounds: Ints
    outside: int
    """How much work no step launched."""

    @classmethod
    def of(cls, trace: Trace) -> Work:
        """The work of a recording."""
        device = trace.device
        kind = device["kind"].to_physical().to_numpy()
        is_work = np.isin(kind, [schema.DEVICE_KINDS.index(name) for name in WORK])
        step = _ids(device["step"])
        rows = np.flatnonzero(is_work & (step != NONE))
        # work of one launch, as of a CUDA graph, is ordered by its place in the graph: its branches run as they can
        start = device["start"].to_numpy()
        launched = start.copy()
        launch = _ids(device["launch"])
        known = launch != NONE
        launched[known] = trace.host["start"].to_numpy()[launch[known]]
        node = device["graph_node"].fill_null(NONE).to_numpy()
        rows = rows[np.lexsort((start[rows], node[rows], launched[rows], step[rows]))]
        bounds = np.searchsorted(step[rows], np.arange(trace.steps.height + 1))
        return cls(rows, step[rows], bounds, int(is_work.sum()) - rows.size)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return self.bounds.size - 1

    def of_step(self, step: int) -> slice:
        """Where a step's work is among `rows`."""
        return slice(int(self.bounds[step]), int(self.bounds[step + 1]))


def _ids(column: pl.Series) -> Ints:
    ids: Ints = column.cast(int).fill_null(NONE).to_numpy()
    return ids


def work_keys(
    left: pl.DataFrame, left_rows: Ints, right: pl.DataFrame, right_rows: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """A number for each row's name and grid, the same in both frames, and one for its name alone."""
    split = left_rows.size
    frames = ((left, left_rows), (right, right_rows))
    names = np.concatenate([_ids(frame["name"].to_physical())[rows] for frame, rows in frames])
    grids = [frame["grid"].arr.to_struct(["x", "y", "z"]).struct.unnest() for frame, _ in frames]
    keys = names
    for axis in "xyz":
        size = np.concatenate([_ids(grid[axis])[rows] for grid, (_, rows) in zip(grids, frames, strict=True)])
        size = np.unique(size, return_inverse=True)[1]
        keys = np.unique(keys * (int(size.max(initial=0)) + 1) + size, return_inverse=True)[1].astype(np.int64)
    return keys[:split], keys[split:], names[:split], names[split:]


def aligned_work(ours: Ints, theirs: Ints) -> Ints:
    """The place among `theirs` of each of `ours`, or `NONE`."""
    place = in_order(theirs, ours, edits=MOST_EDITS)
    left = np.flatnonzero(place == NONE)
    free = np.ones(theirs.size, np.bool_)
    free[place[place != NONE]] = False
    right = np.flatnonzero(free)
    if left.size and right.size:
        more = paired(theirs[right], ours[left], np.full(left.size, NONE, np.int64))
        known = more != NONE
        place[left[known]] = right[more[known]]
    return place
