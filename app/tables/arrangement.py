"""Which rows of a frame a table shows, and in which order: a filter and a sort order, worked out on any thread."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.table import Field
    from tracetui.app.tables.filters import Filter

KEPT = 4
"""So many orders of long tables are kept, for those who go back and forth between them."""


@dataclass(frozen=True, eq=False, slots=True)
class Arrangement:
    """What is asked of a table's rows."""

    frame: pl.DataFrame
    columns: Sequence[Field]
    """The columns in which a filter looks."""
    filter: Filter
    sort: tuple[str, bool] | None
    """The frame's column to sort by, and whether the largest comes first."""

    @property
    def is_plain(self) -> bool:
        """Whether all rows are shown as they stand in the frame."""
        return self.sort is None and not self.filter

    def rows(self) -> pl.Series | None:
        """The numbers of the rows in their order; None for all rows as they stand.

        Nulls come last in both directions, and rows with equal keys stay in the frame's order.
        """
        rows: pl.Series | None = None
        if self.filter:
            condition = self.filter.expression(self.columns, self.frame)
            rows = self.frame.select(condition.alias("keep"))["keep"].arg_true()
        return rows if self.sort is None else sorted_rows(self.frame[self.sort[0]], rows, descending=self.sort[1])


def sorted_rows(key: pl.Series, rows: pl.Series | None = None, *, descending: bool) -> pl.Series:
    """Orders rows by a column: texts in any case, nulls last.

    Args:
        key: the column, a value for each row of the frame.
        rows: the numbers of the rows to order; all if None.
        descending: whether the largest comes first.
    """
    if rows is not None:
        key = key.gather(rows)
    if key.dtype in (pl.Categorical, pl.Enum):
        key = key.cast(pl.String)
    if key.dtype == pl.String:
        key = key.str.to_lowercase()
    numbers = pl.int_range(key.len(), dtype=pl.UInt32, eager=True).alias("row")
    table = pl.DataFrame({"key": key, "row": numbers if rows is None else rows})
    return table.sort("key", descending=descending, nulls_last=True, maintain_order=True)["row"]


class Orders:
    """The orders that were worked out last, as long as their frames live."""

    def __init__(self) -> None:
        self._known: deque[tuple[weakref.ref[pl.DataFrame], Filter, tuple[str, bool] | None, pl.Series]] = deque(
            maxlen=KEPT
        )

    def of(self, asked: Arrangement) -> pl.Series | None:
        """The rows of an arrangement if they are known."""
        for frame, filter, sort, rows in self._known:
            if frame() is asked.frame and filter == asked.filter and sort == asked.sort:
                return rows
        return None

    def keep(self, asked: Arrangement, rows: pl.Series) -> None:
        """Remembers the rows of an arrangement."""
        self._known.append((weakref.ref(asked.frame), asked.filter, asked.sort, rows))
