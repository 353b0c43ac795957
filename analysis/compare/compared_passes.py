"""What of two runs is compared: steps without a profiler, light recordings, or the recordings as they are.

A rich recording slows its program down, and more where the host has more to do; so a difference of two of them is
partly the profiler's. What rests on less is taken where both runs have it, never from one run alone.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.analysis.compare.step_difference import StepDifference, step_difference
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.matching.light_times import light_selection, with_light_times
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection, in_steps
from tracetui.parsers.arrays import Floats

CLEAN, LIGHT, RECORDED = "clean", "light", "recorded"
"""Steps timed without a profiler; the runs' light recordings; the recordings that were chosen."""
OF_GPU = ("split", "waterfall", "kinds", "kernels")
"""Parts of a diff that need names of GPU work only, so that light recordings have them."""
OF_NAMES = ("operators", "modules", "ranges")
"""Parts that need what only rich recordings have."""


class StepsCompared(Struct, frozen=True):
    """The difference in step time, and what it is of."""

    rests_on: str
    """`CLEAN`, `LIGHT` or `RECORDED`."""
    step: StepDifference
    steps: tuple[int, int]
    """How many steps of A and of B it is of."""


def light_pair(a: Selection, b: Selection) -> tuple[Selection, Selection] | None:
    """The steps of both runs' light recordings; None unless both have one whose times are used."""
    if a.scope != Scope() or b.scope != Scope():
        return None
    ours = light_selection(with_light_times(a))
    theirs = None if ours is None else light_selection(with_light_times(b))
    return None if ours is None or theirs is None else (in_steps(ours), in_steps(theirs))


def steps_between(a: Selection, b: Selection) -> StepsCompared:
    """The steps of two selections of one kind."""
    return _of(RECORDED, *(durations(sel) for sel in (a, b)))


def steps_compared(a: Selection, b: Selection, lights: tuple[Selection, Selection] | None) -> StepsCompared:
    """The steps that are nearest to both programs.

    Args:
        a: the recording of A.
        b: that of B.
        lights: `light_pair` of them.
    """
    clean = [np.array(sel.trace.clean_step_ns, np.float64) for sel in (a, b)]
    if all(times.size for times in clean) and a.scope == b.scope == Scope():
        return _of(CLEAN, *clean)
    if lights is not None:
        return _of(LIGHT, *(durations(sel) for sel in lights))
    return steps_between(in_steps(a), in_steps(b))


def _of(rests_on: str, ours: Floats, theirs: Floats) -> StepsCompared:
    return StepsCompared(rests_on, step_difference(ours, theirs), (ours.size, theirs.size))


def durations(sel: Selection) -> Floats:
    """How long each step of a selection took, ns."""
    slots = step_slots(sel)
    return (slots.end - slots.start).astype(np.float64)
