"""Student's t distribution: its quantiles, also for degrees of freedom that are no whole number."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

STEPS = 64
"""Intervals of Simpson's rule, which give five digits."""
HALVINGS = 40
LARGE = 500
"""From so many degrees of freedom on the normal distribution is right to half a percent."""


def quantile(probability: float, freedom: float) -> float:
    """The value that a t-distributed number stays below with this probability.

    Args:
        probability: above 0.5 and below 1.
        freedom: degrees of freedom, 1 or more.
    """
    if not 0.5 < probability < 1 or freedom < 1:
        raise ValueError(f"no quantile for {probability} and {freedom} degrees of freedom")
    if freedom > LARGE:
        return NormalDist().inv_cdf(probability)
    return _quantile(probability, round(freedom, 1))


@lru_cache(maxsize=1024)
def _quantile(probability: float, freedom: float) -> float:
    # t = sqrt(freedom) tan(angle): the density of the angle is proportional to cos(angle) ** (freedom - 1)
    wanted = (probability - 0.5) * math.sqrt(math.pi) * math.exp(
        math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2)
    )  # fmt: skip
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _area(middle, freedom - 1) < wanted else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _area(angle: float, power: float) -> float:
    """The integral of ``cos(x) ** power`` from 0 to the angle, by Simpson's rule."""
    width = angle / STEPS
    heights = [math.cos(n * width) ** power for n in range(STEPS)] + [max(math.cos(angle), 0.0) ** power]
    return float(width / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])))
