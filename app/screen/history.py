"""Navigation and its history: Ctrl+O goes back place by place, Esc from rows to their finding; undo and redo."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tracetui.app.keys import commands
from tracetui.app.session.session import Session, State, Visit
from tracetui.app.text.fitting import fit, printable
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.finding import Query
    from tracetui.app.screen.opening import RunLoader
    from tracetui.app.screen.shell import Shell
    from tracetui.app.views.query import QueryPage
    from tracetui.app.views.timeline import TimelineView

KEPT = 50
"""The maximum number of places in the navigation history."""
ROWS_KEPT = 2_000_000
"""Rows of tables kept for them; older places keep only tab, filter and run."""


class Return(NamedTuple):
    """Where Esc leads from the rows of a finding's evidence."""

    tab: str
    filter: str
    """The filter that was in force there."""
    shown: str
    """The tab that shows the rows."""


class Change(NamedTuple):
    """What a key has changed, in a few words, and what was in force before."""

    words: str
    before: Visit


ZOOM = "zoom"
SHOWN_FILTER = 24
"""Columns of a filter in the message that says what was undone."""


def change_between(before: State, after: State) -> str:
    """Names what differs of two states that follow each other; empty if nothing does that undo brings back.

    Pages are compared where both states have them: going in and out changes nothing.
    """
    words = []
    if before.sides["a"] != after.sides["a"]:
        words.append("run in view")
    elif "b" in before.sides and before.sides.get("b") != after.sides.get("b"):
        words.append("compared run")
    pages = [key for key in before.arranged if key in after.arranged and before.arranged[key] != after.arranged[key]]
    moved = [(before.arranged[key], after.arranged[key]) for key in pages]
    filters = [(before.filter, after.filter), *((old[1], new[1]) for old, new in moved)]
    words += [f"filter {fit(printable(old or new), SHOWN_FILTER)}" for old, new in filters if old != new]
    named = {
        "rank": (before.rank, after.rank),
        "tool": (before.kind, after.kind),
        "marked range": (before.scope, after.scope),
        "totals": (before.per, after.per),
        "grouping": (before.grouped, after.grouped),
        "order": ([old[0] for old, _ in moved], [new[0] for _, new in moved]),
        "columns": ([old[2] for old, _ in moved], [new[2] for _, new in moved]),
    }
    words += [name for name, (old, new) in named.items() if old != new]
    words += [f"silencing of {name}" for name in sorted(before.silenced.keys() ^ after.silenced.keys())]
    return ", ".join(words)


