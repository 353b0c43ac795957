"""Sequences that are nearly the same are aligned as the longest common subsequence would, in linear time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.analysis.matching.launch_order import MOST_EDITS, NONE, in_order


def longest(a: list[int], b: list[int]) -> int:
    """The length of the longest common subsequence, by the table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, ours in enumerate(a):
        for j, theirs in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if ours == theirs else max(table[i][j + 1], table[i + 1][j])
    return table[len(a)][len(b)]


def place(a: list[int], b: list[int]) -> list[int]:
    found: list[int] = in_order(np.array(b, np.int64), np.array(a, np.int64), edits=MOST_EDITS).tolist()
    return found


kinds = st.lists(st.integers(0, 3), max_size=25)


@given(kinds, kinds)
def test_it_is_a_longest_common_subsequence(a: list[int], b: list[int]) -> None:
    found = place(a, b)
    assert len(found) == len(a)
    pairs = [(ours, theirs) for ours, theirs in enumerate(found) if theirs != NONE]
    assert all(a[ours] == b[theirs] for ours, theirs in pairs)
    assert all(before[1] < after[1] for before, after in pairwise(pairs))
    assert len(pairs) == longest(a, b)


def test_layers_that_repeat_are_told_apart_by_their_place() -> None:
    layer = [1, 2, 2, 3]
    whole = layer * 5_000
    shorter = [*whole[:7_001], *whole[7_002:12_000], 9, *whole[12_000:]]
    found = np.array(place(shorter, whole))
    assert (found == NONE).sum() == 1
    assert found[-1] == len(whole) - 1
    assert found[7_010] == 7_011


def test_what_has_little_in_common_is_given_up_soon() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 5, 200_000), rng.integers(0, 5, 200_000)
    a[:1_000] = b[:1_000]
    found = in_order(b, a, edits=MOST_EDITS)
    # compared in full, there would be 4e10 pairs
    assert (found[:1_000] == np.arange(1_000)).all()
    assert (found[1_000:] != NONE).sum() < 1_000


def test_few_edits_are_found_far_apart() -> None:
    whole = np.arange(100_000) % 97
    cut = np.delete(whole, np.arange(500, 100_000, 100_000 // (MOST_EDITS // 8)))
    found = in_order(whole, cut, edits=MOST_EDITS)
    assert (found != NONE).all()
