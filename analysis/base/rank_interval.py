"""By how much one set of values is shifted against another: an interval from the ranks of their differences.

It rests on no shape of their distribution: one slow step in ten, or two kinds of steps, do not mislead it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST = 4
"""The fewest values of each set: of three and three, chance alone gives the utmost order in one of ten."""
EXACT = 20
"""Up to so many values of each set, the ranks are counted; above, their number is close to normally distributed."""
MOST = 1000
"""Of larger sets, so many evenly spaced quantiles stand for all."""


def shift_interval(a: NDArray[np.float64], b: NDArray[np.float64], confidence: float) -> tuple[float, float] | None:
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


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.size <= MOST:
        return values
    found: NDArray[np.float64] = np.quantile(values, (np.arange(MOST) + 0.5) / MOST)
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
