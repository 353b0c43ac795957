"""The base of tabs that are tables: drilling down and back, columns, names and details."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, cast

import polars as pl
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.tables.table import Field
from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.session import jobs
from tracetui.app.session.session import Arranged, Columns
from tracetui.app.tables import totals
from tracetui.app.text import fitting
from tracetui.app.text.names import Names
from tracetui.app.views.common.chart import ViewChart, table_chart
from tracetui.app.views.common.page import PARTS, Page, PageState, note_text
from tracetui.app.views.common.rows import RowsView
from tracetui.app.widgets.detail_pane import DetailPane
from tracetui.app.widgets.frame_table import FrameTable
from tracetui.app.widgets.lines import Line
from tracetui.app.widgets.list_screen import ListScreen
from tracetui.app.widgets.tree_table import TreeTable

WIDTH = 70
"""Cells of a line of the list."""


class ColumnChooser(ListScreen["tuple[frozenset[str], frozenset[str]]"]):
    """Space or Enter shows or hides a column, r takes all choices back, Esc closes.

    One that is asked for and has no room goes before others, which the list then marks. The result is the hidden
    columns, and those asked for in this way.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,c", "cancel", show=False),
        Binding("space", "switch", show=False),
        Binding("r", "reset", show=False),
    ]

    def __init__(self, table: FrameTable) -> None:
        super().__init__()
        self._columns = table.columns
        self._hidden, self._pinned = set(table.hidden), set(table.pinned)
        self._room_for = table.room_for
        self._ascii = table.ascii
        self._shown = table.room_for(self._hidden, self._pinned)

    def compose(self) -> ComposeResult:
        """A title and the list."""
        with Vertical(id="dialog"):
            title = "Columns: Space shows or hides, r takes all choices back, Esc closes"
            yield Static(title, markup=False, id="dialog-title")
            yield OptionList(*(Option(self._label(column), id=column.name) for column in self._columns), markup=False)

    def _label(self, column: Field) -> Text:
        mark = " " if column.name in self._hidden else "x" if column.name in self._shown else "-"
        remark = "no room; " if mark == "-" else "always; " if column is self._columns[0] else ""
        text = Text(f"[{mark}] {fitting.printable(column.label, ascii=self._ascii):<12} ", no_wrap=True)
        text.append(fitting.fit(remark + column.about, WIDTH - len(text), ascii=self._ascii))
        return text

    def _show(self) -> None:
        """Updates the mark of every column: showing one may push another out."""
        self._shown = self._room_for(self._hidden, self._pinned)
        options = self.query_one(OptionList)
        for index, column in enumerate(self._columns):
            options.replace_option_prompt_at_index(index, self._label(column))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Switches the column."""
        event.stop()
        if event.option_index == 0:
            return
        name = self._columns[event.option_index].name
        if name in self._shown or name in self._pinned:
            self._hidden.add(name)
            self._pinned.discard(name)
        else:
            self._hidden.discard(name)
            if name not in self._room_for(self._hidden, self._pinned):
                self._pinned.add(name)
        self._show()

    def action_reset(self) -> None:
        """Takes all choices back."""
        self._hidden = {column.name for column in self._columns if column.hidden}
        self._pinned.clear()
        self._show()

    def action_switch(self) -> None:
        """Switches the column under the cursor."""
        self.query_one(OptionList).action_select()

    def action_cancel(self) -> None:
        """Closes with the choice as result."""
        self.dismiss((frozenset(self._hidden), frozenset(self._pinned)))


WAITING = "Computing …"
NARROW = 60
BASE = 28
"""So much of a title is kept for what the numbers cover, before the breadcrumb has more."""

_WITH_FRAME = frozenset({"critical_path_stretches", "collective_calls", "lane_events"})
"""Pages whose rows name the frame that their event is in."""


class TableView(RowsView):
    """A table with a breadcrumb above it; Enter goes in, Esc comes back."""

    BINDINGS = commands.bindings("view")
    TABLES: ClassVar[tuple[str, ...]] = ()
    """The tables of this tab, where it has several; `kind` is the one in view."""
    ABOVE: ClassVar[bool] = False
    """Whether it has lines above its tables."""
    KEEPS_DETAIL: ClassVar[bool] = False
    """Whether the details are part of the page, so that Esc does not close them."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = self.TABLES[0] if self.TABLES else ""
        self._wanted: str | None = None
        self._making: Callable[[], Page] | None = None
        """The function that computes the page being opened."""

    def content(self) -> ComposeResult:
        """What stands above it, title, table, details."""
        if self.ABOVE:
            yield Static(id="above", markup=False)
        yield Line(id="title")
        yield TreeTable(id="table")
        yield DetailPane(id="detail")
        if self.TABLES:
            yield Static(id="tables", markup=False)

    def on_mount(self) -> None:
        """Applies choices made in other tabs; Textual then calls the handler of `View`."""
        self.table.ascii = self.session.ascii
        self.query_one("#title", Line).ascii = self.session.ascii
        self.table.names = self.session.names
        self.table.jump = self.host.low_bandwidth
        self.table.follow = self.follow_cursor

    # --- what a tab defines

    def root(self) -> Page:
        """Computes the tab's first page; runs in a thread."""
        raise NotImplementedError

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """Returns the function that computes, in a thread, what Enter on a row opens; None if nothing is inside."""
        return None

    def above(self, width: int, height: int) -> list[str]:
        """Lines above the tables, in a tab of this size; none where the table needs the room."""
        return []

    def members(self, page: Page, row: Mapping[str, Any], kind: str) -> Page | None:
        """The operators or modules of a row as a page."""
        return None

    # --- pages

    @property
    def detail(self) -> DetailPane:
        """The detail pane."""
        return self.query_one(DetailPane)

    def analyse(self) -> Page:
        """The root page."""
        return self.root()

    def show(self, result: Page) -> None:
        """Starts over from the root page."""
        self._stack.clear()
        self._push(result)
        if self.session.filter and self.shares_filter:
            self.apply_filter()
        self._find_wanted()

    def reload(self) -> None:
        """Recomputes the numbers, for another run or range; pages keep their chosen order."""
        self.session.sorts.update({page: sort for page, sort in self.sorts().items() if sort is not None})
        self._stack.clear()
        super().reload()

    def show_inner(self, result: Page) -> None:
        """Goes into a page."""
        self.host.leave()
        self._push(result, self._making)
        self._making = None
        self.call_after_refresh(self.take_focus)

    def _push(self, page: Page, again: Callable[[], Page] | None = None) -> None:
        self._remember()
        self._stack.append(PageState(page, sort=self.session.sorts.get(page.id), again=again))
        self._show_page()

    def _remember(self) -> None:
        if self.state is not None:
            self.state.cursor = self.table.cursor
            self.state.sort = None if self.table.stands else self.table.sort
            self.state.expanded = frozenset(self.table.expanded)

    def _show_page(self) -> None:
        state = self.state
        if state is None:
            return
        page = state.page
        self.blank(page.empty or f"No {page.noun} here." if not page.frame.height else "")
        self.host.configure_columns(page.id, page.columns)
        self.table.per_call = page.unit == totals.WORDS["call"]
        self.table.plant(page.frame, expanded=state.expanded)
        self.table.load(
            page.frame,
            page.columns,
            sort=state.sort,
            order=page.sort,
            filter=state.parsed,
            hidden=self.session.hidden.get(page.id),
            pinned=self.session.pinned.get(page.id, ()),
            cursor=state.cursor,
        )
        self.mark_comments()
        self.show_title()
        self._draw_above()
        self.host.refresh_lines()

    def _draw_above(self) -> None:
        if self.ABOVE and self.size.width:
            lines, above = self.above(*self.size), self.query_one("#above", Static)
            above.update("\n".join(lines))
            above.display = bool(lines)

    def mark_comments(self) -> None:
        """Marks the rows of the page in view that have comments, which the details show."""
        super().mark_comments()
        if self.detail.display:
            self.call_after_refresh(self._show_detail)

    def show_title(self) -> None:
        """Updates the title above the table: where one is, what the numbers cover, which row of how many."""
        state = self.state
        if state is None:
            return
        # a breadcrumb of long kernel names keeps its ends: where one came from, and where one is
        titles = [*(s.page.crumb or s.page.title for s in self._stack[:-1]), state.page.title]
        crumbs = list(map(fitting.printable, titles))
        unit = f", {state.page.unit}" if state.page.unit else ""
        base = state.page.total or state.page.note.partition(PARTS)[0]
        kept = max(min(fitting.cell_width(base), BASE) + 2, 4)
        rows = self.table.height_of_view
        place = self._without + (f"{min(self.table.cursor + 1, rows):,}/{rows:,} " if rows else "")
        others = max(len(place), 6) + kept + 3 * len(crumbs) + len(unit)
        crumb = " › ".join(fitting.fit_all(crumbs, self.size.width - others)) + unit
        own = self.host.own
        # with two runs open, tabs that show only one say which
        side = "A: " if "b" in self.session.runs and not self.COMPARES else ""
        left = Text(f" {side}{own(crumb)}", "bold")
        room = self.size.width - left.cell_len - len(place) - 3
        page = state.page
        if page.total and not page.unit and rows < page.frame.height:
            part = format_ns(int(self.table.view()["total_ns"].sum()))
            shown = (text.replace(page.total, f"{part} of {page.total}") for text in (page.note, page.brief))
            page = replace(page, note=next(shown), brief=next(shown), total=f"{part} of {page.total}")
        if said := note_text(page, self.comment, room, ascii=self.session.ascii):
            left.append(own(f"  {said}"), "not bold")
        self.query_one("#title", Line).show(left, place)

    @property
    def _without(self) -> str:
        """How many columns were switched off, here or over another recording, and the key that lists them."""
        gone = sum(column.name in self.table.hidden and not column.hidden for column in self.table.columns)
        if not gone or self.has_class("-blank"):
            return ""
        what = f"{gone} columns" if gone > 1 else "1 column"
        return f"{what if self.size.width >= NARROW else gone} hidden ({commands.key('table.columns')})  "

    def on_frame_table_moved(self, event: FrameTable.Moved) -> None:
        """Follows the cursor, or the rows that have changed."""
        event.stop()
        self.follow_cursor()

    def follow_cursor(self) -> None:
        """Shows what goes with the row under the cursor: its place, its details."""
        self.show_title()
        if self.detail.display:
            self._show_detail()

    def on_frame_table_activated(self, event: FrameTable.Activated) -> None:
        """Treats a double click as Enter."""
        event.stop()
        self.action_drill()

    def on_resize(self) -> None:
        """Cuts the breadcrumb anew, and draws anew what stands above."""
        self.show_title()
        self._draw_above()

    def focus_content(self) -> None:
        """Focuses the table."""
        self.table.focus()

    def footer_labels(self) -> dict[str, str]:
        """Returns labels that say what Enter and Esc do here."""
        state = self.state
        labels: dict[str, str] = {}
        self.table.empty_text = (
            f"No {state.page.noun} match the filter: {commands.key('go.back')} clears it" if state is not None else ""
        )
        if self.has_class("-blank"):
            labels = {c.id: "" for c in commands.COMMANDS if c.where in ("view", "table", "tree")}
            if len(self._stack) > 1:
                labels["go.back"] = "back"
            if state is not None and not state.page.alone:
                labels["table.next"] = self._table_place
        elif state is not None:
            labels["go.in"] = "open or close" if self.table.on_group else state.page.inside or "details"
            frame = state.page.frame
            timed = "at_ns" in frame.columns and frame["at_ns"].null_count() < frame.height
            launched = state.page.id in ("launches", "host_launches", "collective_calls") and timed
            if launched or state.page.id == "arrivals_of_one":  # ncu knows durations only
                labels["go.timeline"] = "timeline"
            if state.page.id == "kernels":
                known = {column.name for column in state.page.columns}
                labels["go.modules"] = "modules" if "module" in known else "ranges" if "range" in known else ""
                labels["go.lines"] = "lines" if "line" in known else ""
            if len(self._stack) == 1:
                labels["table.next"] = self._table_place
            if state.page.inside == "":
                labels["table.detail"] = ""
            if self.detail.display and not self.KEEPS_DETAIL:
                labels["go.back"] = "close"
                labels["go.in"] = labels["go.in"].removesuffix("details")
            elif len(self._stack) > 1 and not state.filter:  # the filter's own line says that Esc clears it
                labels["go.back"] = "back"
            elif self.host.came_from_finding:
                labels["go.back"] = "the finding"
            elif self.host.came_by_jump and not state.filter:
                labels["go.back"] = "back"
            if not self.table.folds:
                labels["tree.toggle"] = ""
        return labels

    # --- the tables of a tab

    @property
    def tables(self) -> tuple[str, ...]:
        """Returns those of `TABLES` that the run has something for."""
        return self.TABLES

    @property
    def _table_place(self) -> str:
        """Which of the tables is in view, ``table 3/5``; empty where there is one."""
        there = self.tables
        place = f"table {there.index(self.kind) + 1}/{len(there)}" if self.kind in there else "tables"
        return place if len(there) > 1 else ""

    def action_show_table(self, kind: str) -> None:
        """Shows a table of this tab."""
        if kind in self.TABLES and "a" in self.session.runs:
            self.kind = kind
            self.reload()

    def action_next_table(self, step: int = 1) -> None:
        """Shows the next or previous table of this tab, and the list of all until another key is pressed."""
        if "a" not in self.session.runs:
            return
        there = self.tables
        alone = self.has_class("-blank") and self.state is not None and self.state.page.alone
        if alone or len(there) < 2:
            self.host.say("The other tables of this tab are empty too" if alone else "This tab has one table")
            return
        at = (there.index(self.kind) + step) % len(there) if self.kind in there else 0
        self.action_show_table(there[at])
        if self.kind == there[at] and len(there) > 2:  # of two, the title says which it is
            listed = ", ".join(f"[{table}]" if table == self.kind else table for table in there)
            shown = self.query_one("#tables", Static)
            shown.update(f"{tabs.TITLES[self.TAB]}: {listed}")
            shown.display = True

    def uses_up(self, key: str) -> bool:
        """Closes the list of tables on a key that goes to no other; Esc does nothing else then."""
        shown = self.query("#tables")
        if not any(part.display for part in shown):
            return False
        command = commands.meant(key, self.TAB)
        if command is not None and command.id in ("table.next", "table.previous"):
            return False
        shown.set(display=False)
        return key == "escape"

    # --- in and out

    def action_drill(self) -> None:
        """Opens the rows that the row stands for, what is inside it, or its details."""
        if self.table.on_group:
            self.table.action_fold()
            return
        state, row = self.state, self.table.current
        if state is None or row is None:
            self.host.say("There are no rows here")
            return
        work = self.inside(state.page, row)
        if work is None:
            self.action_detail()
            return
        self.host.say(WAITING)
        self._making = work
        self._compute("inner", work)

    def action_back(self) -> None:
        """Closes the details, else goes back to the finding, else closes the filter, the page; else stops reading."""
        state = self.state
        if self.awaits_inner:
            self._computing = ""
            self.host.unsay(WAITING)
        elif self.detail.display and not self.KEEPS_DETAIL:
            self.action_detail()
        elif state is None:
            self.app.call_later(self.host.stop_loading)
        elif len(self._stack) == 1 and self.host.came_from_finding:
            self.app.call_later(self.host.come_back, only_here=True)
            return
        elif state.filter:
            self._set_filter("")
            self.app.call_later(self.host.went_back)
        elif len(self._stack) > 1:
            self._computing = ""
            self._stack.pop()
            self._show_page()
            self.app.call_later(self.host.went_back)
            self.call_after_refresh(self.take_focus)
        else:
            self.app.call_later(self.host.stop_loading)
        self.host.refresh_lines()

    def action_detail(self) -> None:
        """Shows or hides the details of the row."""
        self.detail.display = not self.detail.display
        self._draw_above()
        if self.detail.display:
            self.call_after_refresh(self._show_detail)
        self.host.refresh_lines()

    def action_timeline(self) -> None:
        """Shows the launch in the timeline."""
        state, row = self.state, self.table.current
        if state is None or row is None:
            return
        if state.page.id == "launches":
            self.app.call_later(self.host.show_in_timeline, "device", cast("int", row["row"]))
        elif state.page.id == "iterations":
            self.app.call_later(self.host.show_in_timeline, "steps", cast("int", row["row"]))
        elif state.page.id in _WITH_FRAME and cast("int", row["row"]) >= 0:
            self.app.call_later(self.host.show_in_timeline, str(row["frame"]), cast("int", row["row"]))
        elif state.page.id in ("gaps", "gap_causes") and self.table.on_group:
            self.host.say(f"This row is of several places: {commands.key('go.in')} shows them")
        elif state.page.id in ("gaps", "gap_causes"):
            start = cast("int", row["start"])
            lasting = cast("int", row.get("longest_ns", row["duration_ns"]))
            self.app.call_later(self.host.show_gap, cast("int | None", row["device"]), start, start + lasting)
        elif state.page.id == "host_launches":
            host = self.session.trace().host
            called = (host["start"] == row["start"]) & (host["name"].cast(pl.String) == row["api"])
            self.app.call_later(self.host.show_in_timeline, "host", int(called.arg_true()[0]))
        else:
            here, inside = commands.key("go.timeline"), commands.key("go.in")
            self.host.say(f"{here} shows a launch in the timeline: {inside} on a kernel opens its launches")

    def _show_detail(self) -> None:
        self.detail.show(self.table.current, self.table.columns, comment=self.comment, ascii=self.session.ascii)

    def action_scroll_detail(self, lines: int) -> None:
        """Scrolls the details."""
        if not self.detail.display:
            self.host.say(f"The details are closed: {commands.key('table.detail')} opens them")
        self.detail.scroll_relative(y=lines, animate=False)

    def action_members(self, kind: str) -> None:
        """Shows the modules or operators of the row as a page."""
        state, row = self.state, self.table.current
        if state is None or row is None:
            return
        page = self.members(state.page, row, kind)
        if page is None:
            self.host.say(f"Nothing is known about the {kind} of this row")
        else:
            self.show_inner(page)

    def chart(self) -> ViewChart | None:
        """The first rows in view as bars."""
        state = self.state
        svg = None if state is None or self.has_class("-blank") else table_chart(self.table)
        if state is None or svg is None:
            return None
        crumbs = " › ".join(one.page.title for one in self._stack)
        unit = f", {state.page.unit}" if state.page.unit else ""
        kept = f"filter {state.filter}" if state.filter else ""
        return ViewChart(f"{crumbs}{unit}", " · ".join(part for part in (state.page.note, kept) if part), svg)

    # --- places to go back to

    def forget_pages(self) -> None:
        """Lets the pages go that were opened, with their order."""
        self._stack.clear()

    def sorts(self) -> dict[str, tuple[str, bool] | None]:
        """The order of the pages in view, where it is not their own."""
        self._remember()
        return {state.page.id: state.sort for state in self._stack}

    def arranged(self) -> Arranged:
        """Returns order, own filter and columns of each page in view; the shared filter is the session's."""
        self._remember()
        return {
            (self.TAB, self.kind, at, state.page.id): (
                state.sort, state.filter if at or not self.shares_filter else "", self._chosen_columns(state.page),
            )
            for at, state in enumerate(self._stack)
        }  # fmt: skip

    def _chosen_columns(self, page: Page) -> Columns:
        usual = frozenset(column.name for column in page.columns if column.hidden)
        return self.session.hidden.get(page.id, usual), self.session.pinned.get(page.id, frozenset())

    def place(self) -> tuple[str, tuple[PageState, ...]]:
        """The table of this tab, and the pages down to the one in view, each with its filter, order and cursor."""
        self._remember()
        return self.kind, tuple(map(copy, self._stack))

    def weight(self, place: tuple[str, tuple[PageState, ...]]) -> int:
        """Returns the number of rows of all pages but the first, which the tab keeps anyway."""
        return sum(state.page.frame.height for state in place[1][1:])

    def is_at(self, place: tuple[str, tuple[PageState, ...]]) -> bool:
        """Returns whether these pages are in view; their cursors don't matter."""
        kind, states = place
        here, there = ([(id(state.page), state.filter) for state in of] for of in (self._stack, states))
        return kind == self.kind and here == there

    def restore(self, place: tuple[str, tuple[PageState, ...]]) -> None:
        """Goes back to pages that were in view."""
        kind, states = place
        if not states:
            return
        self._computing, self._wanted = "", None
        self.kind = kind
        self._stack = list(map(copy, states))
        self._show_page()
        self.keep_columns(self._stack[-1].page.id)
        self.call_after_refresh(self.take_focus)

    # --- columns and names

    def action_columns(self) -> None:
        """Lets the person switch columns on and off."""
        state = self.state
        if state is None:
            return

        def done(choice: Columns | None) -> None:
            if choice is not None and choice != before:
                self.session.hidden[state.page.id], self.session.pinned[state.page.id] = choice
                self.table.choose_columns(hidden=choice[0], pinned=choice[1])
                self.keep_columns(state.page.id)

        table = self.table
        before = (table.hidden, table.pinned)
        self.app.push_screen(ColumnChooser(table), done)

    def keep_columns(self, page: str) -> None:
        """Keeps which columns of a page are shown for the next start."""
        self.host.keep_columns(page, self.table.columns)

    def action_names(self) -> None:
        """Switches from short to full names, and then to raw ones if the file has different ones, in all tabs."""
        raw = self.table.knows_raw_names
        following: dict[Names, Names] = {"short": "full", "full": "raw" if raw else "short"}
        self.session.names = following.get(self.session.names, "short")
        self.table.set_names(self.session.names)
        self.host.keep("names", self.session.names)
        words = {"short": "Short names", "full": "Full names", "raw": "Raw names, as the file has them"}
        self.host.say(words[self.session.names])

    def revisit(self) -> None:
        """Applies changes made since the last visit; called when the tab comes into view again."""
        if self.table.names != self.session.names:
            self.table.set_names(self.session.names)
        self.apply_filter()
        self.show_title()

    def columns_about(self) -> list[tuple[str, str]]:
        """Titles and meanings of the columns of the page in view."""
        return [(column.label, column.about) for column in self.table.columns]

    def go_to(self, name: str) -> None:
        """Back to the root page, and there to the row of this name; a filter that hides it is cleared."""
        self._wanted = name
        if self._stack:
            self._find_wanted()

    def open_at(self, table: str, name: str) -> None:
        """One of the tables on its root page, filtered as the session says, the cursor on the row of this name."""
        kind = table or (self.TABLES[0] if self.TABLES else "")
        self._wanted = name or None
        if kind in self.TABLES and kind != self.kind:
            self.kind = kind
            if self.is_mounted:
                self.reload()
        elif self._stack:
            del self._stack[1:]
            self._stack[0].cursor = 0
            self._show_page()
            self.apply_filter()
            self._find_wanted()

    def _find_wanted(self) -> None:
        name, self._wanted = self._wanted, None
        if name is None or not self._stack:
            return
        while len(self._stack) > 1:
            self._stack.pop()
        self._show_page()
        page = self._stack[0].page
        rows = pl.Series(dtype=pl.UInt32)
        # a tree's rows are known by their paths, but a finding may speak of a name
        for key in (page.key, "name"):
            if key in page.frame.columns and not rows.len():
                rows = (page.frame[key].cast(pl.String) == name).arg_true()
        if not rows.len():
            self.host.say(f"{name} is not among these {page.noun}")
        elif not self.table.stand_on(rows[0]):
            self._set_filter("")
            self.table.stand_on(rows[0])
        self.call_after_refresh(self.take_focus)

    def on_job_done(self, event: jobs.JobDone[object]) -> None:
        """Removes the message about waiting; Textual then calls the handler of `View`."""
        self.host.unsay(WAITING)
