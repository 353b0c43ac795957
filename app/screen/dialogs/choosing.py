"""Shows the lists to choose runs from: open runs, runs beside the one in view, captures of its folder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.app.screen.dialogs.common import Choice
    from tracetui.app.screen.opening import RunLoader, Watcher
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.loading import Loader
    from tracetui.app.session.session import Session, Side


class RunLists:
    """Shows the lists, and carries out what the user chooses there."""

    def __init__(
        self, runs: RunLoader, shell: Shell, watcher: Watcher, push_screen: Callable[..., Any], *, cache: bool
    ) -> None:
        """Sets up.

        Args:
            runs: holds the open runs, and opens more.
            shell: the screen below the lists.
            watcher: is notified before another run is compared.
            push_screen: puts a list over the main screen.
            cache: use the cache of parsed traces.
        """
        self._runs, self._shell, self._watcher = runs, shell, watcher
        self._push_screen = push_screen
        self._cache = cache

    # --- what the list of runs shows, and does while it stays open

    @property
    def session(self) -> Session:
        """The open runs."""
        return self._runs.session

    @property
    def loader(self) -> Loader:
        """Tells how far the reading of runs has come."""
        return self._runs.loader

    def own(self, text: str) -> str:
        """Returns one of our own texts, in ASCII if that was requested."""
        return self._shell.own(text)

    def swap(self) -> None:
        """Exchanges A and B."""
        self._runs.swap()

    def close(self, letter: str) -> bool:
        """Removes a run from the list, unless it is in view; returns whether it was removed."""
        return self._runs.close(letter)

    # --- the lists

    def show_runs(self, title: str = "") -> None:
        """Shows the list of runs."""
        if "a" not in self.session.runs:
            return
        from tracetui.app.screen.dialogs.runs_screen import RunsScreen

        self._push_screen(RunsScreen(self, title), self._chosen)

    def _chosen(self, choice: tuple[str, str] | None) -> None:
        """Carries out what the user chose in the list of runs."""
        what, letter = choice or ("", "")
        if what == "view":
            self._runs.look_at(letter)
        elif what == "compare":
            self._watcher.leaving()
            self._runs.look_at(letter, "b")
            self._shell.show_tab("diff")
        elif what == "open":
            self._ask_for_run("a", " Open …")
        elif what == "captures":
            self.show_captures()

    def ask_what_to_compare(self) -> None:
        """Asks which run to compare with."""
        if "a" in self.session.runs:
            name = printable(self.session.runs["a"].name)
            self._ask_for_run("b", self.own(f" Compare {name} (A) with …"))

    def _ask_for_run(self, side: Side, title: str) -> None:
        from tracetui.app.screen.dialogs.common import RunPicker
        from tracetui.app.screen.dialogs.start_list import traces_beside
        from tracetui.parsers.written import read_only

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths and read_only() and not any(entry.is_of(paths) for entry in self.session.open.values()):
                self._shell.say("This screen shows what it was started with: tracetui serve --allow-write opens others")
            elif paths:
                if side == "b":
                    self._watcher.leaving()
                self._runs.open_run(side, paths)
                if side == "b":
                    self._shell.show_tab("diff")

        entries = [entry for entry in self.session.open.values() if entry.letter != self.session.sides["a"]]
        # the run that it was last compared with is selected
        entries.sort(key=lambda entry: not entry.remark)
        known: list[Choice] = [(f"{entry.letter}  {entry.name}", entry.paths) for entry in entries]
        run = self.session.runs["a"]
        beside = [
            choice
            for choice in ([] if read_only() else traces_beside(run.path))
            if not any(entry.is_of(choice[1]) for entry in self.session.open.values())
        ]
        ascii = self.session.ascii
        self._push_screen(RunPicker(self.own(title), [*known, *beside], ascii=ascii), chosen)

    def show_captures(self) -> None:
        """Compares the files of the opened folder that are of this run's kind."""
        if (run := self.session.runs.get("a")) is None:
            return
        mine = self.session.open[self.session.sides["a"]]
        others = tuple(
            (entry.name, entry.paths)
            for entry in self.session.open.values()
            if entry is not mine and entry.origin == mine.origin
        )
        if not others:
            self._shell.say("There is nothing to compare with: open the folder that holds all captures")
            return
        from tracetui.app.screen.dialogs.captures_screen import CapturesScreen

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths and not mine.is_of(paths):
                self._runs.open_run("a", paths)

        whole = replace(run, others=others)
        ascii = self.session.ascii
        self._push_screen(CapturesScreen(whole, self.session.scope, use_cache=self._cache, ascii=ascii), chosen)
