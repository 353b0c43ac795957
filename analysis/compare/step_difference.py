"""By how much step times differ, by how much they may differ by chance, and which difference would have been seen.

`shift_interval` rests on no shape of the times' distribution: one slow step in ten, or two kinds of steps, do not
mislead it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from tracetui.parsers.arrays import Floats

CONFIDENCE = 0.95
"""How often a difference by chance stays within the noise."""
BALANCED = 2
"""Up to this ratio of their numbers of steps, two runs share one variance."""
POWER = 0.80
"""How often a true difference of `StepDifference.detectable_ns` goes beyond the noise."""
MOST_ALIKE = 0.95
"""The most that steps are taken to depend on the step before."""


class StepDifference(Struct, frozen=True):
    """Mean step time of both runs, ns."""

    a_ns: float | None
    b_ns: float | None
    delta_ns: float | None
    """Positive where B takes longer."""
    delta_percent: float | None
    noise_ns: float | None
    """Half of the 95 % interval of the difference of means; None with fewer than two steps in either run."""
    a_median_ns: float | None = None
    b_median_ns: float | None = None
    median_delta_ns: float | None = None
    median_delta_percent: float | None = None
    """Difference of the median step times; one slow step does not move it."""

    low_ns: float | None = None
    high_ns: float | None = None
    """The 95 % interval of the difference of medians (`median_interval`)."""
    detectable_ns: float | None = None
    """The smallest true difference of medians that these steps would have shown in four of five recordings."""

    @property
    def median_noise_ns(self) -> float | None:
        """Half of the 95 % interval of the difference of medians."""
        return None if self.low_ns is None or self.high_ns is None else (self.high_ns - self.low_ns) / 2

    @property
    def detectable_percent(self) -> float | None:
        """The smallest difference in percent of A's median."""
        return 100 * self.detectable_ns / self.a_median_ns if self.detectable_ns and self.a_median_ns else None

    @property
    def beyond_noise(self) -> bool | None:
        """Whether the interval rules out that the medians are equal; None where it is unknown."""
        return self.beyond(1.0)

    def beyond(self, times: float) -> bool | None:
        """The same for an interval so many times as wide to the side of zero."""
        if self.low_ns is None or self.high_ns is None or self.median_delta_ns is None:
            return None
        delta = self.median_delta_ns
        reach = delta - self.low_ns if delta > 0 else self.high_ns - delta
        return abs(delta) > times * reach


def step_difference(a: Floats, b: Floats) -> StepDifference:
    """Compares the step times of two runs, ns, in the order of the steps."""
    if not (a.size and b.size):
        means = [float(times.mean()) if times.size else None for times in (a, b)]
        return StepDifference(means[0], means[1], None, None, None)
    before, after = float(a.mean()), float(b.mean())
    a_median, b_median = float(np.median(a)), float(np.median(b))
    noise = low = high = detectable = None
    if min(a.size, b.size) > 1:
        error, freedom = _error(a, b, lambda steps: 1.0)
        noise = quantile((1 + CONFIDENCE) / 2, freedom) * error
        low, high = median_interval(a, b)
        detectable = (high - low) / 2 * reach((1 + CONFIDENCE) / 2, POWER, a.size + b.size - 2.0)
    return StepDifference(
        before, after, after - before, 100 * (after - before) / before if before else None, noise,
        a_median, b_median, b_median - a_median, 100 * (b_median - a_median) / a_median if a_median else None,
        low, high, detectable,
    )  # fmt: skip


def median_interval(a: Floats, b: Floats) -> tuple[float, float]:
    """The 95 % interval of the difference of medians, B less A; of two steps or more in each.

    From four steps on it is that of the ranks, whatever the distribution of step times. Two or three steps have too few
    ranks; theirs is by Student's t, and so rests on normally distributed times. With far more steps in one run than in
    the other, steps that vary more in the shorter one mislead the ranks: then it is the wider one of both. It is
    stretched where steps resemble the one before (`serial_factor`), and always holds the difference itself.
    """
    delta = float(np.median(b) - np.median(a))
    balanced = max(a.size, b.size) <= BALANCED * min(a.size, b.size)
    by_ranks = shift_interval(a, b, CONFIDENCE)
    low, high = by_ranks or (delta, delta)
    if by_ranks is None or not balanced:
        error, freedom = _error(a, b, median_factor)
        if not balanced:
            freedom = min(a.size, b.size) - 1.0  # Welch's are too many where the shorter run varies more
        half = quantile((1 + CONFIDENCE) / 2, freedom) * error
        low, high = min(low, delta - half), max(high, delta + half)
    middle, half = (low + high) / 2, (high - low) / 2 * serial_factor(a, b)
    return min(middle - half, delta), max(middle + half, delta)


