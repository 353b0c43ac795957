"""Filters the page in view as the user types, and shows the filter line."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tracetui.app.tables import filters
from tracetui.app.text import fitting
from tracetui.app.views.common.saving import SavingView

if TYPE_CHECKING:
    from tracetui.app.session.visit import Visit
    from tracetui.app.views.common.page import PageState
    from tracetui.app.widgets.prompt import Prompt


class FilteredView(SavingView):
    """A view with nested pages, the innermost in view, whose rows the user can filter."""

    SHARES_FILTER: ClassVar[bool] = True
    """Whether its first page uses the filter that all tabs share."""

    def __init__(self) -> None:
        super().__init__()
        self._stack: list[PageState] = []
        self._unfiltered: tuple[str, Visit | None] = ("", None)
        """The filter before the user types another one, and its place in the history."""

    @property
    def state(self) -> PageState | None:
        """The page in view."""
        return self._stack[-1] if self._stack else None

    def _show_title(self) -> None:
        """Updates the title above the table."""
        raise NotImplementedError

    def action_filter(self) -> None:
        """Opens the filter line."""
        if self.state is not None:
            self._unfiltered = self.state.filter, self.host.here()
            self.prompt.open("filter", "/", self.state.filter)
            self._remark()
            self.host.refresh_lines()

    def apply_filter(self) -> None:
        """Follows the session's filter on the root page."""
        if self.SHARES_FILTER and self._stack and self._stack[0].filter != self.session.filter:
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
        if state is None:
            return False
        try:
            parsed = filters.parse(text)
            self.table.set_filter(parsed)
        except filters.FilterError as error:
            self.prompt.remark(f"{error}")
            return False
        state.filter, state.parsed = text.strip(), parsed
        if len(self._stack) == 1 and self.SHARES_FILTER:
            self.session.filter = state.filter
        self._remark()
        self._show_title()
        self.host.refresh_lines()
        return True

    def _remark(self) -> None:
        state = self.state
        if state is not None:
            self.prompt.remark(f"{self.table.matching:,} of {state.page.frame.height:,} {state.page.noun}")

    @property
    def filter_line(self) -> str:
        """Returns the filter of the page in view and how many rows it keeps."""
        state = self.state
        if state is None or not state.filter or self.prompt.purpose:
            return ""
        count = f"{self.table.matching:,} of {state.page.frame.height:,} {state.page.noun}"
        leads = "Esc goes back to the finding" if self.host.came_from_finding and not self.own_filter else "Esc clears"
        return f"/ {fitting.printable(state.filter)}   {count}   {leads}"

    @property
    def own_filter(self) -> bool:
        """Returns whether this is an inner page, since inner pages have filters of their own."""
        return len(self._stack) > 1 or not self.SHARES_FILTER

    def on_prompt_changed(self, event: Prompt.Changed) -> None:
        """Filters as the user types."""
        event.stop()
        if self.prompt.purpose == "filter":
            self._set_filter(event.text)

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        """Keeps the filter, or writes the file."""
        event.stop()
        if self.prompt.purpose == "comment":
            self._close_prompt()
            self._comment(event.text)
        elif self.prompt.purpose in ("export", "replace"):
            asked = self.prompt.purpose == "replace"
            self._close_prompt()
            # the picture must not show the line in which its name was typed
            self.call_after_refresh(self._export, event.text, asked=asked)
        elif self._set_filter(event.text):
            before, place = self._unfiltered
            if before != event.text.strip():
                self.host.leave(place)
            self._close_prompt()

    def on_prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        """Clears the filter and goes back to the table."""
        event.stop()
        if self.prompt.purpose == "filter":
            self._set_filter("")
        self._close_prompt()

    def _close_prompt(self) -> None:
        self.prompt.close()
        self.focus_content()
        self.host.refresh_lines()
