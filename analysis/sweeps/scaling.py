"""How step times grow along one axis of a sweep: where they are flat, and which points do not fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.sweeps.model import Point


def size(point: Point, axis: str) -> float | None:
    """A point's place on an axis of numbers."""
    value = point.axes.get(axis)
    return float(value) if isinstance(value, int | float) and value > 0 else None


def work_of(first: Point, last: Point, axis: str) -> tuple[bool, float]:
    """Whether FLOPs are known, and how many times the work grows; without FLOPs at least as the size does."""
    if first.flops and last.flops:
        return True, last.flops / first.flops
    before, after = size(first, axis), size(last, axis)
    return False, after / before if before and after else 1.0


def flat(
    points: Sequence[Point], axis: str, percent: float, ratio: float, cv: float | None = None
) -> list[Point] | None:
    """The longest stretch whose step times differ by less than `percent` while work grows `ratio` times or more.

    Also None where repeats vary (`Sweep.cv`) so much that two steps may be equal by chance.
    """
    if cv is not None and any(100 * cv * math.sqrt(2 / max(point.repeats, 1)) > percent for point in points):
        return None
    known = [point for point in points if point.step_ns and size(point, axis)]
    best: list[Point] | None = None
    for begin in range(len(known)):
        for end in range(begin + 1, len(known)):
            stretch = known[begin : end + 1]
            times = [point.step_ns or 0.0 for point in stretch]
            if 100 * (max(times) / min(times) - 1) >= percent:
                break
            if work_of(stretch[0], stretch[-1], axis)[1] >= ratio and (best is None or len(stretch) > len(best)):
                best = stretch
    return best


def flat_until(
    points: Sequence[Point], axis: str, limit: float, cv: float | None = None
) -> tuple[Point, float, float | None] | None:
    """The last point before the step time changes with size, the slope up to it, and the slope after it.

    None where it changes from the first point on, where there are fewer than two, or where repeats vary (`Sweep.cv`) so
    much that a slope of this size may be chance.
    """
    known = [point for point in points if point.step_ns and size(point, axis)]
    end = 0
    while end + 1 < len(known) and abs(slope(known[end], known[end + 1], axis)) < limit:
        if cv is not None and _slope_error(known[end], known[end + 1], axis, cv) > limit:
            break
        end += 1
    if not end:
        return None
    after = slope(known[end], known[end + 1], axis) if end + 1 < len(known) else None
    return known[end], slope(known[0], known[end], axis), after


def slope(first: Point, last: Point, axis: str) -> float:
    """``d log(step time) / d log(size)`` between two points of different sizes."""
    before, after = size(first, axis) or 1.0, size(last, axis) or 1.0
    return math.log((last.step_ns or 1.0) / (first.step_ns or 1.0)) / math.log(after / before)


def _slope_error(first: Point, last: Point, axis: str, cv: float) -> float:
    error = cv * math.sqrt(1 / max(first.repeats, 1) + 1 / max(last.repeats, 1))
    return error / abs(math.log((size(last, axis) or 1.0) / (size(first, axis) or 1.0)))


def anomalies(points: Sequence[Point], axis: str, cv: float) -> Iterator[tuple[Point, float, float]]:
    """Points that contradict their neighbours: the point, the step time these allow, the standard errors between both.

    A larger size never makes the step shorter; a larger batch never makes samples per second fewer. If two points
    contradict each other, a point between two neighbours is at fault if it contradicts both; a first or last point is
    at fault if it contradicts its only neighbour.
    """
    known = [point for point in points if point.step_ns and size(point, axis)]
    blamed: set[int] = set()
    if not cv:
        return
    inner = sorted(range(1, len(known) - 1), key=lambda at: -_excess(known, at, axis, cv, (-1, 1))[1])
    for at in [*inner, 0, len(known) - 1]:
        beside = [by for by in (-1, 1) if 0 <= at + by < len(known) and at + by not in blamed]
        # an inner point is judged by both neighbours, since one of them may itself be off
        if len(known) < 3 or (0 < at < len(known) - 1 and len(beside) < 2) or not beside:
            continue
        bound, sigmas = _excess(known, at, axis, cv, beside)
        if sigmas > 0:
            if sigmas > 3:
                blamed.add(at)
            yield known[at], bound, sigmas


def _excess(known: Sequence[Point], at: int, axis: str, cv: float, beside: Sequence[int]) -> tuple[float, float]:
    """How far a point is outside what these neighbours allow: the farthest bound, and the distance in standard errors.

    The distance is 0 unless the point contradicts all of them by at least one standard error.
    """
    point = known[at]
    time = point.step_ns or 0.0
    found = []
    for by in beside:
        other = known[at + by]
        theirs = other.step_ns or 0.0
        in_proportion = theirs * (size(point, axis) or 1.0) / (size(other, axis) or 1.0)
        low, high = (theirs, in_proportion) if by < 0 else (in_proportion, theirs)
        if axis != "batch":  # attention grows faster than its context
            low, high = (theirs, math.inf) if by < 0 else (0.0, theirs)
        bound = min(max(time, low), high)
        error = cv * math.sqrt(1 / max(point.repeats, 1) + 1 / max(other.repeats, 1))
        found.append((bound, abs(math.log(time / bound)) / error))
    agreed = min(sigmas for _, sigmas in found) >= 1
    bound, most = max(found, key=lambda pair: pair[1])
    return bound, most if agreed else 0.0
