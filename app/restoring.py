"""What is kept from one visit to the next: which recordings were opened, and where each was left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.app import commands, left
from tracetui.app.formats import fit, printable
from tracetui.app.left import Left
from tracetui.app.paths import is_there
from tracetui.app.visits import Visits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.timer import Timer

    from tracetui.app.open_runs import OpenRun

OTHER_WIDTH = 20
"""Columns for the name of the run that is offered."""
SAVED_AFTER_SECONDS = 1.0
"""How long one stays in a tab before that is written down."""


class Restoring(Visits):
    """The shell with runs and places, which begins where one has left."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        tab: str | None = None,
        filter: str | None = None,
        run: str | None = None,
        samples: Sequence[Path] = (),
        **more: Any,
    ) -> None:
        super().__init__(paths, tab=tab, filter=filter, **more)
        self._began_with = tuple(paths)
        self.run_wanted = run or ""
        self._samples = samples
        self._saving: Timer | None = None
        self._left: Left | None = None
        self._asked_for = self.tab, self._default_tab, self.session.filter, self._run_left
        """What the command line says, without what is remembered of a run."""
        if len(paths) == 1:
            self._recall(paths[0], tab=not tab, filter=filter is None)

    # --- beginning

    def start(self) -> None:
        """Reads what was asked for; where nothing was, shows what there is to read."""
        if self.session.open:
            super().start()
        else:
            self._ask_what("")

    def _ask_what(self, problem: str) -> None:
        from tracetui.app.start_screen import StartScreen

        screen = StartScreen(Path.cwd(), self._samples, ascii=self.session.ascii, problem=problem)
        self.push_screen(screen, self._start_with)

    def _start_with(self, path: Path | None) -> None:
        """Something was chosen of the list at the start, or nothing."""
        if path is None:
            self.exit()
            return
        self.session.add((path,))
        self._recall(path, tab=True, filter=True)
        self.show_tab(self.tab)
        super().start()

    def _failed(self, letter: str, error: Exception | None, *, cancelled: bool) -> None:
        origin = self.session.open[letter].origin
        super()._failed(letter, error, cancelled=cancelled)
        if self._asked and "a" not in self.session.runs:
            self.exit_code = 0
            self.session.close(letter)
            self.tab, self._default_tab, self.session.filter, self._run_left = self._asked_for
            self.session.sorts, self._left = {}, None
            self._ask_what(self.loader.failures.pop(letter, f"{origin}: could not be opened"))

    @property
    def _asked(self) -> bool:
        """Whether the program was started without a path."""
        return not self._began_with

    # --- where a run was left

    def _recall(self, origin: Path, *, tab: bool, filter: bool) -> None:
        """Takes over where the run of a path was left, as far as the command line leaves that open."""
        self._left = left.load(origin) if self.keeps_state else None
        if self._left is None:
            return
        if tab:
            self.tab, self._default_tab = self._left.tab, False
        if filter:
            self.session.filter = self._left.filter
        self.session.sorts = dict(self._left.sorts)
        if not self.run_wanted:
            self._run_left = self._left.run

    def was_opened(self, entry: OpenRun) -> None:
        """Notes what was opened; the first run goes on where it was left."""
        run = entry.run
        assert run is not None
        if self.keeps_state:
            from tracetui.app import recent

            kinds = [trace.info.kind for trace in run.traces]
            recent.remember(entry.origin, kinds, sum(trace.source.bytes for trace in run.traces))
        known, self._left = self._left, None
        if known is None or entry.letter != self.wanted.get("a"):
            self._left = known
            return
        again = [commands.TITLES[self.tab]] if self.tab != self.usual_tab else []
        if self.session.filter and self.session.filter == known.filter:
            again.append(f"/ {printable(known.filter)}")
        if known.sorts:
            again.append("order")
        here = self.session.rank is None and self.session.kind is None and known.run in ("", self._name_of(entry))
        if known.window is not None and here:
            entry.window, entry.window_words = known.window, known.words
            again.append(known.words)
        other = self._offer(known.other)
        if again or other:
            line = f"As you left it: {', '.join(again)} · {commands.key('run.afresh')} starts afresh" if again else ""
            self.say(self.own(" · ".join(part for part in (line, other) if part)))

    def _offer(self, path: Path | None) -> str:
        """Puts the run that this one was compared with into the list, unread; the words that say so."""
        if path is None or not is_there(path):
            return ""
        entry = next((entry for entry in self.session.open.values() if entry.is_of((path,))), None)
        entry = entry or self.session.add((path,))
        if entry.run is not None:
            return ""
        entry.remark = "compared last time"
        return f"{commands.key('run.open')} Enter: again with {fit(printable(entry.name), OTHER_WIDTH)}"

    def _name_of(self, entry: OpenRun) -> str:
        """What the run is called in its folder; empty where it is all that was opened."""
        several = sum(other.origin == entry.origin for other in self.session.open.values()) > 1
        return (entry.label or entry.name) if several else ""

    def show_tab(self, tab: str) -> None:
        """Brings a tab into view, and soon notes that one is there."""
        super().show_tab(tab)
        if self.keeps_state and "a" in self.session.runs:
            if self._saving is not None:
                self._saving.stop()
            self._saving = self.set_timer(SAVED_AFTER_SECONDS, self.save_place)

    def leaving(self) -> None:
        """Another run was asked for: notes where this one was left."""
        super().leaving()
        self.save_place()

    def save_place(self) -> None:
        """Notes where the run in view is left; not once the views are being taken away, whose order is part of it."""
        session = self.session
        if not self.keeps_state or "a" not in session.runs or not self.is_running:
            return
        entry, run = session.open[session.sides["a"]], session.runs["a"]
        sorts: dict[str, tuple[str, bool] | None] = dict(session.sorts)
        for view in self._views():
            sorts.update(view.sorts())
        other = session.open[session.sides["b"]] if "b" in session.runs else None
        if other is None:
            other = next((known for known in session.open.values() if known.remark), None)
        where = Left(
            tab=self.tab,
            filter=session.filter if self._return is None else self._return.filter,
            sorts={page: sort for page, sort in sorts.items() if sort is not None},
            window=session.scope.window,
            words=session.range_words,
            run=self._name_of(entry),
            other=None if other is None else self._path_of(other),
        )
        left.store(entry.origin, where, [trace.source.path for trace in run.traces])

    def _path_of(self, entry: OpenRun) -> Path:
        """One path that opens a run again."""
        if entry.run is not None and self._name_of(entry):
            return entry.run.path
        return entry.paths[0] if self._name_of(entry) else entry.origin

    def action_afresh(self) -> None:
        """Goes back to how a run looks when it is opened for the first time."""
        if "a" not in self.session.runs:
            return
        session = self.session
        if self.keeps_state:
            left.forget(session.open[session.sides["a"]].origin)
        session.filter, session.sorts, self._return = "", {}, None
        if session.range_words:
            self._forget_range()
        self._visits.clear()
        for view in self._views():
            view.forget_pages()
        self.reload_views()
        self.show_tab(self.usual_tab)
        self.say("Afresh: no filter, no marked range, every table in its own order")

    async def action_quit(self) -> None:
        """Leaves at once."""
        self.exit()

    def before_leaving(self) -> None:
        """Notes the place; threads that still read are told to stop and not waited for."""
        super().before_leaving()
        if self._saving is not None:
            self._saving.stop()
        self.loader.close()
        self.save_place()
