"""By how much step times differ, by how much they may differ by chance, and which difference would have been seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from tracetui.analysis.base import student
from tracetui.analysis.base.rank_interval import LEAST, shift_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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
        """Whether the interval rules out that the medians are equal; null where it is unknown."""
        return self.beyond(1.0)

    def beyond(self, times: float) -> bool | None:
        """The same for an interval so many times as wide to the side of zero."""
        if self.low_ns is None or self.high_ns is None or self.median_delta_ns is None:
            return None
        delta = self.median_delta_ns
        reach = delta - self.low_ns if delta > 0 else self.high_ns - delta
        return abs(delta) > times * reach


def step_difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> StepDifference:
    """Compares the step times of two runs, ns, in the order of the steps."""
    if not (a.size and b.size):
        means = [float(times.mean()) if times.size else None for times in (a, b)]
        return StepDifference(means[0], means[1], None, None, None)
    before, after = float(a.mean()), float(b.mean())
    a_median, b_median = float(np.median(a)), float(np.median(b))
    noise = low = high = detectable = None
    if min(a.size, b.size) > 1:
        error, freedom = _error(a, b, lambda steps: 1.0)
        noise = student.quantile((1 + CONFIDENCE) / 2, freedom) * error
        low, high = median_interval(a, b)
        detectable = (high - low) / 2 * student.reach((1 + CONFIDENCE) / 2, POWER, a.size + b.size - 2.0)
    return StepDifference(
        before, after, after - before, 100 * (after - before) / before if before else None, noise,
        a_median, b_median, b_median - a_median, 100 * (b_median - a_median) / a_median if a_median else None,
        low, high, detectable,
    )  # fmt: skip


def median_interval(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
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
        half = student.quantile((1 + CONFIDENCE) / 2, freedom) * error
        low, high = min(low, delta - half), max(high, delta + half)
    middle, half = (low + high) / 2, (high - low) / 2 * serial_factor(a, b)
    return min(middle - half, delta), max(middle + half, delta)


def serial_factor(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
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
    return student.quantile((1 + CONFIDENCE) / 2, freedom) if freedom > 0 else 2.0


def median_factor(steps: int) -> float:
    """The standard error of a median of so many normally distributed values, over that of their mean.

    1.25 for many; the median of two is their mean. A fit to simulations, right to 1 %.
    """
    return max(math.sqrt(math.pi / 2 * steps / (steps + (0.47 if steps % 2 else 1.35))), 1.0)


def _error(a: NDArray[np.float64], b: NDArray[np.float64], factor: Callable[[int], float]) -> tuple[float, float]:
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
