"""How long the GPU waits in a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.overview import Overview


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
    return min(between, max(found.average_step_ns - _busy_ns(found), 0.0))


def _busy_ns(found: Overview) -> float:
    """The part of an average step in which at least one GPU works."""
    average = found.average
    return float(average.filter(pl.col("category").is_in(GPU_CATEGORIES))["ns"].sum())