def serial_factor(a: Floats, b: Floats) -> float:
    """How many times wider an interval must be because steps resemble the one before; 1 where nothing shows that.

    A clock that sinks, or a neighbour on the machine, makes stretches of slow steps, which tell less than as many
    steps that do not depend on each other: ``sqrt((1 + r) / (1 - r))`` times, with the correlation of a step with the
    next one, of both runs together, corrected for what few steps make it too small by (Kendall). A correlation below
    its own standard error counts as none.
    """
    if min(a.size, b.size) < LEAST:
        return 1.0
    rests = [times - times.mean() for times in (a, b)]
    whole = sum(float((rest**2).sum()) for rest in rests)
    if not whole:
        return 1.0
    alike = sum(float((rest[1:] * rest[:-1]).sum()) for rest in rests) / whole
    steps = a.size + b.size
    alike = min(alike + (1 + 3 * alike) / (steps / 2), MOST_ALIKE)
    return math.sqrt((1 + alike) / (1 - alike)) if alike > 1 / math.sqrt(steps) else 1.0


def noise_factor(a_steps: int, b_steps: int) -> float:
    """How many standard errors of a difference of means make its 95 % interval; 2 where steps tell nothing."""
    freedom = a_steps + b_steps - 2
    return quantile((1 + CONFIDENCE) / 2, freedom) if freedom > 0 else 2.0


def median_factor(steps: int) -> float:
    """The standard error of a median of so many normally distributed values, over that of their mean.

    1.25 for many; the median of two is their mean. A fit to simulations, right to 1 %.
    """
    return max(math.sqrt(math.pi / 2 * steps / (steps + (0.47 if steps % 2 else 1.35))), 1.0)


def _error(a: Floats, b: Floats, factor: Callable[[int], float]) -> tuple[float, float]:
    """The standard error of the difference of two means or medians, and its degrees of freedom.

    Runs of about as many steps share one variance, which two or three steps alone tell too little of; that stays right
    if one varies more than the other. With far more steps in one it does not, and each has its own (Welch).
    """
    weights = np.array([factor(times.size) ** 2 / times.size for times in (a, b)])
    variances = np.array([times.var(ddof=1) for times in (a, b)])
    freedom = np.array([a.size - 1, b.size - 1])
    if max(a.size, b.size) <= BALANCED * min(a.size, b.size):
        shared = float((variances * freedom).sum() / freedom.sum())
        return math.sqrt(shared * float(weights.sum())), float(freedom.sum())
    parts = variances * weights
    whole = float(parts.sum())
    return math.sqrt(whole), whole**2 / float((parts**2 / freedom).sum()) if whole else float(freedom.min())


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


LEAST = 4
"""The fewest values of each set: of three and three, chance alone gives the utmost order in one of ten."""
EXACT = 20
"""Up to so many values of each set, the ranks are counted; above, their number is close to normally distributed."""
MOST = 1000
"""Of larger sets, so many evenly spaced quantiles stand for all."""


def shift_interval(a: Floats, b: Floats, confidence: float) -> tuple[float, float] | None:
    """Between which limits ``b`` is shifted against ``a``: what the test of Mann and Whitney does not rule out.

    Args:
        a: values without order.
        b: values of the same unit.
        confidence: how often the interval holds the true shift, at least (Hodges and Lehmann's interval).

    Returns:
        The limits; None for too few values.
    """
    if min(a.size, b.size) < LEAST:
        return None
    out = _ruled_out(a.size, b.size, 1 - confidence)
    if out < 0:
        return None
    whole = a.size * b.size
    ours, theirs = _thinned(a), _thinned(b)
    differences = (theirs[:, None] - ours[None, :]).ravel()
    at = out if differences.size == whole else int(out / whole * differences.size)
    ordered = np.partition(differences, (at, differences.size - 1 - at))
    return float(ordered[at]), float(ordered[differences.size - 1 - at])


def _thinned(values: Floats) -> Floats:
    if values.size <= MOST:
        return values
    found: Floats = np.quantile(values, (np.arange(MOST) + 0.5) / MOST)
    return found


@lru_cache(maxsize=256)
def _ruled_out(a: int, b: int, level: float) -> int:
    """How many of the least differences (and of the largest) are ruled out; -1 where even none is too many."""
    if max(a, b) > EXACT:
        spread = math.sqrt(a * b * (a + b + 1) / 12)
        return max(math.floor(a * b / 2 - NormalDist().inv_cdf(1 - level / 2) * spread - 0.5), -1)
    ways = _ways(a, b)
    tail, whole = 0, sum(ways)
    for count, many in enumerate(ways):
        tail += many
        if tail > level / 2 * whole:
            return count - 1
    return len(ways) - 1


def _ways(a: int, b: int) -> list[int]:
    """In how many orders of both sets so many pairs stand the other way round: the coefficients of a Gaussian binomial.

    The product over i of ``(1 - x ** (b + i)) / (1 - x ** i)``, for i from 1 to a.
    """
    size = a * b + 1
    found = [1] + [0] * (size - 1)
    for factor in range(1, a + 1):
        for power in range(size - 1, b + factor - 1, -1):
            found[power] -= found[power - b - factor]
        for power in range(factor, size):
            found[power] += found[power - factor]
    return found
