"""The table over a frame in tree order: rows expand and collapse, and siblings sort among themselves.

Repeated siblings, and those too small to matter, are hidden behind one row that gives their count and sums.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns, format_signed_ns
from tracetui.analysis.tables.table import Field
from tracetui.app.keys import commands
from tracetui.app.tables.columns import Placed, cell_text
from tracetui.app.text import fitting
from tracetui.app.widgets.arranged import sorted_rows
from tracetui.app.widgets.frame_table import NAMES_LIMIT, FrameTable

LEAST_PERCENT = 0.5
"""Percent of all time below which a row is small."""
ALWAYS_SHOWN = 5
"""How many of the largest siblings always show: of a thousand different ranges, some must be visible."""
FEWEST = 3
"""The least number of siblings that get a common row."""
_NUMBER = re.compile(r"(?<![^\W_])(\d{1,18})(?![^\W_])")
"""A number that stands by itself: in ``Block_3`` and ``blocks.3``, not in ``conv1``; longer ones are none."""
_NAMES = ("name", "label", "short_name", "host", "short_host")
_TIMES = ("delta_ns", "device_total_ns", "host_total_ns")
"""What a row is about, the first of these that is not 0."""
_CALLS = {"a_ns": "a_calls", "b_ns": "b_calls"}
"""What counts the calls of a number; ``calls`` where none is named."""
_WHOLE = ("percent", "calls", "a_calls", "b_calls")
"""Numbers that are of all calls where the others are of one."""
_SUMMED = (
    *_WHOLE, "device_total_ns", "device_self_ns", "backward_device_ns", "device_meanwhile_ns", "host_total_ns",
    "host_self_ns", "kernels", "gpu_ops", "operators", "a_ns", "b_ns", "duration_ns",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Folded:
    """Siblings that share one row."""

    parent: int
    """Their parent row; -1 for none."""
    rows: tuple[int, ...]
    """In the frame's order."""
    name: str = ""
    """What repeated ones are called together, ``Block_0-23``; empty for small ones, which are shown last."""


def small_siblings(
    frame: pl.DataFrame, children: Mapping[int, Sequence[int]], apart: Container[int] = ()
) -> list[Folded]:
    """Returns the groups of small siblings, by parent.

    Args:
        frame: a tree with a ``percent`` of all time; where it has none, the share of ``host_total_ns`` counts.
        children: rows below each row, -1 for the roots.
        apart: rows that are folded already.
    """
    shares = _shares(frame, children.get(-1, ()))
    if shares is None:
        return []
    groups = []
    for parent, below in children.items():
        rows = [row for row in below if row not in apart]
        ranked = sorted(rows, key=lambda row: -shares[row])
        small = [row for row in ranked[ALWAYS_SHOWN:] if shares[row] < LEAST_PERCENT]
        if len(small) >= FEWEST:
            groups.append(Folded(parent, tuple(sorted(small))))
    return groups


def repeated_siblings(frame: pl.DataFrame, children: Mapping[int, Sequence[int]], work: Container[int]) -> list[Folded]:
    """Returns the groups of siblings whose names differ in one number and which contain the same by name.

    Args:
        frame: a tree, rows depth first.
        children: rows below each row, -1 for the roots.
        work: rows that are operators or kernels, whose numbers tell different things apart.
    """
    names = frame[next(name for name in ("label", "short_name", "name") if name in frame.columns)].cast(pl.String)
    texts = names.fill_null("").to_list()
    shape, known = [0] * frame.height, dict[tuple[str, tuple[int, ...]], int]()
    for row in reversed(range(frame.height)):
        name = texts[row] if row in work else _NUMBER.sub("#", texts[row])
        inside = tuple(sorted(shape[child] for child in children.get(row, ())))
        shape[row] = known.setdefault((name, inside), len(known))
    groups = []
    for parent, rows in children.items():
        alike: dict[int, list[int]] = {}
        for row in rows:
            if row not in work:
                alike.setdefault(shape[row], []).append(row)
        for same in alike.values():
            if len(same) >= FEWEST:
                groups += [Folded(parent, tuple(found), name) for found, name in _numbered(same, texts)]
    return groups


