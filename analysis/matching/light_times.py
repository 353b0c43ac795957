"""Times of GPU work out of a run's light recording, launch by launch, for the tables of its rich one.

The rich recording has the names (operators, modules, shapes, stacks), and its own recording slowed the program down. So
tables keep its launches and what belongs to them, and take the time of each launch from the light recording: the mean
over the light steps in which it was found. Counts, steps and host times stay those of the rich recording.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.matching.launch_order import NONE
from tracetui.analysis.matching.passes import Work, aligned_work, work_keys
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection, WorkTimes, in_steps, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tracetui.parsers import Trace

    Ints = NDArray[np.int64]

LEAST_PERCENT = 95.0
"""Below this share of GPU time found, of either recording's steps, the rich recording keeps its own times.

The GPU time of equal launches differs little between the two recordings (by under 1 % in 33 of 37 programs), so with
more than a few percent of other work a table of mixed times would be further from the program than one recording's own.
"""


@dataclass(frozen=True, eq=False)
class LightTimes:
    """What the light recording of a run tells about the work in its rich one."""

    light: Trace | None
    """The light recording; null where it can't be read."""
    times: WorkTimes | None = None
    """The times of the rich recording's work; null where they are not used."""
    problem: str = ""
    """Why they are not used, in words; empty where they are."""
    launches: int = 0
    """How many kernels, copies and fills the light steps launched."""
    matched: int = 0
    """How many of them were found in the rich recording's steps."""
    percent: float | None = None
    """The share of the light steps' GPU time that they hold; null without any."""
    lost_ns: float = 0.0
    """GPU time per light step of the others: no table has it."""
    kept: int = 0
    """How many of the rich steps' launches are in no light step, and keep their own time."""
    kept_percent: float | None = None
    """Their share of the rich steps' GPU time; null without any."""


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
    found = light_times(sel.trace)
    return None if found is None or found.light is None else _whole(found.light)


def launching(sel: Selection) -> Selection:
    """Whose launches are nearest to the program's: those of the light recording's steps, else the selection's."""
    light = light_selection(sel)
    return sel if light is None else in_steps(light)


@kept
def _whole(light: Trace) -> Selection:
    return select(light)


def _used(found: LightTimes | None) -> WorkTimes | None:
    return None if found is None else found.times


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
    keys, their_keys, _, _ = work_keys(light.device, ours.rows, rich.device, theirs.rows)
    spent = light.device["duration"].fill_null(0).to_numpy()[ours.rows]
    own = rich.device["duration"].fill_null(0).to_numpy()[theirs.rows]
    total, often = np.zeros(own.size, np.int64), np.zeros(own.size, np.int64)
    found, steps = np.zeros(spent.size, np.bool_), set[int]()
    for mine, other in _compared(ours, keys, theirs, their_keys):
        place = aligned_work(keys[mine], their_keys[other])
        known = np.flatnonzero(place != NONE)
        total[other.start + place[known]] += spent[mine][known]
        often[other.start + place[known]] += 1
        found[mine.start + known] = True
        steps |= {mine.start} if known.size else set()
    timed = often > 0
    mean = np.rint(total / np.maximum(often, 1)).astype(np.int64)
    duration = rich.device["duration"].scatter(theirs.rows[timed], mean[timed]) if timed.any() else None
    said = LightTimes(
        light,
        launches=int(ours.rows.size),
        matched=int(found.sum()),
        percent=_share(spent, found),
        lost_ns=float(spent[~found].sum()) / light.steps.height,
        kept=int((~timed).sum()),
        kept_percent=_share(own, ~timed),
    )
    shares = (said.percent, None if said.kept_percent is None else 100 - said.kept_percent)
    least = min((share for share in shares if share is not None), default=0.0)
    if duration is None or least < LEAST_PERCENT:
        return replace(said, problem=f"only {least:.3g} % of the GPU time is of work that both recordings have")
    return replace(said, times=WorkTimes(duration, len(steps)))


def _compared(ours: Work, keys: Ints, theirs: Work, their_keys: Ints) -> Iterator[tuple[slice, slice]]:
    """Which light step is compared with which rich ones, as the places of their work.

    With every rich step that launched the same work in the same order; where none did, with the one of its number, from
    the beginning again where there are fewer of those.
    """
    steps = [theirs.of_step(step) for step in range(theirs.steps)]
    alike: dict[bytes, list[slice]] = {}
    for other in steps:
        alike.setdefault(their_keys[other].tobytes(), []).append(other)
    for step in range(ours.steps):
        mine = ours.of_step(step)
        for other in alike.get(keys[mine].tobytes(), [steps[step % len(steps)]]):
            yield mine, other


def _share(spent: Ints, chosen: NDArray[np.bool_]) -> float | None:
    whole = int(spent.sum())
    return 100 * int(spent[chosen].sum()) / whole if whole else None
