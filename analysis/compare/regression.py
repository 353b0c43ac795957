"""Whether a step became slower by more than a limit: what two runs prove by their work, and repeats by their times.

Two processes of one program may differ by far more than the steps within them, and nothing in a single run tells by how
much. What does not vary so is the work: so of two single runs a longer step counts where the work explains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.compare.diff import Diff
    from tracetui.analysis.compare.repeats import RunsDifference

MOST_OF = 0.5
"""The share of a step's difference that a cause must cover to explain it, and of a step with work of the GPU in it that
makes the work matter."""
LEAST_NS, LEAST_KERNELS = 10_000, 5
"""How long a launch and how many kernels must be for what they have in common to show."""
GPU_WORK, LAUNCHES, OPERATORS = "gpu_work", "launches", "operators"


class Cause(Struct, frozen=True):
    """Work of which a step of B has more than one of A."""

    what: str
    """`GPU_WORK` (ns, without communication, which may wait for others, and without what all kernels take longer
    alike), `LAUNCHES` or `OPERATORS`."""
    a: float
    b: float
    percent: float
    """By how much it alone makes a step longer, of A's: the added time; of counts, that of a step in proportion."""


class Regression(Struct, frozen=True):
    """Which limits a change is told from: the lower ones it exceeds, the upper ones it does not, between lies doubt."""

    slower_percent: float | None
    """B's step is slower by more than any limit below this; None where no limit is known to be exceeded."""
    not_slower_percent: float | None
    """It is not slower by more than this, nor by more than any limit above; None where a step time is unknown."""
    causes: tuple[Cause, ...]
    """Work that makes B's step longer, the greatest effect first."""

    def exceeds(self, limit_percent: float) -> bool | None:
        """Whether B's step is slower by more than a limit; None where that can't be told."""
        if self.slower_percent is not None and limit_percent < self.slower_percent:
            return True
        return False if self.not_slower_percent is not None and limit_percent >= self.not_slower_percent else None


def regression(found: Diff, between: RunsDifference | None = None, noise: float = 1.0) -> Regression:
    """What a diff, and the repeats that it is of, tell of limits.

    Args:
        found: the difference of two runs; of repeats, of their middle ones.
        between: the difference of the repeats; None for two single runs.
        noise: how many times as wide the interval must be to hold zero.
    """
    causes = tuple(sorted(_causes(found), key=lambda cause: -cause.percent))
    if between is not None:
        return of_runs(between, causes, noise)
    step = found.step
    change = step.median_delta_percent
    slower = None
    if change is not None and change > 0 and causes and step.beyond(noise) is not False:
        most = causes[0].percent
        slower = min(change, most) if most >= MOST_OF * change else None
    return Regression(slower, change, causes)


def of_runs(between: RunsDifference, causes: tuple[Cause, ...] = (), noise: float = 1.0) -> Regression:
    """What repeats tell of limits: one is not exceeded where the interval says so, or such runs would have shown it."""
    change, widest = (between.percent(ns) for ns in (between.delta_ns, between.delta_ns + between.noise_ns))
    slower = change if change > 0 and between.beyond(noise) else None
    return Regression(slower, max(change, min(widest, between.percent(between.detectable_ns))), causes)


def _causes(found: Diff) -> Iterator[Cause]:
    """Work of which B has more."""
    step = found.step
    if not step.a_median_ns or not step.b_median_ns:
        return
    own = found.waterfall.filter(pl.col("category") != "communication")
    more = float((own["count_effect_ns"] + own["mean_effect_ns"]).sum()) - _alike_ns(found.kernels)
    a, b = (float(found.kinds[f"{side}_ns"].sum()) for side in "ab")
    if more > 0 and b >= MOST_OF * step.b_median_ns:
        yield Cause(GPU_WORK, b - more, b, 100 * more / step.a_median_ns)
    for what, table in ((LAUNCHES, found.kinds), (OPERATORS, found.operators)):
        a, b = (float(table[f"{side}_calls"].sum()) for side in "ab")
        if 0 < a < b:
            yield Cause(what, a, b, 100 * (b - a) / a)


def _alike_ns(kernels: pl.DataFrame) -> float:
    """What the kernels that both runs have take longer in B because three of four are slower by a factor or more.

    Code changes single kernels; a clock, a power mode or another program changes all, and may do so in the next run.
    """
    both = kernels.filter((pl.col("a_calls") > 0) & (pl.col("b_calls") > 0) & (pl.col("a_ns") > 0))
    both = both.with_columns(a=pl.col("a_ns") / pl.col("a_calls"), b=pl.col("b_ns") / pl.col("b_calls"))
    long = both.filter(pl.col("a") >= LEAST_NS)
    if long.height < LEAST_KERNELS:
        return 0.0
    factor = float(np.quantile((long["b"] / long["a"]).to_numpy(), 0.25))
    return max(factor - 1, 0.0) * float((both["a"] * both["b_calls"]).sum())
