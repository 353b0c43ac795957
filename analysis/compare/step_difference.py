"""By how much step times differ, by how much they may differ by chance, and which difference would have been seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base import student

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CONFIDENCE = 0.95
"""How often a difference by chance stays within the noise."""
BALANCED = 2
"""Up to this ratio of their numbers of steps, two runs share one variance."""
POWER = 0.80
"""How often a true difference of `StepDifference.detectable_ns` goes beyond the noise."""


@dataclass(frozen=True, slots=True)
class StepDifference:
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

    median_noise_ns: float | None = None
    """The same of the difference of medians, which vary more than means (`median_factor`)."""
    detectable_ns: float | None = None
    """The smallest true difference of medians that these steps would have shown in four of five recordings."""

    @property
    def detectable_percent(self) -> float | None:
        """The same in percent of A's median."""
        return 100 * self.detectable_ns / self.a_median_ns if self.detectable_ns and self.a_median_ns else None

    @property
    def beyond_noise(self) -> bool | None:
        """Whether the medians differ by more than their noise; null where it is unknown."""
        if self.median_noise_ns is None or self.median_delta_ns is None:
            return None
        return abs(self.median_delta_ns) > self.median_noise_ns


def step_difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> StepDifference:
    """Compares the step times of two runs, ns."""
    if not (a.size and b.size):
        means = [float(times.mean()) if times.size else None for times in (a, b)]
        return StepDifference(means[0], means[1], None, None, None)
    before, after = float(a.mean()), float(b.mean())
    a_median, b_median = float(np.median(a)), float(np.median(b))
    noise = median_noise = detectable = None
    if min(a.size, b.size) > 1:
        error, freedom = _error(a, b, lambda steps: 1.0)
        noise = student.quantile((1 + CONFIDENCE) / 2, freedom) * error
        error, freedom = _error(a, b, median_factor)
        limit = student.quantile((1 + CONFIDENCE) / 2, freedom)
        median_noise = limit * error
        detectable = (limit + student.quantile(POWER, freedom)) * error
    return StepDifference(
        before, after, after - before, 100 * (after - before) / before if before else None, noise,
        a_median, b_median, b_median - a_median, 100 * (b_median - a_median) / a_median if a_median else None,
        median_noise, detectable,
    )  # fmt: skip


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
