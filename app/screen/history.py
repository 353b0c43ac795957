"""The way back: Ctrl+O through the places one has been to, Esc from rows to the finding that led to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tracetui.app.screen.opening import Opening
from tracetui.app.session.visit import Visit

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.finding import Query
    from tracetui.app.widgets.lines import TabBar

KEPT = 50
"""Places on the way back."""
ROWS_KEPT = 2_000_000
"""Rows of tables kept for them; of older places only tab, filter and run."""


class Return(NamedTuple):
    """Where Esc leads from rows that a finding rests on."""

    tab: str
    filter: str
    """That was in force there."""
    shown: str
    """The tab that shows the rows."""


class Visits(Opening):
    """The shell with runs in it, and the places visited there."""

    _return: Return | None = None

    # --- places visited

    def here(self) -> Visit | None:
        """The place in sight; null until there is one."""
        view = self.view
        if view is None:
            return None
        session = self.session
        return Visit(self.tab, session.filter, self._numbers, self._about, view.place())

    @property
    def _numbers(self) -> tuple[int, int]:
        of = {side: self.session.open[letter].number for side, letter in self.session.sides.items()}
        return of.get("a", 0), of.get("b", 0)

    @property
    def _about(self) -> tuple[object, ...]:
        session = self.session
        return session.rank, session.kind, session.scope, session.per, session.per_in_diff

    def leave(self, place: Visit | None = None) -> None:
        """Notes a place, by default the one in sight, before one goes on to another."""
        place = place or self.here()
        if place is not None and not (self._visits and self._is_at(self._visits[-1])):
            self._visits = [*self._visits[1 - KEPT :], place]
            rows = 0
            for at, visit in reversed(list(enumerate(self._visits))):
                view = self.made(visit.tab)
                rows += view.weight(visit.inside) if view is not None and visit.inside is not None else 0
                if rows > ROWS_KEPT:
                    self._visits[at] = replace(visit, inside=None)

    def went_back(self) -> None:
        """The way back is shorter where Esc has led to the place visited last."""
        if self._visits and self._is_at(self._visits[-1]):
            self._visits.pop()

    def was_closed(self) -> None:
        """Places of a run that was closed are no longer there."""
        there = {entry.number for entry in self.session.open.values()}
        self._visits = [visit for visit in self._visits if visit.numbers[0] in there]

    def _is_at(self, visit: Visit) -> bool:
        view = self.view
        return (
            view is not None
            and (visit.tab, visit.numbers[0], visit.about) == (self.tab, self._numbers[0], self._about)
            and visit.filter == self.session.filter
            and (visit.inside is None or view.is_at(visit.inside))
        )

    def action_come_back(self) -> None:
        """Goes back to the place visited before this one."""
        while self._visits:
            visit = self._visits.pop()
            if self._is_at(visit):
                continue
            letters = [entry.letter for entry in self.session.open.values() if entry.number == visit.numbers[0]]
            if letters:
                self._go_back(visit, letters[0])
                return
        self.say("There is no earlier place to go back to")

    def _go_back(self, visit: Visit, letter: str) -> None:
        if self._return is not None and visit.tab == self._return.tab:
            self._return = None
        self.session.filter = visit.filter
        if letter != self.session.sides.get("a"):
            kept = list(self._visits)
            self.look_at(letter)
            self._visits = kept
        self.show_tab(visit.tab)
        view = self.view
        same_b = visit.numbers[1] == self._numbers[1] or (view is not None and not view.COMPARES)
        known = visit.inside is not None and visit.about == self._about and same_b
        if view is not None and known and not view.is_at(visit.inside):
            view.restore(visit.inside)
        self.refresh_lines()

    def leaving(self) -> None:
        """Another run was asked for: where one is now is a place to go back to."""
        self.leave()

    # --- from a finding to its rows, and back

    def show_rows(self, query: Query) -> None:
        """Goes to the rows that a finding rests on, in their own tab."""
        tab, _, table = query.tab.partition(":")
        self.leave()
        self._return = Return(self.tab, self.session.filter, tab)
        self.session.filter = query.filter
        self.show_tab(tab)
        view = self.made(tab)
        if view is not None:
            view.open_at(table, query.row)
        self.refresh_lines()

    @property
    def came_from_finding(self) -> bool:
        """Whether the tab in view shows rows that a finding led to."""
        return self._return is not None and self._return.shown == self.tab

    def come_back(self, *, only_here: bool = False) -> bool:
        """Goes back to the finding that led to some rows, with the filter that was in force there.

        Args:
            only_here: not from a tab that it did not lead to.

        Returns:
            Whether there was one to go back to.
        """
        if self._return is None or (only_here and not self.came_from_finding):
            return False
        back, self._return = self._return, None
        self.session.filter = back.filter
        self.show_tab(back.tab)
        self.went_back()
        return True

    # --- from tab to tab

    def action_tab(self, tab: str) -> None:
        """Goes to a tab."""
        if tab == self.tab:
            return
        self.leave()
        if self._return is None or tab != self._return.tab or not self.come_back():
            self.show_tab(tab)

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """A tab was clicked."""
        self.action_tab(event.tab)