class Navigation:
    """Goes to rows, runs and other tabs, and back."""

    def __init__(self, session: Session, shell: Shell, runs: RunLoader) -> None:
        self._session, self._shell, self._runs = session, shell, runs
        self.visits: list[Visit] = []
        """Places to go back to; the most recent one is last."""
        self._return: Return | None = None
        self._jumps: list[str] = []
        """The tabs that rows, events or queries of other tabs have led to, from which Esc leads back."""
        self._changes: tuple[list[Change], list[Change]] = ([], [])
        """What undo takes back and what redo brings again; the most recent one is last."""
        self._noted: Visit | None = None
        """The place when the last key came."""
        self._named = ""
        """What that key changes, where it says so itself."""

    # --- navigation history

    def here(self) -> Visit | None:
        """Returns the current place; None until there is one."""
        view = self._shell.view
        if view is None:
            return None
        return Visit(self._shell.tab, self._numbers, self._state, view.place())

    @property
    def _numbers(self) -> tuple[int, int]:
        of = {side: self._session.open[letter].number for side, letter in self._session.sides.items()}
        return of.get("a", 0), of.get("b", 0)

    @property
    def _state(self) -> State:
        session = self._session
        arranged = {key: how for view in self._shell.views() for key, how in view.arranged().items()}
        return State(
            dict(session.sides), session.rank, session.kind, session.scope, session.range_words,
            (session.per, session.per_in_diff), session.silenced, dict(session.grouped), session.filter,
            self.sorts, arranged,
        )  # fmt: skip

    @property
    def sorts(self) -> dict[str, tuple[str, bool]]:
        """Returns the order of every page whose order is not its own."""
        sorts: dict[str, tuple[str, bool] | None] = dict(self._session.sorts)
        for view in self._shell.views():
            sorts.update(view.sorts())
        return {page: sort for page, sort in sorts.items() if sort is not None}

    def leave(self, place: Visit | None = None) -> None:
        """Adds a place to the history, by default the current one, before the user goes to another."""
        place = place or self.here()
        if place is not None and not (self.visits and self._is_at(self.visits[-1])):
            self.visits = self._lightened([*self.visits[1 - KEPT :], place])

    def _lightened(self, visits: list[Visit]) -> list[Visit]:
        """Lets the rows go that the older of these places keep, where together they are too many."""
        rows = 0
        for at, visit in reversed(list(enumerate(visits))):
            view = self._shell.made(visit.tab)
            rows += view.weight(visit.inside) if view is not None and visit.inside is not None else 0
            if rows > ROWS_KEPT:
                visits[at] = replace(visit, inside=None)
        return visits

    def went_back(self) -> None:
        """Removes the most recent place from the history if Esc has led to it."""
        if self.visits and self._is_at(self.visits[-1]):
            self.visits.pop()

    def was_closed(self) -> None:
        """Removes the places of a closed run from the history."""
        there = {entry.number for entry in self._session.open.values()}
        self.visits = [visit for visit in self.visits if visit.numbers[0] in there]

    def _is_at(self, visit: Visit) -> bool:
        view = self._shell.view
        return (
            view is not None
            and (visit.tab, visit.numbers[0]) == (self._shell.tab, self._numbers[0])
            and (visit.state.about, visit.state.filter) == (self._state.about, self._session.filter)
            and (visit.inside is None or view.is_at(visit.inside))
        )

    def back(self) -> None:
        """Goes back to the previous place."""
        while self.visits:
            visit = self.visits.pop()
            if self._is_at(visit):
                continue
            letters = [entry.letter for entry in self._session.open.values() if entry.number == visit.numbers[0]]
            if letters:
                self._go_back(visit, letters[0])
                return
        self._shell.say("There is no earlier place to go back to")

    def _go_back(self, visit: Visit, letter: str, *, order: bool = False) -> None:
        if self._return is not None and visit.tab == self._return.tab:
            self._return = None
        if self._jumps and self._jumps[-1] == self._shell.tab != visit.tab:
            self._jumps.pop()
        self._session.filter = visit.state.filter
        if letter != self._session.sides.get("a"):
            kept = list(self.visits)
            self._runs.look_at(letter)
            self.visits = kept
        self._shell.show_tab(visit.tab)
        view = self._shell.view
        same_b = visit.numbers[1] == self._numbers[1] or (view is not None and not view.COMPARES)
        known = visit.inside is not None and visit.state.about == self._state.about and same_b
        if view is not None and known and (order or not view.is_at(visit.inside)):
            view.restore(visit.inside)
        self._shell.refresh_lines()

    def forget(self) -> None:
        """Clears the history."""
        self._return = None
        self._jumps.clear()
        self.visits.clear()

    # --- undo and redo

    def note(self, name: str = "") -> None:
        """Keeps what the key before this one has changed; `name`: what this one will, where the state does not tell."""
        now = self.here()
        before, named = self._noted, self._named
        self._noted, self._named = now, name
        if before is None or now is None:
            return
        words, view = named or change_between(before.state, now.state), self._shell.view
        if not words and view is not None and before.tab == now.tab and view.is_zoomed(before.inside, now.inside):
            words = ZOOM
        done, undone = self._changes
        if words:
            undone.clear()
        if words and not (words == ZOOM and done and done[-1].words == ZOOM):  # the steps of one zoom are one
            self._keep(done, Change(words, before))

    def _keep(self, changes: list[Change], change: Change) -> None:
        kept = [*changes[1 - KEPT :], change]
        places = self._lightened([each.before for each in kept])
        changes[:] = [each._replace(before=place) for each, place in zip(kept, places, strict=True)]

    def undo(self) -> None:
        """Takes back the latest change, in the place where it was made."""
        self._exchange(*self._changes, "Undone", "app.redo")

    def redo(self) -> None:
        """Makes the latest change again that was undone."""
        done, undone = self._changes
        self._exchange(undone, done, "Redone", "app.undo")

    def _exchange(self, changes: list[Change], others: list[Change], said: str, other: str) -> None:
        self.note()
        now = self.here()
        while changes and now is not None:
            words, before = changes.pop()
            entry = self._session.open.get(before.state.sides["a"])
            if entry is not None and entry.run is not None:
                self._keep(others, Change(words, now))
                problem = self._bring_back(before)
                self._noted = None  # what follows from it is no change of its own
                self._shell.say(problem or f"{said}: {words} ({commands.key(other)}: {other.partition('.')[2]})")
                return
        self._shell.say(f"Nothing to {'undo' if said == 'Undone' else 'redo'}")

    def _bring_back(self, place: Visit) -> str:
        """Goes to a place, with everything that was in force there; returns what could not be brought back."""
        session, state, now = self._session, place.state, self._state
        visits, problem = list(self.visits), ""
        for side, letter in state.sides.items():
            if session.sides.get(side) != letter and letter in session.open:
                self._runs.look_at(letter, side)
        self.visits = visits
        for name in sorted(state.silenced.keys() ^ session.silenced.keys()):
            problem = self._runs.write_silenced(name, state.silenced.get(name, ""))[0] or problem
        session.rank, session.kind = state.rank, state.kind
        session.per, session.per_in_diff = state.per
        session.grouped, session.sorts = dict(state.grouped), dict(state.sorts)
        for key in state.arranged.keys() & now.arranged.keys():
            if (columns := state.arranged[key][2]) != now.arranged[key][2]:
                session.hidden[str(key[-1])], session.pinned[str(key[-1])] = columns
        self._shell.show_range(state.scope.window, state.range_words)
        if place.numbers[0] != self._numbers[0]:  # it was read again meanwhile
            place = replace(place, inside=None)
        if place.inside is None or (state.sides, state.about, state.grouped) != (now.sides, now.about, now.grouped):
            for view in self._shell.views():
                view.forget_pages()
            self._shell.outdate()
        self._go_back(place, state.sides["a"], order=True)
        return problem

    # --- to something of another tab, and back

    def jump(self, tab: str) -> None:
        """Goes to a tab that something in the present one leads to."""
        self.leave()
        self.arrive(tab)

    def arrive(self, tab: str) -> None:
        """Shows a tab to which something in the place left last has led."""
        self._jumps.append(tab)
        self._shell.show_tab(tab)

    @property
    def came_by_jump(self) -> bool:
        """Returns whether something of another tab led to the tab in view."""
        return bool(self._jumps and self._jumps[-1] == self._shell.tab and self.visits)

    def undo_jump(self) -> bool:
        """Goes back to what led to the tab in view; returns whether there was such a place."""
        if not self.came_by_jump:
            return False
        self._jumps.pop()
        self.back()
        return True

    # --- from a finding to its rows, and back

    def show_rows(self, query: Query) -> None:
        """Goes to the rows that a finding rests on, in their own tab."""
        tab, _, table = query.tab.partition(":")
        self.leave()
        self._return = Return(self._shell.tab, self._session.filter, tab)
        self._session.filter = query.filter
        self._shell.show_tab(tab)
        view = self._shell.made(tab)
        if view is not None:
            view.open_at(table, query.row)
        self._shell.refresh_lines()

    @property
    def usual_filter(self) -> str:
        """Returns the filter in force, except one that a finding has set for its rows."""
        return self._session.filter if self._return is None else self._return.filter

    @property
    def came_from_finding(self) -> bool:
        """Returns whether the tab in view shows rows that a finding led to."""
        return self._return is not None and self._return.shown == self._shell.tab

    def come_back(self, *, only_here: bool = False) -> bool:
        """Goes to the finding that led here (unless `only_here`: or elsewhere), with its filter; whether one did."""
        if self._return is None or (only_here and not self.came_from_finding):
            return False
        back, self._return = self._return, None
        self._session.filter = back.filter
        self._shell.show_tab(back.tab)
        self.went_back()
        return True

    # --- from tab to tab

    def to_tab(self, tab: str) -> None:
        """Goes to a tab; while the first run is read, the tab that it will be shown in."""
        if "a" not in self._session.runs:
            self._shell.default_tab = False
        if tab == self._shell.tab:
            return
        view = self._shell.made(self._shell.tab)
        if view is not None and (name := view.counterpart(tab)):
            self.open_rows(tab, "", name)
            return
        self._jumps.clear()
        self.leave()
        if self._return is None or tab != self._return.tab or not self.come_back():
            self._shell.show_tab(tab)

    # --- to rows, events and runs

    def open_rows(self, tab: str, table: str, name: str) -> None:
        """Goes to a table of a tab, and to the row of this name."""
        self.jump(tab)
        view = self._shell.made(tab)
        if view is not None:
            view.open_at(table, name)
        self._shell.refresh_lines()

    def show_result(self, page: QueryPage) -> None:
        """Goes to the result of a query."""
        from tracetui.app.views.query import QueryView

        self.jump("query")
        view = self._shell.made("query")
        if isinstance(view, QueryView):
            view.receive(page)
        self._shell.refresh_lines()

    def show_in_timeline(self, source: str, row: int) -> None:
        """Goes to the timeline, and there to a row of one of the trace's frames."""
        if (view := self._to_timeline()) is not None:
            view.seek(source, row)

    def show_gap(self, device: int | None, start: int, end: int) -> None:
        """Goes to the timeline, and there to a stretch in which a GPU is idle (ns on the trace's clock)."""
        if (view := self._to_timeline()) is not None:
            view.seek_gap(device, start, end)

    def _to_timeline(self) -> TimelineView | None:
        from tracetui.app.views.timeline import TimelineView

        self.jump("timeline")
        view = self._shell.made("timeline")
        return view if isinstance(view, TimelineView) else None

    def go_to(self, tab: str, name: str) -> None:
        """Goes to a tab and to the row of this name."""
        self.jump(tab)
        view = self._shell.made(tab)
        if view is not None:
            view.go_to(name)

    # --- to another recording of the run

    def next_rank(self) -> None:
        """Switches to the next rank."""
        if "a" not in self._session.runs:
            return
        rank = self._session.next_rank()
        if rank is None:
            self._show_recording("This run has one rank", moved=False)
        else:
            self.show_rank(rank)

    def show_rank(self, rank: int) -> None:
        """Switches to a rank; one that was not read is read first."""
        if self._session.runs["a"].summaries_in is not None:
            self._show_recording(f"Of rank {rank} only a summary is here, not its recording", moved=False)
            return
        if rank in self._session.runs["a"].unread:
            self._runs.read_rank(rank)
            return
        self._session.rank = rank
        self._show_recording(f"Rank {rank}", moved=True)

    def next_kind(self) -> None:
        """Switches to the recording of the run's next tool."""
        if "a" not in self._session.runs:
            return
        kind = self._session.next_kind()
        one = "This run has one recording with a time line"
        words = one if kind is None else f"From {WORDS[kind].label}: {self._session.trace().source.path.name}"
        self._show_recording(words, moved=kind is not None)

    def _show_recording(self, words: str, *, moved: bool) -> None:
        if moved:
            self._shell.forget_range()  # the marked range was on the other recording's clock
            self._shell.reload_views()
        self._shell.say(words)
        self._shell.refresh_lines()
