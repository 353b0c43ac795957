"""A place on the screen that one can go back to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Visit:
    """A place that one has been to: a run, a tab, how deep in it, and the filter in force there."""

    tab: str
    filter: str
    numbers: tuple[int, int]
    """The readings of A and B (`OpenRun.number`); 0 where there was none."""
    about: tuple[object, ...]
    """Rank, tool, scope, and what the totals are of."""
    inside: object
    """Where in the tab (`View.place`)."""
