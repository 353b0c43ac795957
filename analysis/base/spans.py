"""Whole numbers in short form."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def spans(numbers: Iterable[int]) -> str:
    """Numbers in short form: ``2-127``, ``0, 3-5``; two neighbours are no span."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join((", " if run[-1] - run[0] == 1 else "-").join(map(str, run)) for run in runs)
