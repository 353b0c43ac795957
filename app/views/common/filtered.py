"""Filters the page in view as the user types, and shows the filter line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app import tabs
from tracetui.app.tables import filters
from tracetui.app.text import fitting
from tracetui.app.views.common.saving import SavingView
from tracetui.app.widgets.prompt import FILTER_HINTS, Question

if TYPE_CHECKING:
    from tracetui.app.views.common.page import PageState
    from tracetui.app.widgets.arranged import Arranged


class FilteredView(SavingView):
    """A view with nested pages, the innermost in view, whose rows the user can filter."""

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
