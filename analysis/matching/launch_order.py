"""Finds the launches of one recording among those of another, by their order.

There are two questions. What was launched in both from beginning to end, as by two recordings of one step, is the same
sequence with few edits. What a tool recorded in part, as Nsight Compute does, is one place in the other's sequence, and
tells nothing where it may be several.
"""

from __future__ import annotations

import numpy as np

from tracetui.parsers.arrays import Ints

NONE = -1
MOST_EDITS = 128
"""Sequences that differ by more elements are aligned at both ends only."""
MOST_COMPARED = 1 << 23
"""How many pairs of elements are compared at most: of long sequences fewer edits are tried."""
MOST_OCCURRENCES = 64
"""How many places of a repeated sequence are tried; a sequence with more places tells nothing."""


def in_order(ours: Ints, theirs: Ints, shapes: tuple[Ints, Ints] | None = None, *, edits: int = 0) -> Ints:
    """The place among `ours` of each of `theirs`; `NONE` where the order can't tell it.

    Kinds that only one of both has are left out first. Without edits, what is left must be the same sequence, or one
    must occur in the other exactly once; where it occurs more often, the shapes must leave only one place. With edits
    it is the longest common subsequence if at most so many elements differ, however long the sequences are and however
    often they repeat themselves; else what is equal at both ends. Time and memory grow with the length of the sequences
    and the number of edits, never with their product.

    Args:
        ours: a number for the kind of each launch.
        theirs: the same; `NONE` for a kind that ours lack.
        shapes: of ours and of theirs, a number for the grid and block of each launch.
        edits: how many elements may differ at most.
    """
    place = np.full(theirs.size, NONE, np.int64)
    left = np.flatnonzero(np.isin(ours, theirs[theirs != NONE]))
    right = np.flatnonzero((theirs != NONE) & np.isin(theirs, ours))
    if not left.size:
        return place
    if edits:
        partner = _nearly(theirs[right], ours[left], edits)
    else:
        our_shapes, their_shapes = (ours * 0, theirs * 0) if shapes is None else shapes
        partner = _in_one_place(ours[left], theirs[right], our_shapes[left], their_shapes[right])
    has_partner = partner != NONE
    place[right[has_partner]] = left[partner[has_partner]]
    return place


def _in_one_place(ours: Ints, theirs: Ints, our_shapes: Ints, their_shapes: Ints) -> Ints:
    """Of two sequences, the shorter one where it occurs in the longer one, if exactly one place fits."""
    partner = np.full(theirs.size, NONE, np.int64)
    if ours.size >= theirs.size:
        start = _only_place(theirs, ours, their_shapes, our_shapes)
        if start is not None:
            partner[:] = np.arange(start, start + theirs.size)
    else:
        start = _only_place(ours, theirs, our_shapes, their_shapes)
        if start is not None:
            partner[start : start + ours.size] = np.arange(ours.size)
    return partner


def _nearly(ours: Ints, theirs: Ints, edits: int) -> Ints:
    """The place among `theirs` of each of `ours`, ascending, for sequences that are nearly the same."""
    place = np.full(ours.size, NONE, np.int64)
    shared = min(ours.size, theirs.size)
    head = _common(ours[:shared], theirs[:shared])
    tail = _common(ours[head:][::-1][: shared - head], theirs[head:][::-1][: shared - head])
    place[:head] = np.arange(head)
    end, their_end = ours.size - tail, theirs.size - tail
    place[end:] = np.arange(their_end, theirs.size)
    inner = _few_edits(ours[head:end], theirs[head:their_end], edits)
    place[head:end] = np.where(inner == NONE, NONE, inner + head)
    return place


def _only_place(part: Ints, sequence: Ints, part_shapes: Ints, whole_shapes: Ints) -> int | None:
    """Where one sequence occurs in the other, if exactly one place fits best."""
    places = _occurrences(part, sequence)
    if len(places) > 1:
        places = [at for at in places if (whole_shapes[at : at + part.size] == part_shapes).all()]
    return places[0] if len(places) == 1 else None


def _occurrences(part: Ints, sequence: Ints) -> list[int]:
    needle, hay = (part + 1).astype(np.int32).tobytes(), (sequence + 1).astype(np.int32).tobytes()
    places: list[int] = []
    at = hay.find(needle)
    while at >= 0 and len(places) <= MOST_OCCURRENCES:
        if at % 4 == 0:
            places.append(at // 4)
        at = hay.find(needle, at + 1)
    return places if len(places) <= MOST_OCCURRENCES else []


def _common(ours: Ints, theirs: Ints) -> int:
    """How many elements at the beginning of two sequences of one length are the same."""
    differ = np.flatnonzero(ours != theirs)
    return int(differ[0]) if differ.size else int(ours.size)


def _few_edits(ours: Ints, theirs: Ints, edits: int) -> Ints:
    """Myers' shortest edit script, given up where it needs too many edits."""
    place = np.full(ours.size, NONE, np.int64)
    if not ours.size or not theirs.size:
        return place
    edits = min(edits, MOST_COMPARED // (2 * min(ours.size, theirs.size) + 1))
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
