"""How the durations of kernels' launches are distributed: a histogram, median, 95th percentile and maximum."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base.json_values import Json, us
from tracetui.parsers.arrays import Ints

LOG_FROM = 8.0
"""From this ratio of the longest launch to the shortest on, bins grow: one of equal bins would hold most launches."""
TICKS = (1000, 32)
"""Clock ticks that recordings have, ns: microseconds, and the GPU's own clock of 31.25 MHz."""
ROUNDED = 2
"""How far a duration may be from a multiple of the tick, ns."""


class Distribution(Struct, frozen=True):
    """Durations of launches in bins, ns."""

    log: bool
    """Whether the bins grow by a factor rather than by an amount."""
    edges: tuple[int, ...]
    """Edges of the bins, ascending, one more than there are bins; the last one is above the longest launch."""
    counts: tuple[int, ...]
    """How many launches each bin has, from its edge (included) to the next (excluded)."""
    median_ns: float
    p95_ns: int
    """The shortest recorded duration that at least 95 % of the launches don't exceed."""
    max_ns: int


def distribution(durations: pl.Series, bins: int) -> Distribution | None:
    """Sorts launches into at most this many bins; None where there are no two different durations.

    A profiler's clock ticks: no bin is narrower than a tick, or its neighbours would look empty.

    Args:
        durations: ns, those of launches; null where one is unknown.
        bins: at least 1.
    """
    return _in_bins(np.sort(durations.drop_nulls().to_numpy().astype(np.int64)), bins)


def _in_bins(values: Ints, bins: int) -> Distribution | None:
    if values.size < 2 or values[0] == values[-1]:
        return None
    low, high = int(values[0]), int(values[-1])
    log = low > 0 and high >= LOG_FROM * low
    tick = _tick(values)
    edges = _growing(low, high, tick, bins) if log else _equal(low, high, tick, bins)
    counts = np.diff(np.searchsorted(values, edges, side="left"))
    return Distribution(
        log, tuple(edges.tolist()), tuple(counts.tolist()), median_of(values), p95_of(values), high
    )  # fmt: skip


def median_of(values: Ints) -> float:
    """The median of ascending durations: the middle one, or the mean of the two in the middle."""
    return float(values[(values.size - 1) // 2] + values[values.size // 2]) / 2


def p95_of(values: Ints) -> int:
    """The first of ascending durations that at least 95 % of them don't exceed."""
    return int(values[-(-values.size * 95 // 100) - 1])


def _tick(values: Ints) -> int:
    """The clock's tick, of which all differences are (nearly) multiples: both ends of a launch were rounded."""
    apart = values - values[0]
    for tick in TICKS:
        if bool(np.all(np.minimum(apart % tick, -apart % tick) <= ROUNDED)):
            return tick
    return int(np.gcd.reduce(apart))


def _equal(low: int, high: int, tick: int, bins: int) -> Ints:
    low -= tick // 2
    width = tick * -(-(high - low + 1) // (tick * bins))
    return low + width * np.arange(-(-(high - low + 1) // width) + 1, dtype=np.int64)


def _growing(low: int, high: int, tick: int, bins: int) -> Ints:
    steps = np.geomspace(low, high + tick, bins + 1) - low
    edges: Ints = np.unique(low - min(tick // 2, low - 1) + tick * np.rint(steps / tick).astype(np.int64))
    return edges


BINS = 40
"""The most bins of a distribution."""


def distributions(launches: pl.DataFrame, names: Collection[str]) -> dict[str, Json]:
    """``p95_us`` and ``distribution`` of kernels, by name; the latter is null where all launches take the same time."""
    rows = launches.select("name", "duration").drop_nulls()
    rows = rows.filter(pl.col("name").is_in(list(names))).sort(pl.col("name").to_physical(), "duration")
    codes = rows["name"].to_physical().to_numpy()
    begins = np.flatnonzero(np.diff(codes, prepend=codes[:1] + 1)).tolist()
    durations = rows["duration"].to_numpy()
    spreads: dict[str, Json] = {}
    for name, begin, end in zip(rows["name"].gather(begins), begins, [*begins, rows.height][1:], strict=True):
        values = durations[begin:end]
        spread = _in_bins(values, min(BINS, max(round(3 * values.size**0.5), 12)))
        spreads[name] = {
            "p95_us": us(p95_of(values)),
            "distribution": spread
            and {
                "log": spread.log,
                "edges_us": [us(edge) for edge in spread.edges],
                "counts": list(spread.counts),
            },
        }
    return spreads
