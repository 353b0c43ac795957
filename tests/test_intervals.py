"""Sets of time, also beside sets of single ticks: intervals that overlap, touch, are empty or run backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.analysis.base import intervals
from tracetui.analysis.base.intervals import covered, intersect, length, subtract, union

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals


ORIGINS = (0, -(2**62), 2**62, 1_764_000_000_000_000_000)
"""Where time begins: small, far out, and as clocks that count since 1970 have it."""
TIMES = st.integers(0, 24)
SPANS = st.lists(st.tuples(TIMES, TIMES), max_size=12)
"""Starts and ends anyhow: an end before its start holds no time."""


@st.composite
def on_threads(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Spans as host events stand: ordered by start, one thread after the other."""
    return [span for _ in range(draw(st.integers(1, 4))) for span in sorted(draw(SPANS))]


ANY_SPANS = st.one_of(SPANS, SPANS.map(sorted), on_threads())


def arrays(spans: list[tuple[int, int]], origin: int = 0) -> Intervals:
    pairs = np.array(spans, np.int64).reshape(len(spans), 2) + origin
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def ticks_of(spans: list[tuple[int, int]]) -> set[int]:
    """The unit stretches of time in any of the spans: tick n lasts from n to n + 1."""
    return {tick for start, end in spans for tick in range(start, end)}


def stretches(of: set[int]) -> list[tuple[int, int]]:
    """The longest unbroken stretches of a set of ticks_of, in order."""
    starts = sorted(tick for tick in of if tick - 1 not in of)
    ends = sorted(tick + 1 for tick in of if tick + 1 not in of)
    return list(zip(starts, ends, strict=True))


def listed(found: Intervals, origin: int = 0) -> list[tuple[int, int]]:
    assert found[0].dtype == found[1].dtype == np.int64
    return [(int(a) - origin, int(b) - origin) for a, b in zip(*found, strict=True)]


@given(ANY_SPANS, st.sampled_from(ORIGINS))
def test_a_union_is_every_tick_of_any(spans: list[tuple[int, int]], origin: int) -> None:
    given_start, given_end = arrays(spans, origin)
    start, end = given_start.copy(), given_end.copy()
    found = union(start, end)
    assert listed(found, origin) == stretches(ticks_of(spans))
    assert not any(np.shares_memory(own, theirs) for own in found for theirs in (start, end))
    assert start.tolist() == given_start.tolist()
    assert end.tolist() == given_end.tolist()


@given(ANY_SPANS, ANY_SPANS, st.sampled_from(ORIGINS))
def test_intersections_and_differences_are_those_of_ticks(a, b, origin) -> None:
    ours, theirs = union(*arrays(a, origin)), union(*arrays(b, origin))
    assert listed(intersect(ours, theirs), origin) == stretches(ticks_of(a) & ticks_of(b))
    assert listed(subtract(ours, theirs), origin) == stretches(ticks_of(a) - ticks_of(b))


@given(ANY_SPANS, st.sampled_from(ORIGINS))
def test_a_length_is_the_number_of_ticks(spans: list[tuple[int, int]], origin: int) -> None:
    assert length(union(*arrays(spans, origin))) == len(ticks_of(spans))


@given(ANY_SPANS, SPANS, st.sampled_from(ORIGINS))
def test_what_is_covered_of_a_stretch_is_its_ticks_in_the_set(spans, asked, origin) -> None:
    """A stretch that ends before it begins holds nothing."""
    found = covered(union(*arrays(spans, origin)), *arrays(asked, origin))
    assert found.tolist() == [len(ticks_of(spans) & ticks_of([stretch])) for stretch in asked]


def test_no_time_is_empty() -> None:
    assert listed(intervals.empty()) == []


@given(st.integers(250, 260), st.integers(0, 3))
def test_many_threads_are_merged_like_few(threads: int, overlap: int) -> None:
    """On both sides of the number of threads from which all are sorted at once."""
    thread = [(0, 2), (3, 3 + overlap), (9, 11)]
    assert listed(union(*arrays(thread * threads))) == stretches(ticks_of(thread))
