"""The rows that a table shows, filtered and sorted; for long tables another thread works out which, so keys go on."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from textual.geometry import Region
from textual.message import Message

from tracetui.app.session import jobs
from tracetui.app.tables.filters import Filter
from tracetui.app.widgets.painted import Painted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.timer import Timer

    from tracetui.analysis.tables.table import Field
    from tracetui.app.text.names import Names

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


AT_ONCE = 20_000
"""With at most this many rows, a table is sorted and filtered before its next picture."""
SLOW_SECONDS = 0.15
"""After this time a mark says that the rows in view are not yet those that were asked for."""


class Arranged(Painted):
    """Rows of a frame with a sort order and a filter, and a cursor.

    It keeps an index of row numbers; the frame itself is never copied. While another thread works out the index of a
    long table, the old rows stay in view and can be moved through. Only what was asked for last is then shown.
    """

    class Settled(Message):
        """The rows that were asked for are in view, after another thread worked them out."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.frame = pl.DataFrame()
        self.columns: tuple[Field, ...] = ()
        self.names: Names = "short"
        self.cursor = 0
        self.top = 0
        self.sort: tuple[str, bool] | None = None
        """Field sorted by, and whether the largest comes first."""
        self.stands = False
        """Whether that is the order in which the frame stands, so that nothing is sorted."""
        self.filter = Filter()
        self.is_slow = False
        """Whether the rows that were asked for have been worked on for a while."""
        self._order: pl.Series | None = None
        self._orders = Orders()
        self._asked: Arrangement | None = None
        """What is asked for and not in view yet."""
        self._doing: Arrangement | None = None
        """What another thread works on."""
        self._stood = 0
        """Where the cursor was when it was asked."""
        self._aim: int | None = None
        """The position at which the cursor shall be then; None to stay on its row."""
        self._timer: Timer | None = None

    # --- what is in view

    @property
    def is_working(self) -> bool:
        """Whether the rows in view are not those that were asked for yet."""
        return self._asked is not None

    @property
    def height_of_view(self) -> int:
        """Returns how many rows of the frame the filter keeps."""
        return self.frame.height if self._order is None else self._order.len()

    @property
    def current(self) -> dict[str, object] | None:
        """The row under the cursor, all columns of the frame; None where the table is empty."""
        row = self.row_number(self.cursor)
        return None if row is None else self.frame.row(row, named=True)

    def row_number(self, position: int) -> int | None:
        """Row of the frame that stands at a position of the view."""
        if not 0 <= position < self.height_of_view:
            return None
        return position if self._order is None else int(self._order[position])

    def view(self) -> pl.DataFrame:
        """The rows that were asked for in their order, all columns of the frame."""
        self.settle()
        return self.frame if self._order is None else self.frame[self._order]

    def first(self, rows: int) -> pl.DataFrame:
        """The first rows in view in their order, all columns of the frame."""
        self.settle()
        return self.frame.head(rows) if self._order is None else self.frame[self._order.head(rows)]

    def values(self, name: str) -> pl.Series:
        """One column of the rows that were asked for, in their order."""
        self.settle()
        return self.frame[name] if self._order is None else self.frame[name].gather(self._order)

    def values_later(self, name: str) -> Callable[[], pl.Series]:
        """One column of the rows in view, in their order: gathered when called, on any thread."""
        frame, order = self.frame, self._order
        return lambda: frame[name] if order is None else frame[name].gather(order)

    # --- what is asked for

    def set_filter(self, wanted: Filter) -> None:
        """Keeps only the rows that match; the cursor stays on its row if that is still there.

        Raises:
            FilterError: the filter refers to a column that this table lacks.
        """
        wanted.expression(self.columns, self.frame)
        self.filter = wanted
        self._ask()

    def set_sort(self, name: str, *, descending: bool) -> None:
        """Sorts by a column; the cursor goes to the first row, unless it is moved before the rows are there."""
        self.sort, self.stands = (name, descending), False
        self._ask(aim=0)

    def settle(self) -> None:
        """Works out at once what another thread has not yet worked out: for those who need these rows now."""
        if (asked := self._asked) is not None:
            self._take(asked.rows())

    def stand_on(self, row: int | None) -> bool:
        """Puts the cursor on a row, or on the first if the row is filtered out; returns whether it was found."""
        self.settle()
        place = None if row is None else row if self._order is None else self._order.index_of(row)
        self.cursor = place or 0
        self.changed()
        return place is not None

    def changed(self) -> None:
        """Lays the columns out again and repaints."""
        raise NotImplementedError

    # --- how it is worked out

    def _wanted(self) -> Arrangement:
        sort = self.sort if self.sort is not None and self.sort[0] in self.frame.columns and not self.stands else None
        return Arrangement(
            self.frame, self.columns, self.filter, None if sort is None else (self._source(sort[0]), sort[1])
        )

    def _source(self, name: str) -> str:
        """The frame's column behind a shown column: the form in which names are shown."""
        column = next((c for c in self.columns if c.name == name), None)
        form = {"short": column.short, "full": column.full}.get(self.names, "") if column else ""
        return form if form in self.frame.columns else name

    def _arrange(self) -> None:
        """Works out which rows are in view, and in which order."""
        self._order = self._wanted().rows()

    def _at_once(self) -> bool:
        """Whether it is not worth another thread."""
        return self.frame.height <= AT_ONCE

    def _ask(self, *, aim: int | None = None, fresh: bool = False) -> None:
        """Shows the rows that sort order and filter ask for: now, or once another thread has worked them out.

        Args:
            aim: the position at which the cursor shall be; None to stay on its row.
            fresh: there is nothing to see till then: the frame is another one.
        """
        row = None if fresh else self.row_number(self.cursor)
        wanted = self._wanted()
        known = self._orders.of(wanted)
        if self._at_once() or wanted.is_plain or known is not None:
            self._forget()
            if known is not None:
                self._order = known
            else:
                self._arrange()
            self._land(row, aim)
            return
        if fresh:
            self._order = pl.Series("row", [], dtype=pl.UInt32)
            self.cursor = self.top = 0
            self.changed()
        self._asked, self._aim, self._stood = wanted, aim, self.cursor
        if self._doing is None:
            self._work()

    def _work(self) -> None:
        self._doing = asked = self._asked
        assert asked is not None
        jobs.start(self, "arrange", asked.rows)
        if self._timer is None and not self.is_slow:
            self._timer = self.set_timer(SLOW_SECONDS, self._mark)

    def _mark(self) -> None:
        self._timer = None
        self.is_slow = self.is_working
        # the mark is in the header; where there are no rows yet, words stand below it
        self.refresh(Region(0, 0, self.size.width, 2))

    def on_job_done(self, event: jobs.JobDone[Any]) -> None:
        """Shows the rows, unless others were asked for meanwhile."""
        event.stop()
        done, self._doing = self._doing, None
        if self._asked is None:
            return
        if done is not self._asked:
            self._work()
        elif event.error is not None:
            self._forget()
            raise event.error
        else:
            self._take(event.result)

    def _take(self, rows: pl.Series | None) -> None:
        asked = self._asked
        assert asked is not None
        row = self.row_number(self.cursor)
        # who has moved on since then stays there
        aim = self._aim if self.cursor == self._stood else None
        if rows is not None:
            self._orders.keep(asked, rows)
        self._forget()
        self._order = rows
        self._land(row, aim)
        self.post_message(self.Settled())

    def _land(self, row: int | None, aim: int | None) -> None:
        if aim is None:
            self.stand_on(row)
        else:
            self.cursor, self.top = aim, 0
            self.changed()

    def _forget(self) -> None:
        """Nothing is asked for any more."""
        self._asked, self.is_slow = None, False
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
