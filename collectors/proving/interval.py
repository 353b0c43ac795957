"""The gain of a change and its 95 % interval, from rounds in which both variants took their turn."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
_T_975 = (12.7062, 4.3027, 3.1824, 2.7764)
"""Quantiles of Student's t for 1 to 4 degrees of freedom, two-sided 95 %."""
FEWEST_BY_ORDER = 6
"""From so many rounds on, the smallest and the largest difference enclose the median with 95 %."""


@dataclass(frozen=True)
class Gain:
    """How much shorter a step became."""

    value: float
    low: float | None
    """Of the 95 % interval; null for a single round."""
    high: float | None


def gain_of(before: Sequence[float], after: Sequence[float]) -> Gain:
    """The gain per step, paired by round, so that what slows both down in a round does not count.

    From six rounds on it is the median of the differences, with the interval of the order statistics: it holds for
    differences of any distribution, and one disturbed round moves it by little. Below that it is their mean, with
    Student's t.

    Args:
        before: mean step of each round as it was.
        after: mean step of each round with the change, of as many samples.
    """
    differences = sorted(one - other for one, other in zip(before, after, strict=True))
    count = len(differences)
    if count >= FEWEST_BY_ORDER:
        at = rank(count)
        return Gain(statistics.median(differences), differences[at], differences[count - 1 - at])
    mean = statistics.fmean(differences)
    if count < 2:
        return Gain(mean, None, None)
    wide = _T_975[count - 2] * statistics.stdev(differences) / math.sqrt(count)
    return Gain(mean, mean - wide, mean + wide)


def rank(count: int) -> int:
    """How many of the sorted differences lie below the interval of their median: as many as leave it 95 %."""
    below, chance = 0, 0.5**count
    outside = 2 * chance
    while True:
        chance *= (count - below) / (below + 1)
        if outside + 2 * chance > 1 - CONFIDENCE:
            return below
        outside += 2 * chance
        below += 1
