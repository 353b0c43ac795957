"""Student's t distribution: its quantiles, also for degrees of freedom that are no whole number."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

STEPS = 64
"""Intervals of Simpson's rule, which give five digits."""
HALVINGS = 40
POINTS = 100
"""Points of the sum over estimated standard errors, which give three digits."""
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


def reach(probability: float, power: float, freedom: float) -> float:
    """How many times the half of an interval a true difference must be, to lie outside of it with this power.

    The interval is of `quantile` standard errors to each side, and these are estimated: of few values they are now too
    small, now too large, so that more is needed than the sum of two quantiles.

    Args:
        probability: that of `quantile`; 0.975 for a 95 % interval.
        power: how often the difference is to be seen.
        freedom: degrees of freedom of the standard error, 1 or more.
    """
    limit = quantile(probability, freedom)
    return 1 + NormalDist().inv_cdf(power) / limit if freedom > LARGE else _reach(limit, power, round(freedom, 1))


@lru_cache(maxsize=256)
def _reach(limit: float, power: float, freedom: float) -> float:
    # the estimated standard error over the true one, s, is chi-distributed: freedom * s ** 2 is chi squared
    widest = 1 + 6 / math.sqrt(2 * freedom)
    grid = [widest * n / POINTS for n in range(1, POINTS + 1)]
    logs = [(freedom - 1) * math.log(s) - freedom * s * s / 2 for s in grid]
    top = max(logs)
    weights = [math.exp(log - top) for log in logs]
    whole, normal = sum(weights), NormalDist()
    usual = sum(s * weight for s, weight in zip(grid, weights, strict=True)) / whole
    low, high = 0.0, 4 * limit + 10
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        seen = sum(normal.cdf(middle - limit * s) * weight for s, weight in zip(grid, weights, strict=True)) / whole
        low, high = (middle, high) if seen < power else (low, middle)
    return low / (limit * usual)


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
