"""Histograms of durations that add up: the bins are the same for every kernel of every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.base.intervals import Ints

PER_DOUBLING = 4
"""How many bins a duration passes until it has doubled: each is 19 % wide."""
SHORTEST_NS = 256
"""Where the second bin begins; the first has all that is shorter."""
BINS = 1 + 28 * PER_DOUBLING
"""The last one also has what takes longer than a minute."""
_EDGES = np.rint(SHORTEST_NS * 2.0 ** (np.arange(BINS - 1) / PER_DOUBLING)).astype(np.int64)


def bins_of(durations: Ints) -> Ints:
    """The bin of each duration in ns."""
    found: Ints = np.searchsorted(_EDGES, durations, side="right")
    return found


def edges(number: int) -> tuple[int, int | None]:
    """Where a bin begins and ends, ns; the last one has no end."""
    return (
        0 if number == 0 else int(_EDGES[number - 1]),
        None if number >= BINS - 1 else int(_EDGES[number]),
    )


def merged(parts: Iterable[Iterable[int]]) -> list[int]:
    """The histogram of all durations, from those of parts of them."""
    counts: list[int] = []
    for part in parts:
        for number, count in enumerate(part):
            if number == len(counts):
                counts.append(0)
            counts[number] += count
    return counts


def quantile(counts: Iterable[int], share: float) -> int | None:
    """A duration that at least this share of them don't exceed, to the end of its bin; None where there are none.

    In the last bin, which has no end, it is its begin.
    """
    held = np.cumsum(np.array(list(counts), np.int64))
    if not held.size or not held[-1]:
        return None
    number = int(np.searchsorted(held, max(1, -(-share * held[-1] // 1)), side="left"))
    begin, end = edges(number)
    return begin if end is None else end
