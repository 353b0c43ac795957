"""Why the GPU is idle: because launches come late, or for another reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts


GPU_CATEGORIES = ("kernel", "communication", "memcpy", "memset")


def idle(facts: Facts) -> tuple[float, float]:
    """The GPU's idle time per step, and the part of it in which its next work had not been launched, ns.

    With several GPUs it is their mean. Idle time between steps does not count: if the recording has such time, only the
    idle time inside the steps is used, divided among its causes in the proportions of the whole recording.
    """
    whole = facts.overview.idle.filter(pl.col("stream").is_null())
    if not whole.height:
        return 0.0, 0.0
    late = float((whole["idle_ns"] * whole["host_wait_percent"].fill_null(0)).sum()) / 100
    idle_ns = facts.per_step(float(whole["idle_ns"].sum()) / whole.height)
    inside = min(1.0, max(facts.step_ns - _busy_ns(facts), 0.0) / idle_ns) if idle_ns else 0.0
    return idle_ns * inside, facts.per_step(late / whole.height) * inside


def _busy_ns(facts: Facts) -> float:
    """The part of an average step in which at least one GPU works."""
    average = facts.overview.average
    return float(average.filter(pl.col("category").is_in(GPU_CATEGORIES))["ns"].sum())
