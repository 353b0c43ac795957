"""Modules: the tree of nn.Modules with host and GPU time down to operators and kernels; inside, their kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base import number_format
from tracetui.analysis.kernels import NOT_ATTRIBUTED
from tracetui.analysis.modules import modules
from tracetui.analysis.ranges import containing_rows
from tracetui.analysis.tables.program import MODULES
from tracetui.analysis.tree_kernels import module_tree_kernels, modules_to_kernels
from tracetui.app.charts.icicle import Box, IcicleTree
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
from tracetui.app.widgets.icicle import Icicle
from tracetui.app.widgets.lines import Line

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from tracetui.analysis.selection import Selection

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
