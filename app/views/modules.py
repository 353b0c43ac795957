"""Modules: the tree of nn.Modules with host and GPU time down to operators and kernels; inside, their kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import polars as pl
from rich.segment import Segment
from textual.app import ComposeResult
from textual.events import Click
from textual.message import Message
from textual.strip import Strip

from tracetui.analysis.base import number_format
from tracetui.analysis.kernels import NOT_ATTRIBUTED
from tracetui.analysis.modules import modules
from tracetui.analysis.ranges import containing_rows
from tracetui.analysis.selection import Selection
from tracetui.analysis.tables.program import MODULES
from tracetui.analysis.tree_kernels import module_tree_kernels, modules_to_kernels
from tracetui.app.charts.icicle import Box, IcicleTree, Node, box_runs, layout
from tracetui.app.keys import commands
from tracetui.app.keys.commands import key
from tracetui.app.session.measured import conventions
from tracetui.app.text import fitting
from tracetui.app.text.names import tell_work_apart
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import nothing
from tracetui.app.views.common.counted import CountedView, in_units
from tracetui.app.views.common.page import Page
from tracetui.app.views.kernel_pages import tree_page
from tracetui.app.views.kernels import PicturedView
from tracetui.app.widgets.lines import Line
from tracetui.app.widgets.painted import Painted

MOST_LEVELS = 64
TWO_LINES = 2
"""Lines of a level where there is room: the second one says the time."""


class Icicle(Painted, can_focus=True):
    """Boxes as wide as their share; the keys of tables and trees work on the boxes."""

    BINDINGS: ClassVar = [*commands.bindings("table"), *commands.bindings("tree")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "icicle--box", "icicle--base", "icicle--rest", "icicle--selected", "icicle--gap",
    }  # fmt: skip

    class Moved(Message):
        """The cursor is on another box."""

    class Activated(Message):
        """A box was double-clicked."""

    class Refused(Message):
        """The user asked for a sort order or an expansion, which an icicle does not have."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.source = IcicleTree([], [], {})
        self.ascii = False
        self.time: Callable[[Node], str] = lambda node: ""
        """What stands in the second line of a box."""
        self.way: list[Box] = []
        """The boxes zoomed into, the outermost first."""
        self._ways: list[list[Box]] = []
        """What was zoomed into before."""
        self.levels: list[list[Box]] = []
        self.level, self.place = 0, 0
        """Where the cursor is: which level, which box of it."""
        self.top = 0
        self._laid_out = 0

    # --- what is shown

    def load(self, tree: IcicleTree, *, stand_on: int | None = None) -> None:
        """Shows another tree, the cursor on the box of a row."""
        self.source = tree
        self.way, self._ways = [], []
        self._lay_out()
        self.stand_on(stand_on)

    @property
    def current(self) -> Box | None:
        """The box under the cursor."""
        if self.level < len(self.levels) and self.place < len(self.levels[self.level]):
            return self.levels[self.level][self.place]
        return None

    @property
    def base(self) -> float:
        """Returns the base of the shares: the box zoomed into, or all."""
        return self.way[-1].node.value if self.way else self.source.total

    def stand_on(self, row: int | None) -> None:
        """Puts the cursor on the box that shows a row, the nearest one that holds it."""
        way = self.source.way_to(row) if row is not None else []
        self._stand_on_last(0, lambda box: any(wanted in box.node.rows for wanted in way))

    def _stand_on_last(self, level: int, is_it: Callable[[Box], bool]) -> None:
        """Puts the cursor on the innermost of the boxes that fit, else on the first of a level."""
        self.level, self.place = level, 0
        for level, boxes in enumerate(self.levels):
            for place, box in enumerate(boxes):
                if is_it(box):
                    self.level, self.place = level, place
        self.moved()

    def _lay_out(self) -> None:
        self._laid_out = self.size.width
        nodes = [box.node for box in self.way]
        inside = self.source.inside(self.way[-1]) if self.way else self.source.roots

        def children(node: Node) -> list[Node]:
            return inside if nodes and node is nodes[-1] else self.source.children(node)

        roots, width = self.source.roots, max(self.size.width, 1)
        self.levels = layout(nodes, roots, children, width, MOST_LEVELS, total=self.source.total)

    def relay(self, rows: tuple[int, ...]) -> None:
        """Lays the boxes out anew, the cursor on the box of these rows."""
        self._lay_out()
        self._stand_on_last(max(len(self.way) - 1, 0), lambda box: bool(rows) and set(rows) <= set(box.node.rows))

    def moved(self) -> None:
        """Keeps the cursor in sight and repaints."""
        shown = max(self.size.height // self._lines, 1)
        self.top = min(max(self.top, self.level - shown + 1), self.level)
        self.refresh()
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        """Shares the new width."""
        box = self.current
        self.relay(box.node.rows if box is not None else ())

    # --- painting

    @property
    def _lines(self) -> int:
        """Lines of a level."""
        return TWO_LINES if len(self.levels) * TWO_LINES <= self.size.height else 1

    def render_line(self, y: int) -> Strip:
        """A level, or its second line."""
        width = self.size.width
        if width != self._laid_out:
            self._lay_out()
        number, line = divmod(y, self._lines)
        number += self.top
        if number >= len(self.levels):
            return Strip.blank(width, self.rich_style)
        chosen = self.current
        runs = box_runs(
            self.levels[number], self.base, width, chosen=chosen.node if chosen and number == self.level else None,
            above=number < len(self.way) - 1, second=self.time if line else None, ascii=self.ascii,
        )  # fmt: skip
        styles = {style: self.get_component_rich_style(f"icicle--{style}") for style in {run.style for run in runs}}
        return Strip([Segment(run.text, styles[run.style]) for run in runs]).adjust_cell_length(width)

    # --- moving

    def action_move(self, levels: int) -> None:
        """To the box around this one, or to the largest one inside it."""
        here, level = self.current, self.level + levels
        if here is None or not 0 <= level < len(self.levels):
            return
        middle = here.start + here.width // 2
        for place, box in enumerate(self.levels[level]):
            inside = here.start <= box.start < here.start + here.width
            around = box.start <= middle < box.start + box.width
            if inside if levels > 0 else around:
                self.level, self.place = level, place
                self.moved()
                return

    def action_expand(self) -> None:
        """To the next box of the level."""
        self._beside(1)

    def action_collapse(self) -> None:
        """To the box before."""
        self._beside(-1)

    def _beside(self, step: int) -> None:
        if self.levels and 0 <= self.place + step < len(self.levels[self.level]):
            self.place += step
            self.moved()

    def action_goto(self, position: int) -> None:
        """To the first level, or the last."""
        if self.levels:
            self.level = 0 if position >= 0 else len(self.levels) - 1
            self.place = 0
            self.moved()

    def action_page(self, pages: int) -> None:
        """To the first level, or the last."""
        self.action_goto(-1 if pages > 0 else 0)

    action_half_page = action_page  # an icicle is seldom deeper than the screen

    def action_fold(self) -> None:
        """Shows the instances of a box apart, or together again."""
        box = self.current
        if box is None or len(box.node.group) < 2:
            return
        group = box.node.group
        rows = box.node.rows[:1] if group[0] not in self.source.apart else group
        self.source.apart ^= set(group)
        if any(not way.hidden and set(group) & set(way.node.rows) for way in self.way):
            self.way, self._ways = [], []
        self.relay(rows)

    def zoom(self) -> bool:
        """Gives the box under the cursor the whole width; whether there was something inside."""
        box = self.current
        if box is None or not self.source.inside(box) or (self.way and self.level == len(self.way) - 1):
            return False
        self._ways.append(self.way)
        self.way = self.way[: self.level + 1] if self.level < len(self.way) else [*self._around(box), box]
        self._lay_out()
        if box.hidden and [one.hidden for one in self.levels[len(self.way)]] == [box.hidden]:
            self.out()
            return False
        self.level, self.place = len(self.way) - 1, 0
        self.moved()
        return True

    def _around(self, box: Box) -> list[Box]:
        """Returns the boxes around a box, starting with those zoomed into."""
        found = list(self.way)
        for boxes in self.levels[len(self.way) : self.level]:
            found += [one for one in boxes if one.start <= box.start < one.start + one.width]
        return found

    def out(self) -> bool:
        """Undoes the last zoom; returns whether there was one."""
        if not self._ways:
            return False
        left = self.way[-1].node.rows
        self.way = self._ways.pop()
        self.relay(left)
        return True

    def action_collapse_all(self) -> None:
        """Zooms out altogether."""
        if self._ways:
            rows = self.way[-1].node.rows
            self.way, self._ways = [], []
            self.relay(rows)

    def _refuse(self, *_: object) -> None:
        """Nothing is folded here, and there is one order."""
        self.post_message(self.Refused())

    action_expand_chain = action_expand_all = action_sort_by = action_reverse = _refuse

    def on_click(self, event: Click) -> None:
        """Puts the cursor on the box; twice zooms in."""
        level = event.y // self._lines + self.top
        if level >= len(self.levels):
            return
        for place, box in enumerate(self.levels[level]):
            if box.start <= event.x < box.start + box.width:
                self.level, self.place = level, place
                self.moved()
                if event.chain == 2:
                    self.post_message(self.Activated())


TREES = ("modules", "range_tree")
"""The ids of pages that are trees."""


class IcicleView(PicturedView):
    """A view whose trees can be seen as icicles."""

    def __init__(self) -> None:
        super().__init__()
        self._as_icicle = False
        self._grown: tuple[object, ...] = ()
        """The input of the icicle in view."""
        self._expanded: set[int] = set()
        """The rows that were expanded in the table."""
        self._led: int | None = None
        """The row that the hidden table's cursor was last moved to."""

    def content(self) -> ComposeResult:
        """The icicle and its line, in the table's place."""
        yield from super().content()
        yield Icicle(id="icicle")
        yield Line(id="box")

    @property
    def icicle(self) -> Icicle:
        """The icicle."""
        return self.query_one(Icicle)

    @property
    def shows_icicle(self) -> bool:
        """Returns whether the icicle is shown in place of the table."""
        return self._as_icicle and self.state is not None and self.state.page.id in TREES and self.table.folds

    def action_picture(self) -> None:
        """Shows the tree as an icicle, or as a table again."""
        if self.state is None or self.state.page.id not in TREES:
            super().action_picture()
            return
        if not self._as_icicle and getattr(self, "per", "total") == "call":
            self.host.say(f"Times per call can't be added up in an icicle: {key('table.units')} goes back to totals")
            return
        table = self.table
        if self._as_icicle:
            self._as_icicle = False
            table.expanded = set(self._expanded)
            box = self.icicle.current
            self._arrange_icicle()
            table.stand_on(box.node.rows[0] if box is not None else table.row_number(table.cursor))
        else:
            self._as_icicle = True
            self._expanded = set(table.expanded)
            self._arrange_icicle()
        self.focus_content()
        self.host.refresh_lines()

    def _show_page(self) -> None:
        super()._show_page()
        self._grown = ()
        self._expanded = set(self.table.expanded)
        self._arrange_icicle()

    def follow_cursor(self) -> None:
        """Updates the icicle for a new filter or row."""
        super().follow_cursor()
        if self.shows_icicle:
            self._grow()
            row = self.table.row_number(self.table.cursor)
            if row is not None and row != self._led and not self.table.on_group:
                self._led = row
                self.icicle.stand_on(row)

    def show_title(self) -> None:
        """Updates the title above the table or the icicle."""
        super().show_title()
        if self.shows_icicle:
            title = self.query_one("#title", Line)
            title.show(title.left)  # the place in the table says nothing here

    def _arrange_icicle(self) -> None:
        on = self.shows_icicle
        self.table.display = not on
        self.icicle.display = on
        self.query_one("#box", Line).display = on
        if on:
            self._grow()

    def _grow(self) -> None:
        """Makes the icicle from the rows that the filter keeps, unless it is up to date."""
        state, table = self.state, self.table
        made_from = (state, state and state.filter)
        if state is None or self._grown == made_from:
            return
        self._grown = made_from
        frame = state.page.frame
        names = frame["label" if "label" in frame.columns else "name"].cast(str).fill_null("").to_list()
        kept = table.kept_rows()
        icicle = self.icicle
        icicle.ascii = self.query_one("#box", Line).ascii = self.session.ascii
        values = _values(frame)
        icicle.time = lambda node: number_format.format_ns(node.value, ascii=self.session.ascii)
        tree = IcicleTree.of(names, frame["depth"].to_list(), values, kept=kept, ascii=self.session.ascii)
        self._led = table.row_number(table.cursor)
        icicle.load(tree, stand_on=self._led)

    def on_icicle_moved(self, event: Icicle.Moved) -> None:
        """Describes the box, and moves the hidden table's cursor to its row, which details and copies use."""
        event.stop()
        box, state = self.icicle.current, self.state
        if state is None or not self.shows_icicle:
            return
        if box is None:
            self.query_one("#box", Line).show(" Nothing here matches the filter" if state.filter else "")
            return
        self.query_one("#box", Line).show(f" {self._box_text(box, state.page)}")
        self._led = box.node.rows[0]
        if self.table.row_number(self.table.cursor) != self._led:
            self.table.stand_on(self._led)

    def _box_text(self, box: Box, page: Page) -> str:
        ascii = self.session.ascii
        node, icicle = box.node, self.icicle
        total = icicle.source.total
        what = _what(page.frame)
        parts = [f"{number_format.format_ns(node.value, ascii=ascii)} {what}"]
        parts.append(f"{number_format.format_percent(100 * node.value / total)} of all" if total else "")
        if icicle.way and icicle.base and node != icicle.way[-1].node:
            share = number_format.format_percent(100 * node.value / icicle.base)
            parts.append(f"{share} of {icicle.way[-1].node.name}")
        inside = sum(child.value for child in icicle.source.inside(box))
        if inside and not box.hidden:
            parts.append(f"{number_format.format_ns(max(node.value - inside, 0), ascii=ascii)} its own")
        if box.hidden:
            parts.append(f"too small here: {key('go.in')} zooms in")
        elif node.group and len(node.group) > 1:
            parts.append(f"{key('tree.toggle')}: " + ("together" if node.group[0] in icicle.source.apart else "apart"))
        name = node.name if box.hidden or len(node.rows) > 1 else str(page.frame["path"][node.rows[0]])
        room = max(self.size.width - 4 - sum(len(part) + 3 for part in parts), 12)
        name = fitting.fit(fitting.printable(name, ascii=ascii), room, ascii=ascii, keep_end=True)
        return self.host.own(" · ".join([name, *filter(None, parts)]))

    def on_icicle_activated(self, event: Icicle.Activated) -> None:
        """A double click zooms in."""
        event.stop()
        self.action_drill()

    def on_icicle_refused(self, event: Icicle.Refused) -> None:
        """Says which keys to use instead."""
        event.stop()
        apart, back = key("tree.toggle"), key("table.picture")
        self.host.say(f"The largest is first here: {key('go.in')} zooms, {apart} shows instances, {back}: table")

    def action_drill(self) -> None:
        """Zooms into the box; in a table, opens what is inside the row."""
        if self.shows_icicle:
            box = self.icicle.current
            if not self.icicle.zoom():
                why = "Too many for this width" if box is not None and box.hidden else "Nothing is inside"
                self.host.say(f"{why}: {key('table.picture')} goes to this row of the table")
            self.host.refresh_lines()
        else:
            super().action_drill()

    def action_back(self) -> None:
        """Undoes the last zoom, else goes back to the table; in the table, goes back as usual."""
        if not self.shows_icicle or self.detail.display:
            super().action_back()
        elif self.icicle.out():
            self.host.refresh_lines()
        elif (self.state is not None and self.state.filter) or self.host.came_from_finding:
            super().action_back()
        else:
            self.action_picture()

    def action_sort(self) -> None:
        """Asks for the column to sort by; an icicle has one order."""
        if self.shows_icicle:
            self.icicle.action_sort_by(1)
        else:
            super().action_sort()

    def focus_content(self) -> None:
        """Focuses the icicle if it is shown."""
        if self.shows_icicle:
            self.icicle.focus()
        else:
            super().focus_content()

    def footer_labels(self) -> dict[str, str]:
        """Other words where the icicle is."""
        labels = super().footer_labels()
        if self.state is None or self.has_class("-blank") or self.state.page.id not in TREES:
            return labels
        labels["table.picture"] = "table" if self.shows_icicle else "icicle"
        if self.shows_icicle:
            labels |= {"go.in": "zoom", "tree.toggle": "instances", "sort.choose": "", "table.names": ""}
            if self.icicle.way and not self.detail.display:  # which Esc closes first
                labels["go.back"] = "zoom out"
            elif "go.back" not in labels and not self.state.filter:
                labels |= {"go.back": "table", "table.picture": ""}
        return labels


def _values(frame: pl.DataFrame) -> list[float | None]:
    """Returns GPU time including the backward pass; host time for programs without a GPU."""
    if not frame["device_total_ns"].sum():
        return list(frame["host_total_ns"])
    values = frame["device_total_ns"]
    if "backward_device_ns" in frame.columns:
        values = values + frame["backward_device_ns"].fill_null(0)
    return list(values)


def _what(frame: pl.DataFrame) -> str:
    if not frame["device_total_ns"].sum():
        return "of host time"
    both = "backward_device_ns" in frame.columns and bool(frame["backward_device_ns"].sum())
    return "of GPU time, both passes" if both else "of GPU time"


TRAINING_COLUMNS = tuple(
    replace(column, priority=0 if column.name == "backward_device_ns" else column.priority)
    for column in MODULES.columns
)
"""The columns if GPU work belongs to a backward pass, which runs outside the modules' calls."""
INFERENCE_COLUMNS = tuple(column for column in MODULES.columns if column.name != "backward_device_ns")
HOST_COLUMNS = tuple(
    column
    for column in MODULES.columns
    if not column.name.startswith(("device", "backward", "percent", "kernels", "occupancy", "tensor"))
)
"""The columns if nothing ran on a GPU."""


class ModulesView(CountedView, IcicleView):
    """The module tree; the tree of ranges beside it, or in its place where the trace has no modules."""

    TAB = "modules"
    TABLES = ("modules", "ranges")

    def root(self) -> Page:
        """The tree of all modules in scope, or that of all ranges."""
        selection = self.session.counted()
        has_modules, has_ranges = self._known
        if self.kind == "ranges" and has_ranges:
            return tree_page(self.session, "Ranges as a tree")
        if not has_modules and has_ranges:
            ranges = WORDS[selection.trace.info.kind].ranges
            return tree_page(self.session, f"{ranges} (no nn.Module in this trace)", ranges)
        frame = self._modules()
        work = selection.timed.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
        total = int(work["duration"].sum())
        if not has_modules:
            frame = frame.clear()
        trains = bool(frame["backward_device_ns"].sum())
        both = pl.sum_horizontal("device_total_ns", "backward_device_ns")
        share = (both / total * 100) if total else pl.lit(None, dtype=pl.Float64)
        base = f"% of all GPU time{', both passes' if trains else ''}"
        frame = self._to_kernels() if total and has_modules else frame.with_columns(row_kind=pl.lit("module"))
        page = Page.of(
            MODULES,
            frame.with_columns(share.alias("percent")),
            columns=(TRAINING_COLUMNS if trains else INFERENCE_COLUMNS) if total else HOST_COLUMNS,
            note=f"{selection.describe_totals()} · {base if total else 'no GPU work in this trace'}",
            noun="modules and kernels" if total and has_modules else MODULES.noun,
            empty=nothing("modules", selection.trace.info.kind),
        )
        return in_units(self.session, page)

    def _modules(self) -> pl.DataFrame:
        return self.session.of_counted("modules", lambda counted: modules(counted, conventions(self.session)))

    def _to_kernels(self) -> pl.DataFrame:
        """The modules with the operators and kernels below them."""

        def work(counted: Selection) -> pl.DataFrame:
            work = module_tree_kernels(counted, conventions(self.session))
            return tell_work_apart(modules_to_kernels(self._modules(), work))

        return self.session.of_counted("modules to kernels", work)

    @property
    def _known(self) -> tuple[bool, bool]:
        """Whether the trace has modules, and whether it has ranges."""
        own = self._modules()["path"].is_in(["", NOT_ATTRIBUTED])
        selection = self.session.selection()
        has_ranges = self.session.cached("has_ranges", lambda: containing_rows(selection.trace.host).size > 0)
        return not own.all(), has_ranges

    @property
    def tables(self) -> tuple[str, ...]:
        """Returns the trees that this trace has."""
        return tuple(tree for tree, known in zip(self.TABLES, self._known, strict=True) if known)
