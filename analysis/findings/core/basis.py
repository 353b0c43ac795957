"""Which step shares are of, and how another one is called.

A run may have three kinds of steps: clean ones without a profiler, those of its light recording, and those of the
recording itself, which alone has the host's work by name. The page is of one of them (`matching.clean_step`), as the
verdict and all gains are; a share of any other says which.
"""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.findings.core import program
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.matching.light_times import light_selection
from tracetui.analysis.selection import Selection, in_steps

STEP = "the step"


class Shown(Struct, frozen=True):
    """The page's step, and the recording that has its GPU work."""

    sel: Selection
    """The run's light recording where tables have its times, else the recording itself."""
    of_steps: Selection
    """`sel` without GPU work that no step launched."""
    steps: int
    """What "per step" divides by."""
    step_ns: float
    """The page's step."""
    mean_ns: float
    """The mean of those whose shares it has."""
    span: str
    """The base of shares, in words: "the step", or what stands for one."""

    def per_step(self, ns: float) -> float:
        """A time of the whole selection, divided by the number of its steps."""
        return ns / self.steps

    @property
    def scale(self) -> float:
        """What makes a time per step a part of the page's: it has the same share of it as of its own."""
        return self.step_ns / self.mean_ns if self.mean_ns else 1.0

    def of_step(self, ns: float) -> float:
        """A time of the whole selection as a part of the page's step."""
        return self.per_step(ns) * self.scale

    def share(self, ns_per_step: float) -> float | None:
        """A time per step in percent of the step, at most 100; None where the step has no length."""
        return 100 * min(ns_per_step, self.step_ns) / self.step_ns if self.step_ns > 0 else None


@kept
def shown(facts: Facts) -> Shown:
    """The step whose shares the Overview shows."""
    light = light_selection(facts.sel)
    sel = facts.sel if light is None else light
    return Shown(sel, in_steps(sel), sel.step_count, facts.page_step.ns, facts.page_step.mean_ns, program.span(facts))


def recorded_span(facts: Facts) -> str:
    """The base of shares of what the recording itself tells: ``the recorded step`` if the page's step is another."""
    return program.span(facts) if is_verdicts(facts) else _called(facts, "recorded")


def host_span(facts: Facts) -> str:
    """The step that `Facts.host_model` says would be shorter: the verdict's, but for a run without clean steps."""
    other = facts.model is not None and not facts.sel.clean_step_ns
    return _called(facts, "recorded") if other else program.span(facts)


def as_recorded(facts: Facts) -> str:
    """The end of a text on times of the recording itself: `` as recorded`` if the verdict's step is another."""
    return "" if is_verdicts(facts) else " as recorded"


def is_verdicts(facts: Facts) -> bool:
    """Whether the page is of the recording's own steps: nobody timed clean ones, and there is no light one."""
    return facts.page_step.of == "recorded"


def _called(facts: Facts, which: str) -> str:
    span = program.span(facts)
    return f"the {which} step" if span == STEP else span


def idle_ns(facts: Facts) -> float:
    """The GPU's idle time in the step, as the Overview has it; with several GPUs their mean."""
    step = facts.page_step
    busy = step.gpu["busy_percent"].mean()
    return step.ns * (1 - busy / 100) if isinstance(busy, float) else 0.0


def loading_ns(facts: Facts) -> float:
    """How long the step waits for data, as the Overview has it."""
    step = facts.page_step.average
    return float(step.filter(pl.col("category") == "dataloader")["ns"].sum())
