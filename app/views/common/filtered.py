"""Filters the page in view as the user types, shows the filter line, and sorts by a column that is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.app import tabs
from tracetui.app.tables import filters
from tracetui.app.text import fitting
from tracetui.app.text.fitting import fit
from tracetui.app.views.common.saving import SavingView
from tracetui.app.widgets.prompt import FILTER_HINTS, Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.table import Field
    from tracetui.app.views.common.page import PageState
    from tracetui.app.widgets.arranged import Arranged


def columns_named(columns: Sequence[Field], text: str) -> list[Field]:
    """Returns the columns that a text may mean, the likeliest first.

    Upper and lower case are the same. The whole title goes first, then a title that begins with the text, then a word
    of it that does, then a title that holds it, then one that has its letters in their order (``gt``: GPU total).

    Args:
        columns: in the order of the table; of equally good ones, the earlier goes first.
        text: as typed; an empty one means every column.
    """
    wanted = text.strip().lower()
    ranked = [(rank, column) for column in columns if (rank := _rank(column.label.lower(), wanted)) is not None]
    return [column for _, column in sorted(ranked, key=lambda each: each[0])]


def _rank(title: str, wanted: str) -> int | None:
    letters = ".*".join(map(re.escape, wanted.replace(" ", "")))
    forms = (
        title == wanted,
        title.startswith(wanted),
        any(word.startswith(wanted) for word in title.split()),
        wanted in title,
        re.search(letters, title) is not None,
    )
    return next((rank for rank, holds in enumerate(forms) if holds), None)


SORT_HINTS = (("Enter", "sort, again: reverse"), ("Esc", "cancel"), ("a part of a title", ""))


class FilteredView(SavingView):
    """A view with nested pages, the innermost in view, whose rows the user can filter and sort."""

    def __init__(self) -> None:
        super().__init__()
        self._stack: list[PageState] = []

    @property
    def shares_filter(self) -> bool:
        """Returns whether its first page uses the filter that all tabs share."""
        return tabs.OWN_FILTER not in tabs.BY_NAME[self.TAB].can

    @property
    def state(self) -> PageState | None:
        """The page in view."""
        return self._stack[-1] if self._stack else None

    def _show_title(self) -> None:
        """Updates the title above the table."""
        raise NotImplementedError

    def action_filter(self) -> None:
        """Opens the filter line."""
        if self.state is None:
            return
        before, place = self.state.filter, self.host.here()

        def keep(text: str) -> bool:
            kept = self._set_filter(text)
            if kept and text.strip() != before:
                self.host.leave(place)
            return kept

        self.host.ask(
            Question(
                "filter",
                "/",
                keep,
                before,
                changed=self._set_filter,
                cancelled=lambda: self._set_filter(""),
                hints=FILTER_HINTS,
            )
        )
        self._remark()

    def apply_filter(self) -> None:
        """Follows the session's filter on the root page."""
        if self.shares_filter and self._stack and self._stack[0].filter != self.session.filter:
            self._stack[0].filter = self.session.filter
            try:
                self._stack[0].parsed = filters.parse(self.session.filter)
                if len(self._stack) == 1:
                    self.table.set_filter(self._stack[0].parsed)
            except filters.FilterError as error:
                self._stack[0].parsed = filters.Filter()
                if len(self._stack) == 1:
                    self.table.set_filter(filters.Filter())
                    self.host.say(f"filter: {error}")
            self._show_title()

    def _set_filter(self, text: str) -> bool:
        """Filters the page in view; on the root page, all tabs."""
        state = self.state
        if state is None:  # the rows are computed anew, as for another rank
            if self.shares_filter:
                self.session.filter = text.strip()
            return True
        try:
            parsed = filters.parse(text)
            self.table.set_filter(parsed)
        except filters.FilterError as error:
            self.host.remark(f"{error}")
            return False
        state.filter, state.parsed = text.strip(), parsed
        if len(self._stack) == 1 and self.shares_filter:
            self.session.filter = state.filter
        self._remark()
        self._show_title()
        self.host.refresh_lines()
        return True

    def _remark(self) -> None:
        state = self.state
        if state is not None:
            self.host.remark(f"{self._matching} of {state.page.frame.height:,} {state.page.noun}")

    @property
    def _matching(self) -> str:
        """How many rows the filter keeps, which for a long table is not known at once."""
        return "…" if self.table.is_working else f"{self.table.matching:,}"

    def on_arranged_settled(self, event: Arranged.Settled) -> None:
        """Says how many rows a filter keeps."""
        event.stop()
        if self.host.asking:
            self._remark()
        self._show_title()
        self.host.refresh_lines()

    @property
    def filter_line(self) -> str:
        """Returns the filter of the page in view and how many rows it keeps."""
        state = self.state
        if state is None or not state.filter:
            return ""
        count = f"{self._matching} of {state.page.frame.height:,} {state.page.noun}"
        leads = "Esc goes back to the finding" if self.host.came_from_finding and not self.own_filter else "Esc clears"
        return f"/ {fitting.printable(state.filter)}   {count}   {leads}"

    @property
    def own_filter(self) -> bool:
        """Returns whether this is an inner page, since inner pages have filters of their own."""
        return len(self._stack) > 1 or not self.shares_filter

    def action_sort(self) -> None:
        """Asks for the column to sort by, and says at the right which one is meant."""
        if self.state is None:
            return
        self.host.ask(Question("sort", "sort by:", self._sort_by, changed=self._say_meant, pause=0.0, hints=SORT_HINTS))
        self._say_meant("")

    def _say_meant(self, text: str) -> None:
        """Lists the columns that the text may mean; the first is the one that Enter takes."""
        columns = columns_named(self.table.chosen, text)
        first = f"[{columns[0].label}]" if columns and text.strip() else ""
        titles = " ".join(filter(None, (first, *(column.label for column in columns[bool(first) :]))))
        words = titles or "no column has this in its title"
        self.host.remark(fit(words, max(self.size.width - 32, 12), ascii=self.session.ascii))

    def _sort_by(self, text: str) -> bool:
        """Sorts by the column that is meant, or reverses the order of its rows; returns whether the line closes."""
        if not text.strip() or self.state is None:
            return True
        columns = columns_named(self.table.chosen, text)
        if not columns:
            return False
        column, sort = columns[0], self.table.sort
        same = sort is not None and sort[0] == column.name
        self.table.set_sort(column.name, descending=not sort[1] if same and sort is not None else column.right)
        if column not in self.table.shown:
            self.host.say(f"Sorted by {column.label}, which has no room here")
        return True
