"""Converts a table's totals to the whole range, one step, or one call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.table import Field

Per: TypeAlias = Literal["total", "step", "call"]
ORDER: tuple[Per, ...] = ("total", "step", "call")
WORDS: dict[Per, str] = {"total": "", "step": "per step", "call": "per call"}
"""What a title says of its numbers."""


def divided(
    frame: pl.DataFrame, columns: Sequence[Field], per: Per, *, steps: int, calls: str = "calls"
) -> tuple[pl.DataFrame, tuple[Field, ...]]:
    """A table whose totals are of one step or one call; files and copies of it name such columns ``…_per_step``.

    Args:
        frame: totals of the whole range.
        columns: which of its columns are totals (`Field.sums`).
        per: ``total`` leaves all as it is.
        steps: how many steps the totals are of.
        calls: the column that counts calls; it stays whole where numbers are of one call.
    """
    if per == "total":
        return frame, tuple(columns)
    by = pl.lit(max(steps, 1)) if per == "step" else pl.when(pl.col(calls) > 0).then(calls)
    summed = {
        column.name
        for column in columns
        if column.sums and column.name in frame.columns and not (per == "call" and column.name == calls)
    }
    told = tuple(
        replace(column, saved_as=f"{column.name}_per_{per}", about=f"{column.about}; {WORDS[per]}")
        if column.name in summed
        else column
        for column in columns
    )
    return frame.with_columns(pl.col(name) / by for name in sorted(summed)), told


def next_unit(per: Per, *, has_steps: bool) -> Per:
    """Returns the next unit; a recording without steps has no numbers per step."""
    order = [one for one in ORDER if has_steps or one != "step"]
    return order[(order.index(per) + 1) % len(order)] if per in order else order[0]
