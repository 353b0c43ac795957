"""The table widget: shows a Polars frame of any height and formats only the visible rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar, cast

import polars as pl
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from tracetui.analysis.base import number_format
from tracetui.analysis.tables.table import Field
from tracetui.app.charts.cells import EIGHTHS
from tracetui.app.charts.heat import ASCII
from tracetui.app.keys import commands
from tracetui.app.tables import columns as column_specs
from tracetui.app.tables.columns import Placed, cell_text
from tracetui.app.tables.filters import Filter
from tracetui.app.text import fitting
from tracetui.app.text.names import Names
from tracetui.app.text.words import SEVERITY_SIGNS
from tracetui.app.widgets.arranged import Arranged
from tracetui.app.widgets.painted import Latest

Cells = tuple[tuple[str, str], ...]
"""One formatted row: (text, style key) in order."""

WHEEL_LINES = 3
NAMES_LIMIT = 10_000
"""With at most this many rows, names that don't fit are cut so that no two look alike."""
WORKING = "Computing …"
"""Stands in place of the rows of another frame that are not sorted yet."""
COMMENTED = "#"
"""In the gutter of a row with a comment."""
STATUS_SIGNS = {"added": "+", "removed": "-", "changed": "~", "same": "=", "late": "!", "last": "~", **SEVERITY_SIGNS}
STATUS_STYLES = {
    "added": "added", "removed": "removed", "changed": "changed",
    "late": "added", "last": "changed", "invalid": "added", "critical": "added", "warning": "changed",
}  # fmt: skip


def heated(picture: str) -> list[tuple[str, str]]:
    """The picture in stretches of one style: what is more than three quarters of the largest, and more than half."""
    styles = {sign: style for signs in (EIGHTHS[1:], ASCII) for sign, style in zip(signs, HEAT, strict=True)}
    return [("".join(part), style) for style, part in groupby(picture, key=lambda sign: styles.get(sign, ""))]


HEAT = ("", "", "", "", "changed", "changed", "added", "added")
"""By eighth of the largest value, as `charts.heat` draws it."""


