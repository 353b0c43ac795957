"""Which findings are about the same GPU work, so that their gains do not add up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.findings.core.finding import Finding

LEAST_PERCENT = 10.0
"""Findings that share less of their GPU time than this are not named."""
MOST = 3


def told(found: Sequence[Finding], duration: Ints) -> tuple[Finding, ...]:
    """The findings, each with a remark that names the others in which its GPU time is counted too.

    Only findings with GPU work and time at stake are compared: a share is of the finding's own GPU time, the sum of the
    durations of its `Finding.work`.

    Args:
        found: the findings of one recording.
        duration: how long each row of its device frame lasts, ns.
    """
    about: dict[int, NDArray[np.bool_]] = {}
    for place, one in enumerate(found):
        if one.work is not None and one.impact_ns:
            about[place] = np.zeros(duration.size, np.bool_)
            about[place][one.work] = True
    seen = list(found)
    for place, rows in about.items():
        mine = np.where(rows, duration, 0)
        whole = float(mine.sum())
        shared = [
            (100 * float(mine[theirs].sum()) / whole, other)
            for other, theirs in about.items()
            if other != place and whole
        ]
        named = sorted(((share, other) for share, other in shared if share >= LEAST_PERCENT), key=_largest)[:MOST]
        if named:
            seen[place] = replace(seen[place], remarks=(*seen[place].remarks, _remark(found, named)))
    return tuple(seen)


def _largest(shared: tuple[float, int]) -> tuple[float, int]:
    return -shared[0], shared[1]


def _remark(found: Sequence[Finding], named: list[tuple[float, int]]) -> str:
    share, other = named[0]
    first = f"{_percent(share)} of this GPU time is in {found[other].id} too"
    others = [f"{_percent(share)} in {found[other].id}" for share, other in named[1:]]
    return f"{', '.join([first, *others])}: these gains do not add up"


def _percent(share: float) -> str:
    return "all" if share > 99.5 else f"{share:.0f} %"
