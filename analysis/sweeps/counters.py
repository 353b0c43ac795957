"""A sweep's counters: each point a configuration, and what changes from a baseline to its variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.analysis.sweeps.compare import baseline
from tracetui.analysis.sweeps.model import CAPTURE, place

if TYPE_CHECKING:
    from tracetui.analysis.captures.names import Value
    from tracetui.analysis.counters.configurations import Groups
    from tracetui.analysis.sweeps.model import Point, Sweep


@dataclass(frozen=True, slots=True)
class Change:
    """Two points that differ in one axis only."""

    axis: str
    base: Point
    variant: Point

    @property
    def fixed(self) -> dict[str, Value]:
        """The values that both have."""
        return {name: value for name, value in self.base.axes.items() if name != self.axis}


def counted_points(sweep: Sweep) -> dict[str, Point]:
    """The points with counters, by label."""
    return {point.label: point for point in sweep.points if point.counted}


def groups(sweep: Sweep) -> Groups:
    """What `configurations` takes of a sweep; a point's repeats count together."""
    return {label: point.counted for label, point in counted_points(sweep).items()}


def changes(sweep: Sweep) -> list[Change]:
    """Along each axis every point against the one at the axis' baseline, all else alike."""
    points = list(counted_points(sweep).values())
    found = []
    for axis in (name for name in sweep.axes if name != CAPTURE):
        values = sorted({point.axes[axis] for point in points if axis in point.axes}, key=place)
        if len(values) < 2:
            continue
        first = baseline(axis, values)
        bases = {_rest(point, axis): point for point in points if point.axes.get(axis) == first}
        found += [
            Change(axis, bases[_rest(point, axis)], point)
            for point in points
            if axis in point.axes and point.axes[axis] != first and _rest(point, axis) in bases
        ]
    return found


def _rest(point: Point, axis: str) -> tuple[tuple[str, Value], ...]:
    return tuple((name, value) for name, value in point.axes.items() if name != axis)
