"""Which part of a trace is asked for. It is apart from `selection` so that a command line needs no Polars for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """What to look at; everything by default."""

    steps: tuple[int, int] | None = None
    """Index of the first and last step, both included."""
    skip_steps: int = 0
    """Warm-up: how many of the first steps are left out."""
    devices: frozenset[int] | None = None
    window: tuple[int, int] | None = None
    """Start and end in ns on the trace's clock."""
    steps_by: str | None = None
    """The name of the ranges that are the steps; by default the profiler's own, else those that are found."""
