"""A place in the navigation history."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Visit:
    """A place that the user has visited: a run, a tab, the position in it, and the filter in force there."""

    tab: str
    filter: str
    numbers: tuple[int, int]
    """The readings of A and B (`OpenRun.number`); 0 if there was none."""
    about: tuple[object, ...]
    """Rank, tool, scope, and what the totals cover."""
    inside: object
    """The position in the tab (`View.place`)."""
