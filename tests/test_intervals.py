from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tracetui.analysis.base import intervals
from tracetui.analysis.base.intervals import covered, intersect, length, subtract, union

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals


def pair(*spans: tuple[int, int]) -> Intervals:
    return np.array([a for a, _ in spans], np.int64), np.array([b for _, b in spans], np.int64)


def spans(found: Intervals) -> list[tuple[int, int]]:
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def ticks(a: Intervals, limit: int = 60) -> set[int]:
    """The unit stretches of time that lie in any of the intervals."""
    return {t for t in range(limit) for start, end in spans(a) if start <= t < end}


def test_union_joins_what_overlaps_or_touches() -> None:
    assert spans(union(*pair((5, 9), (0, 3), (3, 4), (8, 12), (20, 20)))) == [(0, 4), (5, 12)]


def test_union_keeps_a_long_interval_over_many_short_ones() -> None:
    assert spans(union(*pair((0, 100), (1, 2), (3, 4), (99, 101)))) == [(0, 101)]


@pytest.mark.parametrize("a", [[], [(1, 5)]])
@pytest.mark.parametrize("b", [[], [(2, 3)]])
def test_empty_sets(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    assert ticks(intersect(pair(*a), pair(*b))) == ticks(pair(*a)) & ticks(pair(*b))
    assert ticks(subtract(pair(*a), pair(*b))) == ticks(pair(*a)) - ticks(pair(*b))
    assert length(intervals.empty()) == 0


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_counting_single_ticks(seed: int) -> None:
    random = np.random.default_rng(seed)

    def some() -> Intervals:
        start = random.integers(0, 50, random.integers(0, 9))
        return start, start + random.integers(0, 9, start.size)

    raw_a, raw_b = some(), some()
    a, b = union(*raw_a), union(*raw_b)
    assert ticks(a) == ticks(raw_a)
    assert length(a) == len(ticks(raw_a))
    for found, expected in ((intersect(a, b), ticks(a) & ticks(b)), (subtract(a, b), ticks(a) - ticks(b))):
        assert ticks(found) == expected
        assert length(found) == len(expected)
        assert np.all(found[0][1:] >= found[1][:-1])
    start = random.integers(0, 50, 6)
    end = start + random.integers(0, 20, 6)
    inside = covered(a, start, end)
    assert inside.tolist() == [len(ticks(a, 80) & set(range(s, e))) for s, e in zip(start, end, strict=True)]


def test_union_of_many_threads_sorts_only_what_is_left() -> None:
    random = np.random.default_rng(1)
    threads = [np.sort(random.integers(0, 10**6, 500)) for _ in range(300)]
    start = np.concatenate(threads)
    end = start + random.integers(0, 50, start.size)
    order = np.argsort(start)
    few = np.concatenate(threads[:20])
    assert spans(union(start, end)) == spans(union(start[order], end[order]))
    assert spans(union(few, few + 7)) == spans(union(np.sort(few), np.sort(few) + 7))
