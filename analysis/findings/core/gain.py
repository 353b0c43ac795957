"""The most that a change could shorten a step: the upper bound that findings state."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.findings.core import hints, words
from tracetui.analysis.gpu.bottleneck import GPU_BOUND_PERCENT

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.finding import Severity
    from tracetui.analysis.findings.core.whatif import Bools

CRITICAL_PERCENT, WARNING_PERCENT = 25.0, 5.0
"""Shares of the step from which the time at stake makes a finding critical, or a warning."""


@dataclass(frozen=True)
class Gain:
    """The most that a step could shrink."""

    ns: float
    """Per step."""
    ceiling_percent: float | None
    why: str
    """What the bound rests on, with its numbers."""

    @property
    def severity(self) -> Severity:
        """The severity that follows from the time at stake."""
        return severity(self.ceiling_percent)


def severity(ceiling: float | None) -> Severity:
    """The severity of a finding that could shorten the step by this much."""
    if ceiling is None or ceiling < WARNING_PERCENT:
        return "info"
    return "critical" if ceiling >= CRITICAL_PERCENT else "warning"


def chosen(facts: Facts, rows: Ints) -> Bools:
    """Marks the activities of the replay that are these rows of the device frame."""
    replay = facts.replay
    return np.isin(replay.rows, rows) if replay is not None else np.zeros(0, np.bool_)


def of_kernels(facts: Facts, rows: Ints, *, factor: float = 0.0, fewer_launches: bool = False) -> Gain:
    """The gain if these device rows took `factor` of their time, or were not launched at all.

    If the GPU is the bottleneck, the gain is the time in which nothing else runs on the GPU: the host, which the
    profiler slows down, is not taken for the next bottleneck. Otherwise a replay of the launches says by how much the
    step would shrink.
    """
    replay = facts.replay
    if replay is None:
        return Gain(0.0, 0.0, "no GPU work lies whole in the time looked at")
    mask = chosen(facts, rows)
    spent = facts.per_step(float(replay.work.end[mask].sum() - replay.work.start[mask].sum()))
    by_itself = replay.exclusive(mask)
    alone = facts.per_step(float(by_itself.sum()) * (1 - factor))
    gain = facts.per_step(replay.saved_ns(mask, factor=factor, fewer_launches=fewer_launches, alone=by_itself))
    what = f"{words.ns(spent)} of GPU time {hints.per(facts)}"
    if factor:
        what += f", {words.ns(alone)} of it saved"
    if gpu_is_limit(facts) and alone >= gain:
        return Gain(alone, facts.ceiling(alone), f"{what}; GPU work fills most of the step, so all of it counts")
    launches = f", with {words.ns(replay.per_launch_ns)} of host time per launch" if fewer_launches else ""
    return Gain(gain, facts.ceiling(gain), f"{what}; {_shortened(gain)} when the launches are replayed{launches}")


def gpu_is_limit(facts: Facts) -> bool:
    """Whether GPU work fills so much of the step that the GPU is the bottleneck, as in the overview's verdict.

    If run.json has the times of steps without a profiler, it is also enough that GPU work fills as much of those: then
    only the profiler makes the host slow.
    """
    if facts.overview.verdict.kind == "gpu":
        return True
    clean = facts.manifest.measurement.clean_step_ns if facts.manifest is not None else ()
    if not clean or facts.replay is None:
        return False
    return 100 * facts.per_step(float(facts.replay.own.sum())) >= GPU_BOUND_PERCENT * median(clean)


def of_calls(facts: Facts, start: Ints, end: Ints, rows: Ints) -> Gain:
    """The gain without these calls (or other intervals) on the host and the device rows that they launch."""
    replay = facts.replay
    if replay is None:
        return Gain(0.0, 0.0, "no GPU work lies whole in the time looked at")
    inside = (start >= replay.window[0]) & (end <= replay.window[1])
    gain = facts.per_step(replay.saved_calls_ns(start[inside], end[inside], chosen(facts, rows)))
    return Gain(gain, facts.ceiling(gain), f"{_shortened(gain)} when the launches are replayed without them")


def _shortened(gain: float) -> str:
    return f"the step ends {words.ns(gain)} earlier" if gain >= 1 else "the step does not end earlier"
