"""The statistics of a diff: how often chance alone goes beyond the noise, and how often a true change does."""

from __future__ import annotations

import numpy as np
import pytest

from tracetui.analysis.base import student
from tracetui.analysis.compare.step_difference import median_factor, noise_factor, step_difference

STEP_NS = 50e6
VARIATION = 0.06
RECORDINGS = 2000


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [(0.975, 1, 12.706), (0.975, 2, 4.3027), (0.975, 10, 2.2281), (0.8, 4, 0.9410), (0.975, 1e6, 1.95996)],
)
def test_quantiles_are_those_of_the_tables(probability: float, freedom: float, value: float) -> None:
    assert student.quantile(probability, freedom) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(("probability", "freedom"), [(0.5, 3), (1.0, 3), (0.975, 0.5)])
def test_there_is_no_quantile_beyond_the_table(probability: float, freedom: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student.quantile(probability, freedom)


@pytest.mark.parametrize("steps", [2, 3, 4, 7, 12, 40])
def test_medians_vary_more_than_means(steps: int) -> None:
    values = np.random.default_rng(5).normal(size=(30_000, steps))
    assert float(np.median(values, axis=1).std() * steps**0.5) == pytest.approx(median_factor(steps), rel=0.02)


def beyond(a_steps: int, b_steps: int, change: float = 0.0, ratio: float = 1.0) -> float:
    """In how many of simulated pairs of recordings the medians are farther apart than the noise, %."""
    drawn = np.random.default_rng(11)
    spread = VARIATION * STEP_NS
    found = [
        step_difference(
            drawn.normal(STEP_NS, spread, a_steps), drawn.normal(STEP_NS * (1 + change), ratio * spread, b_steps)
        )
        for _ in range(RECORDINGS)
    ]
    return 100 * sum(bool(each.beyond_noise) for each in found) / RECORDINGS


@pytest.mark.parametrize("steps", [2, 3, 6, 20])
def test_one_in_twenty_pairs_without_a_change_seems_to_have_one(steps: int) -> None:
    assert beyond(steps, steps) == pytest.approx(5, abs=1.9)


@pytest.mark.parametrize(("a_steps", "b_steps", "ratio"), [(3, 20, 3.0), (20, 3, 3.0), (3, 6, 1.0), (6, 6, 3.0)])
def test_it_stays_so_where_the_runs_are_unlike(a_steps: int, b_steps: int, ratio: float) -> None:
    assert beyond(a_steps, b_steps, ratio=ratio) < 9


@pytest.mark.parametrize("steps", [3, 6, 20])
def test_four_of_five_recordings_show_the_change_that_is_said_to_be_seen(steps: int) -> None:
    drawn = np.random.default_rng(3)
    said = [step_difference(*drawn.normal(STEP_NS, VARIATION * STEP_NS, (2, steps))).detectable_ns for _ in range(400)]
    change = float(np.mean([ns for ns in said if ns is not None])) / STEP_NS
    assert beyond(steps, steps, change) == pytest.approx(80, abs=8)


def test_one_step_tells_nothing_of_noise() -> None:
    found = step_difference(np.array([3.0]), np.array([4.0, 5.0]))
    assert (found.noise_ns, found.median_noise_ns, found.detectable_ns, found.beyond_noise) == (None,) * 4
    assert found.median_delta_ns == 1.5
    assert step_difference(np.array([]), np.array([4.0])).delta_ns is None
    assert noise_factor(1, 1) == 2.0
    steady = step_difference(np.array([4.0, 4.0]), np.array([5.0, 5.0]))
    assert (steady.median_noise_ns, steady.beyond_noise) == (0.0, True)
