"""Which findings are about the same GPU work or the same time of the host, so that their gains do not add up."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base import intervals

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.findings.core.finding import Finding

LEAST_PERCENT = 10.0
"""Findings that share less of their GPU time than this are not named."""
MOST = 3
ALIKE = 0.1
"""Bounds that differ by less than this part of one are taken for alike: none is as exact."""
BITS = 64
"""More findings than this are not compared; no recording has had so many."""


def specific_first(found: list[Finding], leads: Collection[str] = ()) -> list[Finding]:
    """The findings with the more specific of two neighbours first, where they differ little.

    That is the one about fewer launches, if half of them or more are the other's too, their severities are the same and
    their bounds within `ALIKE`: "attention is not fused" says what to do, "elementwise work takes much" does not. What
    says the same as the verdict, by the ids of `leads`, keeps its place.
    """
    ordered = found.copy()
    for place, (first, second) in enumerate(pairwise(found)):
        if ordered[place] is first and first.id not in leads and _is_more_specific(second, first):
            ordered[place : place + 2] = [second, first]
    return ordered


def _is_more_specific(one: Finding, other: Finding) -> bool:
    if one.work is None or other.work is None or one.severity != other.severity or not one.impact_ns:
        return False
    alike = abs((other.impact_ns or 0.0) - one.impact_ns) <= ALIKE * one.impact_ns
    return alike and one.work.size < other.work.size and 2 * np.isin(one.work, other.work).sum() >= one.work.size


def told(found: Sequence[Finding], duration: Ints) -> tuple[Finding, ...]:
    """The findings, each with a remark that names the others in which its GPU time, or the host's, is counted too.

    Only findings with GPU work and time at stake are compared: a share is of the finding's own GPU time, the sum of the
    durations of its `Finding.work`.

    Args:
        found: the findings of one recording.
        duration: how long each row of its device frame lasts, ns.
    """
    about = [place for place, one in enumerate(found) if one.work is not None and one.impact_ns][:BITS]
    # one bit per finding: rows with the same bits are in the same findings
    bits = np.zeros(duration.size, np.uint64)
    for number, place in enumerate(about):
        bits[found[place].work] |= np.uint64(1 << number)
    kinds, kind = np.unique(bits, return_inverse=True)
    spent = np.bincount(kind, weights=duration, minlength=kinds.size)
    within = [(kinds >> np.uint64(number)) & np.uint64(1) == 1 for number in range(len(about))]
    seen = _told_on_host(found)
    for rows, place in zip(within, about, strict=True):
        whole = float(spent[rows].sum())
        shared = [
            (100 * float(spent[rows & theirs].sum()) / whole, other)
            for theirs, other in zip(within, about, strict=True)
            if other != place and whole
        ]
        named = sorted(((share, other) for share, other in shared if share >= LEAST_PERCENT), key=_largest)[:MOST]
        if named:
            said = _remark(found, named, "GPU time")
            seen[place] = replace(seen[place], remarks=(*seen[place].remarks, said))
    return tuple(seen)


def _told_on_host(found: Sequence[Finding]) -> list[Finding]:
    """The findings with a remark that names the others which would spare the same time of the host.

    Two that are both about GPU work say so of that.
    """
    seen = list(found)
    about = [place for place, one in enumerate(found) if one.host is not None and one.impact_ns][:BITS]
    for place in about:
        mine = found[place].host
        assert mine is not None
        whole = intervals.length(mine)
        shared = []
        for other in about:
            theirs = found[other].host
            both_on_gpu = found[place].work is not None and found[other].work is not None
            if other != place and whole and theirs is not None and not both_on_gpu:
                shared.append((100 * intervals.length(intervals.intersect(mine, theirs)) / whole, other))
        named = sorted(((share, other) for share, other in shared if share >= LEAST_PERCENT), key=_largest)[:MOST]
        if named:
            said = _remark(found, named, "time of the host")
            seen[place] = replace(seen[place], remarks=(*seen[place].remarks, said))
    return seen


def _largest(shared: tuple[float, int]) -> tuple[float, int]:
    return -shared[0], shared[1]


def _remark(found: Sequence[Finding], named: list[tuple[float, int]], time: str) -> str:
    share, other = named[0]
    first = f"{_percent(share)} of this {time} is in {found[other].id} too"
    others = [f"{_percent(share)} in {found[other].id}" for share, other in named[1:]]
    return f"{', '.join([first, *others])}: these gains do not add up"


def _percent(share: float) -> str:
    return "all" if share > 99.5 else f"{share:.0f} %"
