"""Aligns two sequences that are nearly the same: which element of one is which of the other, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

NONE = -1
MOST_EDITS = 128
"""Sequences that differ by more elements are aligned at both ends only."""
MOST_COMPARED = 1 << 23
"""How many pairs of elements are compared at most: of long sequences fewer edits are tried."""


def aligned(ours: Ints, theirs: Ints) -> Ints:
    """The place among `theirs` of each of `ours`, ascending; `NONE` for those that have none there.

    It is the longest common subsequence if few elements differ, however long the sequences are and however often they
    repeat themselves. Time and memory grow with their length and the number of differences, never with their product.
    """
    place = np.full(ours.size, NONE, np.int64)
    shared = min(ours.size, theirs.size)
    head = _common(ours[:shared], theirs[:shared])
    tail = _common(ours[head:][::-1][: shared - head], theirs[head:][::-1][: shared - head])
    place[:head] = np.arange(head)
    end, their_end = ours.size - tail, theirs.size - tail
    place[end:] = np.arange(their_end, theirs.size)
    inner = _few_edits(ours[head:end], theirs[head:their_end])
    place[head:end] = np.where(inner == NONE, NONE, inner + head)
    return place


def _common(ours: Ints, theirs: Ints) -> int:
    """How many elements at the beginning of two sequences of one length are the same."""
    differ = np.flatnonzero(ours != theirs)
    return int(differ[0]) if differ.size else int(ours.size)


def _few_edits(ours: Ints, theirs: Ints) -> Ints:
    """Myers' shortest edit script, given up where it needs too many edits."""
    place = np.full(ours.size, NONE, np.int64)
    if not ours.size or not theirs.size:
        return place
    edits = min(MOST_EDITS, MOST_COMPARED // (2 * min(ours.size, theirs.size) + 1))
    reached = _reached(ours, theirs, edits)
    x, y = ours.size, theirs.size
    for edit in range(len(reached) - 1, -1, -1):
        before = reached[edit]
        begin_x = max(_step(before, x - y, edit), 0) if edit else 0
        # from there a run of equal elements leads to (x, y)
        begin_y = begin_x - (x - y)
        place[begin_x:x] = np.arange(begin_y, y)
        if not edit:
            break
        down = _goes_down(before, x - y, edit)
        x, y = (begin_x, begin_y - 1) if down else (begin_x - 1, begin_y)
    return place


def _reached(ours: Ints, theirs: Ints, most: int) -> list[dict[int, int]]:
    """For each number of edits, how far into `ours` each diagonal was reached with one edit fewer.

    Diagonal k pairs ``ours[x]`` with ``theirs[x - k]``. Empty if `most` edits don't lead to the end.
    """
    runs = _Runs(ours, theirs)
    end = ours.size - theirs.size
    reached: list[dict[int, int]] = []
    far: dict[int, int] = {}
    for edit in range(most + 1):
        reached.append(far)
        now: dict[int, int] = {}
        for k in range(-edit, edit + 1, 2):
            x = _step(far, k, edit) if edit else 0
            if x < 0 or x > ours.size or not 0 <= x - k <= theirs.size:
                continue
            now[k] = runs.end(k, x)
        if now.get(end) == ours.size:
            return reached
        far = {**far, **now}
    return []


def _goes_down(far: dict[int, int], k: int, edit: int) -> bool:
    """Whether diagonal k is entered by leaving out one of `theirs` rather than one of `ours`."""
    left, right = far.get(k - 1, NONE - 1), far.get(k + 1, NONE - 1)
    return k == -edit or (k != edit and left < right)


def _step(far: dict[int, int], k: int, edit: int) -> int:
    """Where diagonal k is entered with one more edit; negative if it can't be."""
    if _goes_down(far, k, edit):
        return far.get(k + 1, NONE)
    left = far.get(k - 1, NONE)
    return left + 1 if left >= 0 else NONE


class _Runs:
    """How far the elements stay the same along a diagonal; each diagonal is compared once."""

    def __init__(self, ours: Ints, theirs: Ints) -> None:
        self._ours, self._theirs = ours, theirs
        self._differ: dict[int, Ints] = {}

    def end(self, k: int, x: int) -> int:
        """The first place from x on where the diagonal differs or ends."""
        last = min(self._ours.size, self._theirs.size + k)
        if k not in self._differ:
            first = max(k, 0)
            self._differ[k] = first + np.flatnonzero(self._ours[first:last] != self._theirs[first - k : last - k])
        differ = self._differ[k]
        at = int(differ.searchsorted(x))
        return int(differ[at]) if at < differ.size else last
