"""A rank's steps as one line of text: a column for each step, higher where it took longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

EIGHTHS, ASCII = "▁▂▃▄▅▆▇█", ".:-=+*#%"
EVEN = 0.02
"""Steps that differ by less than this share of the longest are drawn alike: a picture of noise says nothing."""


def heat(values: Sequence[float | None], least: float, most: float, width: int, *, ascii: bool) -> str:
    """The values between two bounds, which are those of all lines of a picture; a space for what is not known.

    Args:
        values: in order; where there are more than `width`, neighbours are drawn as their mean.
        least: the lowest value of the picture.
        most: the highest one.
        width: the most columns.
        ascii: whether the terminal has no block characters.
    """
    signs = ASCII if ascii else EIGHTHS
    range_ = most - least
    if most <= 0 or range_ < EVEN * most:
        return "".join(" " if value is None else signs[0] for value in _few(values, width))
    top = len(signs) - 1
    return "".join(
        " " if value is None else signs[min(max(round(top * (value - least) / range_), 0), top)]
        for value in _few(values, width)
    )


def _few(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` values: means of neighbours."""
    if len(values) <= width:
        return list(values)
    found: list[float | None] = []
    for column in range(width):
        part = [
            value
            for value in values[column * len(values) // width : (column + 1) * len(values) // width]
            if value is not None
        ]
        found.append(sum(part) / len(part) if part else None)
    return found