class FrameTable(Arranged, can_focus=True):
    """Rows of a frame under a fixed header, with a row cursor, a sort order and a filter."""

    BINDINGS = commands.bindings("table")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header",
        "table--sorted",
        "table--cursor",
        "table--bar",
        "table--muted",
        "table--added",
        "table--removed",
        "table--changed",
    }

    class Moved(Latest):
        """The cursor moved to another row, or the rows have changed."""

    class Activated(Message):
        """A row was double-clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.hidden: frozenset[str] = frozenset()
        self.pinned: frozenset[str] = frozenset()
        self.empty_text = ""
        """The text shown if the filter keeps no rows."""
        self.ascii = False
        self.jump = False
        """Whether to scroll by half a page at the edges, which sends fewer bytes over a slow link."""
        self.follow: Callable[[], None] | None = None
        """Called when the cursor moves, in place of `Moved`: what goes with the cursor is then in the same picture."""
        self._content: dict[str, int] = {}
        self._placed: list[Placed] = []
        self._gap = 2
        self._laid_out = 0
        self._cut: dict[str, dict[str, str]] = {}
        """Names cut to the available width so that no two look alike, by column."""
        self._rows: LRUCache[int, Cells] = LRUCache(1024)
        self._strips: LRUCache[int, Strip] = LRUCache(512)
        """Rows as they look without the cursor, by their position: scrolling only moves them."""
        self._commented: frozenset[int] = frozenset()
        self._own_style: Style | None = None

    # --- what is shown

    def load(
        self,
        frame: pl.DataFrame,
        columns: Sequence[Field],
        *,
        sort: tuple[str, bool] | None = None,
        order: tuple[str, bool] | None = None,
        filter: Filter | None = None,
        hidden: Iterable[str] | None = None,
        pinned: Iterable[str] = (),
        cursor: int = 0,
    ) -> None:
        """Shows another frame.

        Args:
            frame: its rows, in the order they have where nothing is sorted.
            columns: which of its columns are shown, and how; those the frame lacks are left out.
            sort: column and whether the largest comes first; None leaves the rows as they stand.
            order: the order in which they stand, for the header's mark.
            filter: rows to keep.
            hidden: columns switched off; by default those that say so.
            pinned: columns that have priority if space is short.
            cursor: row in view to stand on.
        """
        self.frame = frame
        self.columns = tuple(column for column in columns if column.name in frame.columns)
        self.hidden = frozenset(c.name for c in self.columns if c.hidden) if hidden is None else frozenset(hidden)
        self.pinned = frozenset(pinned)
        self.sort, self.stands = sort or order, sort is None
        self.filter = filter or Filter()
        self._content = self._measure()
        self._ask(aim=cursor, fresh=True)

    @property
    def chosen(self) -> list[Field]:
        """The columns not switched off."""
        return [column for column in self.columns if column.name not in self.hidden]

    @property
    def shown(self) -> list[Field]:
        """The columns that have room."""
        return [placed.column for placed in self._placed]

    @property
    def page_rows(self) -> int:
        """Rows in sight at once."""
        return max(self.size.height - 1, 1)

    def current_texts(self) -> list[tuple[str, str]]:
        """Titles and texts of the row under the cursor, as shown but not cut; none where the table is empty."""
        row = self.current
        kinds = [(column, self._source(column.name)) for column in self.shown or self.chosen]
        return [(c.label, cell_text(row[name], c.kind, ascii=self.ascii)) for c, name in kinds] if row else []

    def choose_columns(self, *, hidden: Iterable[str], pinned: Iterable[str] = ()) -> None:
        """Hides columns, and gives others priority if space is short."""
        self.hidden, self.pinned = frozenset(hidden), frozenset(pinned)
        self.changed()

    @property
    def knows_raw_names(self) -> bool:
        """Returns whether the file writes some names differently from the program's author."""
        return any(column.full and column.full in self.frame.columns for column in self.columns)

    def set_names(self, names: Names) -> None:
        """Shows names in their short form where there is one, in full, or as the file has them."""
        self.names = names
        self._content = self._measure()
        self.changed()

    def changed(self) -> None:
        """Lays the columns out again and repaints."""
        self._drop_rows()
        self._lay_out()
        self.cursor = min(max(self.cursor, 0), max(self.height_of_view - 1, 0))
        self._keep_in_sight()
        self.refresh()
        self.post_message(self.Moved())

    # --- layout

    def _measure(self) -> dict[str, int]:
        """Measures the widest text of each column; for long columns, only the texts of the extremes."""
        return {column.name: self._widest(column) for column in self.columns}

    def _widest(self, column: Field) -> int:
        series = self.frame[self._source(column.name)]
        if not series.len():
            return 0
        if column.kind in ("text", "status"):
            if series.dtype in (pl.Categorical, pl.Enum):
                series = series.unique()
            longest = series.cast(pl.String).str.len_chars().max()
            return (cast("int", longest) if longest is not None else 0) + (2 if column.kind == "status" else 0)
        if column.kind == "flag":
            return 3
        low, high = cast("float | None", series.min()), cast("float | None", series.max())
        ends = [cell_text(value, column.kind, ascii=self.ascii) for value in (low, high)]
        # between its extremes a time or a share may need more digits: 999.9 ms, 99.9
        usual = {"time": 8, "delta": 9, "percent": 5, "change": 6}.get(column.kind, 0)
        return max(usual, *map(len, ends))

    def _lay_out(self) -> None:
        width = self._laid_out = self.size.width
        self._cut.clear()
        if width:
            self._placed, self._gap = self._place(self.hidden, self.pinned)

    def _place(self, hidden: Collection[str], pinned: Collection[str]) -> tuple[list[Placed], int]:
        chosen = (column for column in self.columns if column.name not in hidden)
        wanted = [replace(column, priority=0) if column.name in pinned else column for column in chosen]
        width = self.size.width
        return column_specs.place(wanted, width - 2, content=self._content, narrow=width < 72)

    def room_for(self, hidden: Collection[str], pinned: Collection[str]) -> set[str]:
        """The columns that would be shown with these switched off, and these asked for."""
        return {placed.column.name for placed in self._place(hidden, pinned)[0]}

    def on_resize(self, event: Resize) -> None:
        """Shares the new width."""
        self.changed()

    # --- painting

    def render_line(self, y: int) -> Strip:
        """The header, or one row."""
        width = self.size.width
        if width != self._laid_out:
            # painted before the resize event came
            self._drop_rows()
            self._lay_out()
        if y == 0:
            return self._header(width)
        position = self.top + y - 1
        if position >= self.height_of_view:
            if y == 1 and self.frame.height and (text := self._instead_of_rows()):
                return Strip([Segment(f" {text}", self._plain)]).adjust_cell_length(width)
            return Strip.blank(width, self._plain)
        if position == self.cursor:
            style = self.get_component_rich_style("table--cursor")
            text = "".join((">", *(text for text, _ in self._cells(position)), self._rest(width)))
            return Strip([Segment(text, style)]).adjust_cell_length(width, style)
        strip = self._strips.get(position)
        if strip is None:
            strip = self._strips[position] = self._row(position, width)
        return strip

    def _row(self, position: int, width: int) -> Strip:
        """A row without the cursor; neighbours of one style are one segment, since each costs time on its way out."""
        base = self._plain
        texts, style = [self._gutter(position)], ""
        segments = []
        for text, key in self._cells(position):
            if key != style and not (text.isspace() and key == ""):
                segments.append(Segment("".join(texts), self._style(style, base)))
                texts, style = [], key
            texts.append(text)
        segments.append(Segment("".join(texts) + self._rest(width), self._style(style, base)))
        return Strip(segments).adjust_cell_length(width, base)

    def _rest(self, width: int) -> str:
        """The blanks behind the last column."""
        used = sum(placed.total + self._gap for placed in self._placed) - self._gap
        return " " * (width - 1 - used)

    def _instead_of_rows(self) -> str:
        if self.is_working:
            text = WORKING if self.is_slow else ""
            return fitting.to_ascii(text) if self.ascii else text
        return self.empty_text

    @property
    def _plain(self) -> Style:
        """Returns the table's own style, computed once because every row needs it."""
        if self._own_style is None:
            self._own_style = self.rich_style
        return self._own_style

    def notify_style_update(self) -> None:
        """Colours have changed."""
        self._own_style = None
        self._strips.clear()
        super().notify_style_update()

    def _drop_rows(self) -> None:
        """Forgets how rows look, since they may look otherwise now."""
        self._rows.clear()
        self._strips.clear()

    def _gutter(self, position: int) -> str:
        return COMMENTED if self._commented and self.row_number(position) in self._commented else " "

    def mark(self, rows: frozenset[int]) -> None:
        """Marks rows of the frame in the gutter: those with comments."""
        if rows != self._commented:
            self._commented = rows
            self._strips.clear()
            self.refresh()

    def _style(self, key: str, base: Style) -> Style:
        return self.get_component_rich_style(f"table--{key}") if key else base

    def _header(self, width: int) -> Strip:
        plain = self.get_component_rich_style("table--header")
        marked = self.get_component_rich_style("table--sorted")
        segments = [Segment(("~" if self.ascii else "…") if self.is_slow else " ", plain)]
        for number, placed in enumerate(self._placed):
            column = placed.column
            title = fitting.printable(column.label, ascii=self.ascii)
            is_sorted = self.sort is not None and self.sort[0] == column.name
            if is_sorted and self.sort is not None:
                mark = "▼" if self.sort[1] else "▲"
                mark = {"▼": "v", "▲": "^"}[mark] if self.ascii else mark
                if self.stands and column.kind == "delta" and not self.frame[column.name].is_sorted(descending=True):
                    mark += "+-" if self.ascii else "±"  # by size, whatever the sign
                title = f"{mark}{title}" if column.right else f"{title}{mark}"
            text = fitting.pad(fitting.fit(title, placed.width, ascii=self.ascii), placed.width, right=column.right)
            if number:
                segments.append(Segment(" " * self._gap, plain))
            segments.append(Segment(text, marked if is_sorted else plain))
            if placed.bar:
                segments.append(Segment(" " * (placed.bar + 1), plain))
        return Strip(segments).adjust_cell_length(width, plain)

    def _cells(self, position: int) -> Cells:
        cells = self._rows.get(position)
        if cells is None:
            # one gather for what is missing of the screen, not one lookup per row
            stop = max(min(self.top + self.page_rows, self.height_of_view), position + 1)
            while stop > position + 1 and self._rows.get(stop - 1) is not None:
                stop -= 1
            names = [self._source(placed.column.name) for placed in self._placed]
            signs = [mark if (mark := placed.column.mark) in self.frame.columns else "" for placed in self._placed]
            known = {name: self._values(name, position, stop - position) for name in {*names, *filter(None, signs)}}
            for at in range(stop - position):
                marks = [known[sign][at] if sign else "" for sign in signs]
                self._rows[position + at] = self._format(position + at, [known[name][at] for name in names], marks)
            cells = self._rows[position]
        return cells

    def _values(self, name: str, position: int, count: int) -> list[Any]:
        """The values of a column in so many rows of the view."""
        column = self.frame[name]
        return (
            column.slice(position, count) if self._order is None else column[self._order.slice(position, count)]
        ).to_list()

    def _format(self, position: int, values: Sequence[object], marks: Sequence[str]) -> Cells:
        cells: list[tuple[str, str]] = []
        blank = (" " * self._gap, "")
        for number, (placed, value) in enumerate(zip(self._placed, values, strict=True)):
            if number:
                # a sign stands in the gap behind its value, so that it takes no room from the names
                mark = marks[number - 1] if self._gap > 1 else ""
                cells.append((fitting.pad(mark, self._gap), "") if mark else blank)
            text, key = self._cell(position, placed, value)
            if fitting.cell_width(text) > placed.width:
                text = self._fit(text, placed)
            text = fitting.pad(text, placed.width, right=placed.column.right)
            cells.extend(heated(text) if placed.column.heat else [(text, key)])
            if placed.bar:
                share = float(value) / 100 if isinstance(value, (int, float)) else 0.0
                cells.append((" " + fitting.bar(share, placed.bar, ascii=self.ascii), "bar"))
        return tuple(cells)

    def _fit(self, text: str, placed: Placed) -> str:
        """Cuts a text that is too wide for its column."""
        if placed.column.tail:
            return fitting.fit(text, placed.width, ascii=self.ascii, keep_end=True)
        if (placed.column.short or placed.column.flex) and self.frame.height <= NAMES_LIMIT:
            return self._names(placed).get(text, text)
        return fitting.fit(text, placed.width, ascii=self.ascii)

    def _names(self, placed: Placed) -> dict[str, str]:
        column = placed.column
        if column.name not in self._cut:
            values = self.frame[self._source(column.name)].cast(pl.String).unique()
            texts = (cell_text(value, column.kind, ascii=self.ascii) for value in values)
            self._cut[column.name] = fitting.fit_apart(texts, placed.width, ascii=self.ascii)
        return self._cut[column.name]

    def _cell(self, position: int, placed: Placed, value: object) -> tuple[str, str]:
        """Text and style key of one cell, not yet padded."""
        kind = placed.column.kind
        text = cell_text(value, kind, ascii=self.ascii)
        if kind == "status":
            return f"{STATUS_SIGNS.get(text, ' ')} {text}", STATUS_STYLES.get(text, "muted")
        return text, "muted" if text == number_format.UNKNOWN else ""

    # --- moving

    def _keep_in_sight(self, step: int = 0) -> None:
        rows = self.page_rows
        bottom = max(self.height_of_view - rows, 0)
        jump = rows // 2 if self.jump and abs(step) == 1 else 0
        if self.cursor < self.top:
            self.top = max(self.cursor - jump, 0)
        elif self.cursor >= self.top + rows:
            self.top = self.cursor - rows + 1 + jump
        self.top = min(max(self.top, 0), bottom)

    def move_to(self, position: int) -> None:
        """Puts the cursor on a row and repaints no more than needed."""
        position = min(max(position, 0), max(self.height_of_view - 1, 0))
        if position == self.cursor:
            return
        before, top = self.cursor, self.top
        self.cursor = position
        self._keep_in_sight(position - before)
        if self.top == top:
            width = self.size.width
            self.refresh(Region(0, before - top + 1, width, 1), Region(0, position - top + 1, width, 1))
        else:
            self.refresh()
        if self.follow is not None:
            self.follow()
        else:
            self.post_message(self.Moved())

    def action_move(self, rows: int) -> None:
        """Up or down by rows."""
        self.move_to(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        """Up or down by pages."""
        self.move_to(self.cursor + pages * self.page_rows)

    def action_half_page(self, halves: int) -> None:
        """Up or down by half pages."""
        self.move_to(self.cursor + halves * max(self.page_rows // 2, 1))

    def action_goto(self, position: int) -> None:
        """To a row; negative ones count from the end."""
        self.move_to(position if position >= 0 else self.height_of_view + position)

    def action_sort_by(self, step: int) -> None:
        """Sorts by the column after or before the present one; numbers from the largest, texts from A."""
        columns = self.shown or self.chosen
        names = [column.name for column in columns]
        if not names:
            return
        at = names.index(self.sort[0]) + step if self.sort and self.sort[0] in names else (0 if step > 0 else -1)
        column = columns[at % len(names)]
        self.set_sort(column.name, descending=column.right)

    def action_reverse(self) -> None:
        """Reverses the order."""
        if self.sort is None:
            self.action_sort_by(1)
        else:
            self.set_sort(self.sort[0], descending=not self.sort[1])

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Moves down by a few rows."""
        event.stop()
        self.action_move(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Moves up by a few rows."""
        event.stop()
        self.action_move(-WHEEL_LINES)

    def on_click(self, event: Click) -> None:
        """Puts the cursor on the row, or sorts by the column of a title; twice opens the row."""
        if event.y == 0:
            at = 1
            for placed in self._placed:
                if at <= event.x < at + placed.total + self._gap:
                    same = self.sort is not None and self.sort[0] == placed.column.name
                    descending = not self.sort[1] if same and self.sort else placed.column.right
                    self.set_sort(placed.column.name, descending=descending)
                    return
                at += placed.total + self._gap
            return
        self.move_to(self.top + event.y - 1)
        if event.chain == 2:
            self.post_message(self.Activated())