def _numbered(rows: Iterable[int], names: Sequence[str]) -> Iterator[tuple[list[int], str]]:
    """Rows whose names differ in one number only, with what they are called together; the last numbers first."""
    parts = {row: _NUMBER.split(names[row]) for row in rows}
    for place in reversed(range(1, max(map(len, parts.values())), 2)):
        alike: dict[tuple[str, ...], list[int]] = {}
        for row, of in parts.items():
            alike.setdefault((*of[:place], *of[place + 1 :]), []).append(row)
        for same in alike.values():
            numbers = sorted({parts[row][place] for row in same}, key=int)
            if FEWEST <= len(same) == len(numbers):
                of, all_there = parts[same[0]], int(numbers[-1]) - int(numbers[0]) < len(numbers)
                span = f"{numbers[0]}{'-' if all_there else '…'}{numbers[-1]}"
                yield same, "".join((*of[:place], span, *of[place + 1 :]))
                parts = {row: of for row, of in parts.items() if row not in same}


def with_folded(frame: pl.DataFrame, groups: Sequence[Folded], *, per_call: bool = False) -> pl.DataFrame:
    """The frame followed by a row for each group, with the sums of its numbers; per call, with the means over calls."""
    known = [name for name in _SUMMED if name in frame.columns]
    rows: list[dict[str, Any]] = []
    for group in groups:
        part = frame[list(group.rows)]
        row: dict[str, Any] = dict.fromkeys(frame.columns)
        for name in known:
            calls = _CALLS.get(name, "calls")
            of = part.filter(pl.col(name).is_not_null())
            if not per_call or name in _WHOLE:
                row[name] = of[name].sum() if of.height else None
            elif calls in frame.columns and of[calls].sum():
                row[name] = float((of[name] * of[calls]).sum()) / float(of[calls].sum())
        if "delta_ns" in row and None not in (row["a_ns"], row["b_ns"]):
            row["delta_ns"] = row["b_ns"] - row["a_ns"]
            row["delta_percent"] = 100 * row["delta_ns"] / row["a_ns"] if row["a_ns"] else None
        row |= {name: part[name][0] for name in ("depth", "row_kind") if name in row}
        if "status" in row:
            row["status"] = part["status"][0] if part["status"].n_unique() == 1 else "changed"
        spent = next((row[name] for name in _TIMES if row.get(name)), None)
        written = format_signed_ns if "delta_ns" in row else format_ns
        mean = "" if spent is None or per_call else f" {written(spent / len(group.rows))}"
        told = f"{group.name} {len(group.rows)} ×{mean}" if group.name else ""
        told = told or f"… {len(group.rows)} more below {LEAST_PERCENT:g} %"
        rows.append(row | {name: told for name in _NAMES if name in row})
    return pl.concat([frame, pl.DataFrame(rows, schema=frame.schema, strict=False)])


def _shares(frame: pl.DataFrame, roots: Sequence[int]) -> list[float] | None:
    """Percent of all time, by row."""
    if "percent" in frame.columns and frame["percent"].null_count() < frame.height:
        shares: list[float] = frame["percent"].fill_null(0.0).to_list()
        return shares
    if "host_total_ns" not in frame.columns:
        return None
    times = frame["host_total_ns"].cast(pl.Float64).fill_null(0.0).to_list()
    total = sum(times[row] for row in roots)
    return [100 * time / total for time in times] if total else None


FIRST_ROWS = 40
"""The tree initially expands whole levels up to this many rows; the roots always expand."""


