"""Chains of launches that a compiler could make one kernel of, and what would stay of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.attribution.calltree import numbered_by, stable_order

if TYPE_CHECKING:
    import polars as pl

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.findings.core.gain import Bools

LONGEST_PASS = 64
"""A loop's pass has at most so many kernels to be known as one."""
LEAST_PASSES = 3
"""So often kernels follow one another in the same order where they are a loop."""


def but_the_longest(launched: pl.DataFrame, mask: Bools, moves: Bools, sums: Bools) -> Bools:
    """The chosen launches, and the sums between them, without what stays if each chain is fused: its longest.

    A chain is uninterrupted on its stream. A loop in it is a chain of its own for each pass, if its passes move data:
    what one moves, the pass before has written, or it is other data, which has to be read and written too. Sums between
    two chains, as in a norm made of separate operations, are computed where these are.

    Args:
        launched: `kernel_rows`, in the order of their starts.
        mask: the chosen ones.
        moves: the ones that move data to another place, such as rolls and transposes.
        sums: the ones that only add up.
    """
    rest: Bools = mask.copy()
    if not mask.any():
        return rest
    lane = numbered_by(launched, ("device", "stream"))
    order = stable_order(lane)
    chosen, lane = mask[order], lane[order]
    rest[order[_between(chosen, sums[order], lane)]] = True
    begins = chosen & np.append(True, ~chosen[:-1] | (lane[1:] != lane[:-1]))
    order, begins = order[chosen], begins[chosen]
    begins |= _passes(launched["name"].to_physical().to_numpy()[order], moves[order], np.cumsum(begins))
    lasting = launched["duration"].fill_null(np.iinfo(np.int64).max).to_numpy()[order]
    chain = np.cumsum(begins) - 1
    longest = np.flatnonzero(lasting == np.maximum.reduceat(lasting, np.flatnonzero(begins))[chain])
    first = np.append(True, chain[longest[1:]] != chain[longest[:-1]])
    rest[order[longest[first]]] = False
    return rest


def _between(chosen: Bools, sums: Bools, lane: Ints) -> Bools:
    """Marks the sums whose nearest other launches on their lane, before and after, are both chosen."""
    at = np.arange(chosen.size)
    before = np.maximum.accumulate(np.where(sums, -1, at))
    after = np.minimum.accumulate(np.where(sums, chosen.size, at)[::-1])[::-1]
    found: Bools = sums & (before >= 0) & (after < chosen.size)
    place = np.flatnonzero(found)
    before, after = before[place], after[place]
    alike = (lane[before] == lane[place]) & (lane[after] == lane[place])
    found[place] = alike & chosen[before] & chosen[after]
    return found


def _passes(name: Ints, moves: Bools, chain: Ints) -> Bools:
    """Where the passes of loops begin, by the launches' names."""
    begins = np.zeros(name.size, np.bool_)
    length = np.bincount(chain)
    moving = np.bincount(chain, weights=moves) > 0
    # most chains are short, or move nothing
    at = np.flatnonzero((moving & (length >= 2 * LEAST_PASSES))[chain])
    name, moves, chain = name[at], moves[at], chain[at]
    found = []
    for period in range(2, min(LONGEST_PASS, at.size // LEAST_PASSES) + 1):
        same = (name[period:] == name[:-period]) & (chain[period:] == chain[:-period])
        edges = np.flatnonzero(np.diff(np.concatenate(([0], same.view(np.int8), [0]))))
        found += [
            (start, stop + period, period)
            for start, stop in edges.reshape(-1, 2).tolist()
            if stop + period - start >= LEAST_PASSES * period and moves[start : start + period].any()
        ]
    free = np.ones(at.size, np.bool_)
    # a pass may hold a shorter loop: the one that goes on for longest decides
    for start, end, period in sorted(found, key=lambda loop: (loop[0] - loop[1], loop[2])):
        if free[start:end].all():
            begins[at[start:end:period]] = True
            free[start:end] = False
    return begins
