"""Finds the launches of one recording among those of another, by their order alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

NONE = -1
MOST_OCCURRENCES = 64
"""How many places of a repeated sequence are tried; a sequence with more places tells nothing."""


def alignment(ours: Ints, theirs: Ints, our_shapes: Ints, their_shapes: Ints) -> Ints:
    """The place among `ours` of each of `theirs`; `NONE` where the order can't tell it.

    The launches of kinds that both have must be the same sequence, or one sequence must occur exactly once in the
    other; where it occurs more often, grid and block must leave only one place.

    Args:
        ours: a number for the kind of each launch.
        theirs: the same; `NONE` for a kind that ours lack.
        our_shapes: a number for the grid and block of each launch.
        their_shapes: the same.
    """
    place = np.full(theirs.size, NONE, np.int64)
    left = np.flatnonzero(np.isin(ours, theirs[theirs != NONE]))
    right = np.flatnonzero(theirs != NONE)
    if not left.size:
        return place
    if left.size >= right.size:
        start = _only_place(theirs[right], ours[left], their_shapes[right], our_shapes[left])
        if start is not None:
            place[right] = left[start : start + right.size]
    else:
        start = _only_place(ours[left], theirs[right], our_shapes[left], their_shapes[right])
        if start is not None:
            place[right[start : start + left.size]] = left
    return place


def _only_place(part: Ints, whole: Ints, part_shapes: Ints, whole_shapes: Ints) -> int | None:
    """Where one sequence occurs in the other, if exactly one place fits best."""
    places = _occurrences(part, whole)
    if len(places) > 1:
        places = [at for at in places if (whole_shapes[at : at + part.size] == part_shapes).all()]
    return places[0] if len(places) == 1 else None


def _occurrences(part: Ints, whole: Ints) -> list[int]:
    needle, hay = (part + 1).astype(np.int32).tobytes(), (whole + 1).astype(np.int32).tobytes()
    places: list[int] = []
    at = hay.find(needle)
    while at >= 0 and len(places) <= MOST_OCCURRENCES:
        if at % 4 == 0:
            places.append(at // 4)
        at = hay.find(needle, at + 1)
    return places if len(places) <= MOST_OCCURRENCES else []


def paired(ours: Ints, theirs: Ints, taken: Ints) -> Ints:
    """The place among `ours` of each of `theirs` where both have equally many of its kind; `NONE` elsewhere.

    Args:
        ours: the kind of each launch.
        theirs: the same; `NONE` for those whose kind is not known.
        taken: places that are known already; kinds with any of them are left alone.
    """
    place = np.full(theirs.size, NONE, np.int64)
    if not ours.size or not theirs.size:
        return place
    kinds = max(int(ours.max(initial=NONE)), int(theirs.max(initial=NONE))) + 1
    counts = np.bincount(ours, minlength=kinds), np.bincount(theirs[theirs != NONE], minlength=kinds)
    equal = counts[0] == counts[1]
    equal[theirs[taken != NONE]] = False
    left = np.flatnonzero(equal[ours])
    right = np.flatnonzero((theirs != NONE) & equal[theirs])
    # a stable sort pairs the n-th launch of a kind with the n-th
    place[right[np.argsort(theirs[right], kind="stable")]] = left[np.argsort(ours[left], kind="stable")]
    return place