def _work_rows(frame: pl.DataFrame) -> set[int]:
    """The rows that are no parts of a program, but what these launched: they stay folded at first."""
    if "row_kind" not in frame.columns:
        return set()
    parts = frame["row_kind"].is_in(["module", "range"])
    return set((~parts).fill_null(value=False).arg_true().to_list())


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
        self.per_call = False
        """Whether numbers are of one call, so that those of siblings do not add up."""
        self._above: list[int] = []
        self._children: dict[int, list[int]] = {}
        self._depth: list[int] = []
        self._groups: list[Folded] = []
        """Siblings behind one row each; these rows follow those of the loaded frame."""
        self._own = 0
        """Rows of the frame that was loaded."""
        self._lead: dict[int, int] = {}
        """The row behind which a row is, by that row."""
        self._shown: dict[int, list[int]] = {}
        """Children with groups in the place of their members."""
        self._below: set[int] = set()
        """Rows of operators and kernels below the parts of a program."""

    def plant(self, frame: pl.DataFrame, *, expanded: Iterable[int] | None = None) -> None:
        """Prepares for a frame that `load` is about to show.

        Args:
            frame: a tree if it has a `depth` column (0 for roots), rows depth first.
            expanded: expanded rows; by default as many whole levels as fit on a small screen.
        """
        self.folds = "depth" in frame.columns
        self._above, self._children, self._depth = [], {}, []
        self._groups, self._own, self._lead, self._shown = [], frame.height, {}, {}
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
        self._below = _work_rows(frame)
        self._put_aside(frame)
        self.expanded = set(self._first_levels() if expanded is None else expanded)

    def _put_aside(self, frame: pl.DataFrame) -> None:
        """Finds the siblings to show as one row, and indents what is below it."""
        if "row_kind" in frame.columns:
            self._groups = repeated_siblings(frame, self._children, self._below)
        self._groups += small_siblings(frame, self._children, {row for group in self._groups for row in group.rows})
        self._shown = {row: list(below) for row, below in self._children.items()}
        for number, group in enumerate(self._groups, self._own):
            members, beside = set(group.rows), self._shown[group.parent]
            at = beside.index(group.rows[0]) if group.name else len(beside)
            beside.insert(at, number)
            self._shown[group.parent] = [row for row in beside if row not in members]
            self._shown[number] = list(group.rows)
            self._lead |= dict.fromkeys(group.rows, number)
            self._above.append(group.parent)
            self._depth.append(0)
        waiting = [(row, 0) for row in self._shown.get(-1, ())]
        while waiting:
            row, depth = waiting.pop()
            self._depth[row] = depth
            waiting += [(child, depth + 1) for child in self._shown.get(row, ())]

    def _led_by(self, row: int) -> int:
        """Returns the row under which a row is shown; -1 for none."""
        return self._lead.get(row, self._above[row])

    def _is_rest(self, row: int) -> bool:
        """Whether a row stands for small siblings, which come last in any order."""
        return row >= self._own and not self._groups[row - self._own].name

    @property
    def on_group(self) -> bool:
        """Whether the cursor is on a row that stands for several siblings."""
        row = self.row_number(self.cursor)
        return self.folds and row is not None and row >= self._own

    def load(self, frame: pl.DataFrame, columns: Sequence[Field], **options: Any) -> None:
        """Shows another frame, as `FrameTable.load` does, with the rows that stand for siblings."""
        shown = with_folded(frame, self._groups, per_call=self.per_call) if self._groups else frame
        super().load(shown, columns, **options)

    def view(self) -> pl.DataFrame:
        """The rows in view in their order, all columns of the frame; without those that stand for others."""
        self.settle()
        if not self._groups or self._order is None:
            return super().view()
        rows: pl.DataFrame = self.frame[self._order.filter(self._order < self._own)]
        return rows

    def _first_levels(self) -> Iterator[int]:
        level, rows = [-1], 0
        repeating = {group.parent for group in self._groups if group.name}  # beside them all stays closed
        for depth in range(len(self._depth) + 1):
            level = [row for row in level if any(child not in self._below for child in self._children.get(row, ()))]
            below = [child for row in level for child in self._shown.get(row, ())]
            rows += len(below)
            if not below or (rows > FIRST_ROWS and depth > 1):
                return
            yield from (row for row in level if row >= 0)
            open_rows = [row for row in level if row not in repeating]
            level = [child for row in open_rows for child in self._shown.get(row, ()) if child < self._own]

    # --- order

    def _at_once(self) -> bool:
        return self.folds or super()._at_once()

    def _arrange(self) -> None:
        if not self.folds:
            super()._arrange()
            return
        kept = self.kept_rows()
        rank: dict[int, int] | None = None
        if (sort := self._wanted().sort) is not None:
            ranked = sorted_rows(self.frame[sort[0]], descending=sort[1])
            rank = {row: place for place, row in enumerate(ranked.to_list())}
        rows: list[int] = []
        stack = [-1]
        while stack:
            row = stack.pop()
            if row >= 0:
                rows.append(row)
            if row >= 0 and row not in self.expanded and kept is None:
                continue
            children = self._shown.get(row, [])
            if kept is not None:
                children = [child for child in self._children.get(row, []) if child in kept]
            if rank is not None:
                children = sorted(children, key=lambda child: (self._is_rest(child), rank[child]))
            stack.extend(reversed(children))
        self._order = pl.Series("row", rows, dtype=pl.UInt32)

    def _matching_rows(self) -> pl.Series:
        """Rows of the loaded frame that the filter matches."""
        condition = self.filter.expression(self.columns, self.frame)
        return self.frame.head(self._own).select(condition.alias("keep"))["keep"].arg_true()

    def kept_rows(self) -> set[int] | None:
        """Rows that the filter keeps, with all that lead to them; None without a filter."""
        if not self.folds or not self.filter:
            return None
        kept: set[int] = set()
        for row in self._matching_rows().to_list():
            above = row
            while above >= 0 and above not in kept:
                kept.add(above)
                above = self._above[above]
        return kept

    @property
    def matching(self) -> int:
        """Rows the filter matches, not counting those shown only because they lead to one."""
        if not self.folds:
            return self.height_of_view
        return self._matching_rows().len() if self.filter else self._own

    # --- painting

    def _cell(self, position: int, placed: Placed, value: object) -> tuple[str, str]:
        if not self.folds or placed.column.name != self.columns[0].name:
            return super()._cell(position, placed, value)
        row = self.row_number(position)
        depth = self._depth[row] if row is not None else 0
        text = cell_text(value, "text", ascii=self.ascii)
        indent = " " * min(2 * depth, max(placed.width - 14, 0))
        room = placed.width - len(indent) - 2
        if row is not None and not placed.column.tail and fitting.cell_width(text) > room:
            text = self._beside(row, placed.column.name, room).get(text, text)
        return f"{indent}{self._marker(row)} {text}", ""

    def _beside(self, row: int, column: str, room: int) -> dict[str, str]:
        """The names of a row and its siblings, cut so that no two look alike; none of very many siblings."""
        above = self._led_by(row)
        key = f"{column} below {above} in {room}"
        if key not in self._cut:
            rows = self._shown.get(above, ())
            names = self.frame[self._source(column)][list(rows)].to_list() if len(rows) <= NAMES_LIMIT else []
            texts = (cell_text(name, "text", ascii=self.ascii) for name in names)
            self._cut[key] = fitting.fit_apart(set(texts), room, ascii=self.ascii)
        return self._cut[key]

    def _marker(self, row: int | None) -> str:
        if row not in self._shown:
            return " "
        is_open = row in self.expanded or bool(self.filter)
        if self.ascii:
            return "-" if is_open else "+"
        return "▾" if is_open else "▸"

    def _widest(self, column: Field) -> int:
        widest = super()._widest(column)
        if self.folds and self.columns and column.name == self.columns[0].name:
            widest += 2 * max(self._depth, default=0) + 2
        return widest

    # --- folding

    def stand_on(self, row: int | None) -> bool:
        """Puts the cursor on a row, and expands its ancestors."""
        if self.folds and row is not None and not self.filter:
            above = self._led_by(row)
            while above >= 0:
                self.expanded.add(above)
                above = self._led_by(above)
            self._arrange()
        return super().stand_on(row)

    def _refold(self, row: int | None) -> None:
        self._arrange()
        super().stand_on(row)

    def action_expand(self) -> None:
        """Expands the row, or moves into it if it is already expanded."""
        row = self.row_number(self.cursor)
        if not self.folds or row not in self._shown:
            return
        if row in self.expanded:
            self.move_to(self.cursor + 1)
        else:
            self.expanded.add(row)
            self._refold(row)

    def action_collapse(self) -> None:
        """Collapses the row, or goes to its parent if it is already collapsed."""
        row = self.row_number(self.cursor)
        if not self.folds or row is None:
            return
        if row in self.expanded and row in self._shown:
            self.expanded.discard(row)
            self._refold(row)
        elif self._led_by(row) >= 0:
            self.stand_on(self._led_by(row))

    def action_fold(self) -> None:
        """Expands or collapses the row."""
        row = self.row_number(self.cursor)
        if self.folds and row in self._shown:
            self.expanded.symmetric_difference_update({row})
            self._refold(row)

    def action_expand_chain(self) -> None:
        """Expands the row and its only child, and so on, down to the first fork."""
        row = start = self.row_number(self.cursor)
        while self.folds and row is not None and row in self._shown:
            self.expanded.add(row)
            children = self._shown[row]
            row = children[0] if len(children) == 1 else None
        self._refold(start)

    def action_expand_all(self) -> None:
        """Expands the row and everything below it."""
        row = self.row_number(self.cursor)
        if not self.folds or row is None:
            return
        waiting = [row]
        while waiting:
            if (below := waiting.pop()) in self._shown:
                self.expanded.add(below)
                waiting += self._shown[below]
        self._refold(row)

    def action_collapse_all(self) -> None:
        """Collapses everything; the cursor goes to the root of its row."""
        row = self.row_number(self.cursor)
        if not self.folds:
            return
        while row is not None and self._led_by(row) >= 0:
            row = self._led_by(row)
        self.expanded.clear()
        self._refold(row)
