"""Which steps the Overview's figures of the GPU are of, and how the others are called.

A run may have three kinds of steps: clean ones without a profiler, of which the verdict and all gains are; those of its
light recording, of which the Overview's GPU figures are; and those of the recording itself, which alone has the host's
work by name. A share of any but the verdict's says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.findings.core import program
from tracetui.analysis.matching.light_times import light_selection
from tracetui.analysis.selection import in_steps

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.selection import Selection

STEP = "the step"


class Shown(Struct, frozen=True):
    """The steps of the Overview's figures of the GPU."""

    sel: Selection
    """The run's light recording where the Overview is of it, else the recording itself."""
    of_steps: Selection
    """`sel` without GPU work that no step launched."""
    steps: int
    """What "per step" divides by."""
    step_ns: float
    """The average step."""
    span: str
    """The base of shares, in words: "the step", "the light step", "the recorded step"."""

    def per_step(self, ns: float) -> float:
        """A time of the whole selection, divided by the number of its steps."""
        return ns / self.steps

    def share(self, ns_per_step: float) -> float | None:
        """A time per step in percent of the step, at most 100; None where the step has no length."""
        return 100 * min(ns_per_step, self.step_ns) / self.step_ns if self.step_ns > 0 else None


@kept
def shown(facts: Facts) -> Shown:
    """The steps whose shares the Overview shows."""
    light = light_selection(facts.sel)
    sel = facts.sel if light is None else light
    span = recorded_span(facts) if light is None else _called(facts, "light")
    return Shown(sel, in_steps(sel), sel.step_count, facts.run_overview.average_step_ns, span)


def recorded_span(facts: Facts) -> str:
    """The base of shares of what the recording itself tells: ``the recorded step`` if the verdict's step is another."""
    return program.span(facts) if is_verdicts(facts) else _called(facts, "recorded")


def host_span(facts: Facts) -> str:
    """The step that `Facts.host_model` says would be shorter: the verdict's, but for a run without clean steps."""
    other = facts.host_model is not facts.model and not facts.trace.clean_step_ns
    return _called(facts, "recorded") if other else program.span(facts)


def as_recorded(facts: Facts) -> str:
    """The end of a text on times of the recording itself: `` as recorded`` if the verdict's step is another."""
    return "" if is_verdicts(facts) else " as recorded"


def is_verdicts(facts: Facts) -> bool:
    """Whether the verdict is about the recording's own steps: nobody timed clean ones, and there is no light one."""
    return not facts.trace.clean_step_ns and facts.run_overview.as_recorded is None


def _called(facts: Facts, which: str) -> str:
    span = program.span(facts)
    return f"the {which} step" if span == STEP else span


GPU_CATEGORIES = ("kernel", "communication", "memcpy", "memset")


def idle_ns(facts: Facts) -> float:
    """The GPU's idle time per step, as the Overview has it.

    With several GPUs it is their mean. Idle time between steps does not count: if the recording has such time, only the
    idle time inside the steps is used.
    """
    found = facts.run_overview
    whole = found.idle.filter(pl.col("stream").is_null())
    if not whole.height:
        return 0.0
    steps = facts.step_count if found.as_recorded is None else max(found.steps, 1)
    between = float(whole["idle_ns"].sum()) / whole.height / steps
    busy = float(found.average.filter(pl.col("category").is_in(GPU_CATEGORIES))["ns"].sum())
    return min(between, max(found.average_step_ns - busy, 0.0))
