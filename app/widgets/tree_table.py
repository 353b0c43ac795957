"""The same table over a frame in tree order: rows open and close, and siblings sort among themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.app import commands
from tracetui.app.columns import cell_text
from tracetui.app.widgets.frame_table import FrameTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tracetui.app.columns import Column, Placed

FIRST_ROWS = 40
"""How many rows the tree opens to at first, if whole levels fit into that; the roots always open."""


class TreeTable(FrameTable):
    """A `FrameTable` that folds, where its frame has a `depth` column and rows stand depth first.

    A frame without depths is shown as a plain table.
    """

    BINDINGS = commands.bindings("tree")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.folds = False
        """Whether the frame is shown as a tree."""
        self.expanded: set[int] = set()
        self._above: list[int] = []
        self._children: dict[int, list[int]] = {}
        self._depth: list[int] = []

    def plant(self, frame: pl.DataFrame, *, expanded: Iterable[int] | None = None) -> None:
        """Prepares for a frame that `load` is about to show.

        Args:
            frame: a tree if it has a `depth` column (0 for roots), rows depth first.
            expanded: rows that are open; by default as many whole levels as fit on a small screen.
        """
        self.folds = "depth" in frame.columns
        self._above, self._children, self._depth = [], {}, []
        if not self.folds:
            self.expanded = set()
            return
        self._depth = frame["depth"].to_list()
        path: list[int] = []
        for row, depth in enumerate(self._depth):
            del path[depth:]
            parent = path[-1] if path else -1
            self._above.append(parent)
            self._children.setdefault(parent, []).append(row)
            path.append(row)
        self.expanded = set(self._first_levels() if expanded is None else expanded)

    def _first_levels(self) -> Iterator[int]:
        deepest = max(self._depth, default=0)
        rows = 0
        for level in range(deepest + 1):
            rows += sum(depth == level for depth in self._depth)
            if rows > FIRST_ROWS and level > 1:
                return
            yield from (row for row, depth in enumerate(self._depth) if depth == level - 1)

    # --- order

    def _arrange(self) -> None:
        if not self.folds:
            super()._arrange()
            return
        kept = self._kept()
        rank: dict[int, int] | None = None
        if self.sort is not None and self.sort[0] in self.frame.columns:
            rank = {row: place for place, row in enumerate(self._sorted(None, *self.sort).to_list())}
        rows: list[int] = []
        stack = [-1]
        while stack:
            row = stack.pop()
            if row >= 0:
                rows.append(row)
            if row >= 0 and row not in self.expanded and kept is None:
                continue
            children = self._children.get(row, [])
            if kept is not None:
                children = [child for child in children if child in kept]
            if rank is not None:
                children = sorted(children, key=rank.__getitem__)
            stack.extend(reversed(children))
        self._order = pl.Series("row", rows, dtype=pl.UInt32)

    def _kept(self) -> set[int] | None:
        """Rows that the filter keeps, with all that lead to them; null without a filter."""
        if not self.filter:
            return None
        condition = self.filter.expression(self.columns, self.frame)
        kept: set[int] = set()
        for found in self.frame.select(condition.alias("keep"))["keep"].arg_true().to_list():
            row = found
            while row >= 0 and row not in kept:
                kept.add(row)
                row = self._above[row]
        return kept

    @property
    def matching(self) -> int:
        """Rows the filter matches, not counting those shown only because they lead to one."""
        if not self.folds:
            return self.height_of_view
        if not self.filter:
            return self.frame.height
        return int(self.frame.select(self.filter.expression(self.columns, self.frame).alias("keep"))["keep"].sum())

    # --- painting

    def _cell(self, position: int, placed: Placed, value: object) -> tuple[str, str]:
        if not self.folds or placed.column.name != self.columns[0].name:
            return super()._cell(position, placed, value)
        row = self.row_number(position)
        depth = self._depth[row] if row is not None else 0
        text = cell_text(value, "text", ascii=self.ascii)
        indent = " " * min(2 * depth, max(placed.width - 14, 0))
        return f"{indent}{self._marker(row)} {text}", ""

    def _marker(self, row: int | None) -> str:
        if row not in self._children:
            return " "
        is_open = row in self.expanded or bool(self.filter)
        if self.ascii:
            return "-" if is_open else "+"
        return "▾" if is_open else "▸"

    def _widest(self, column: Column) -> int:
        widest = super()._widest(column)
        if self.folds and self.columns and column.name == self.columns[0].name:
            widest += 2 * max(self._depth, default=0) + 2
        return widest

    # --- folding

    def stand_on(self, row: int | None) -> bool:
        """Puts the cursor on a row; opens what leads to it."""
        if self.folds and row is not None and not self.filter:
            above = self._above[row]
            while above >= 0:
                self.expanded.add(above)
                above = self._above[above]
            self._arrange()
        return super().stand_on(row)

    def _refold(self, row: int | None) -> None:
        self._arrange()
        super().stand_on(row)

    def action_expand(self) -> None:
        """Opens the row; an open one is entered."""
        row = self.row_number(self.cursor)
        if not self.folds or row not in self._children:
            return
        if row in self.expanded:
            self.move_to(self.cursor + 1)
        else:
            self.expanded.add(row)
            self._refold(row)

    def action_collapse(self) -> None:
        """Closes the row; from a closed one, goes to its parent."""
        row = self.row_number(self.cursor)
        if not self.folds or row is None:
            return
        if row in self.expanded and row in self._children:
            self.expanded.discard(row)
            self._refold(row)
        elif self._above[row] >= 0:
            self.stand_on(self._above[row])

    def action_fold(self) -> None:
        """Opens or closes the row."""
        row = self.row_number(self.cursor)
        if self.folds and row in self._children:
            self.expanded.symmetric_difference_update({row})
            self._refold(row)

    def action_expand_chain(self) -> None:
        """Opens the row and its only child, and so on, down to the first fork."""
        row = start = self.row_number(self.cursor)
        while self.folds and row is not None and row in self._children:
            self.expanded.add(row)
            children = self._children[row]
            row = children[0] if len(children) == 1 else None
        self._refold(start)

    def action_expand_all(self) -> None:
        """Opens the row and everything below it."""
        row = self.row_number(self.cursor)
        if not self.folds or row is None:
            return
        end = row + 1
        while end < len(self._depth) and self._depth[end] > self._depth[row]:
            end += 1
        self.expanded.update(below for below in range(row, end) if below in self._children)
        self._refold(row)

    def action_collapse_all(self) -> None:
        """Closes everything; the cursor goes to the root of its row."""
        row = self.row_number(self.cursor)
        if not self.folds:
            return
        while row is not None and self._above[row] >= 0:
            row = self._above[row]
        self.expanded.clear()
        self._refold(row)
