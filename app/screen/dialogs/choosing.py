"""Shows the lists to choose runs from: at the start, open runs, and runs beside the one in view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.text.exit_codes import DONE
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import App

    from tracetui.app.screen.dialogs.common import Choice
    from tracetui.app.screen.history import Navigation
    from tracetui.app.screen.opening import RunLoader
    from tracetui.app.screen.restoring import Restorer
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.session import Side


class RunLists:
    """Shows the lists, and carries out what the user chooses there."""

    def __init__(
        self,
        app: App[None],
        runs: RunLoader,
        shell: Shell,
        restorer: Restorer,
        navigation: Navigation,
        *,
        samples: Sequence[Path] = (),
    ) -> None:
        self._app, self._runs, self._shell, self._restorer = app, runs, shell, restorer
        self._navigation = navigation
        self.session = runs.session
        self._samples = samples
        """Recordings to offer if no path was given."""
        self._asked = not self.session.open
        """Whether the program was started without a path."""
        self._beginning = shell.tab, shell.default_tab, self.session.filter, runs.run_left
        """The command line's request, without what is remembered about a run."""

    # --- the start

    def start(self) -> None:
        """Reads the requested runs; if there are none, shows what can be opened."""
        if self.session.open:
            self._runs.start()
        else:
            self._ask_what_to_open("")

    def _ask_what_to_open(self, problem: str) -> None:
        from tracetui.app.screen.dialogs.common import StartScreen

        screen = StartScreen(Path.cwd(), self._samples, ascii=self.session.ascii, problem=problem)
        self._app.push_screen(screen, self._begin_with)

    def _begin_with(self, paths: tuple[Path, ...] | None) -> None:
        """Reads what was chosen from the list, or ends the program if nothing was chosen."""
        if paths is None:
            self._app.exit()
            return
        self.session.add(paths)
        self._restorer.recall(paths[0], tab=True, filter=True)
        self._shell.show_tab(self._shell.tab)
        self._runs.start()

    def could_not_open(self, letter: str) -> None:
        """Asks again, if the run that could not be read was chosen from the list."""
        if not self._asked or "a" in self.session.runs:
            return
        origin = self.session.open[letter].origin
        self._runs.exit_code = DONE
        self.session.close(letter)
        self._shell.tab, self._shell.default_tab, self.session.filter, self._runs.run_left = self._beginning
        self._restorer.forget_recalled()
        self._ask_what_to_open(self._runs.loader.failures.pop(letter, f"{origin}: could not be opened"))

    # --- the lists

    def show_runs(self, title: str = "") -> None:
        """Shows the list of runs."""
        if "a" not in self.session.runs:
            return
        from tracetui.app.screen.dialogs.common import RunsScreen

        self._app.push_screen(RunsScreen(self._runs, self._shell.own, title), self._chosen)

    def _chosen(self, choice: tuple[str, str] | None) -> None:
        """Carries out what the user chose in the list of runs."""
        what, letter = choice or ("", "")
        if what == "view":
            self._runs.look_at(letter)
        elif what == "compare":
            self._runs.watcher.leaving()
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
            self._ask_for_run("b", self._shell.own(f" Compare {name} (A) with …"))

    def _ask_for_run(self, side: Side, title: str) -> None:
        from tracetui.app.screen.dialogs.common import RunPicker
        from tracetui.app.screen.dialogs.start_list import traces_beside
        from tracetui.parsers.written import read_only

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths and read_only() and not any(entry.is_of(paths) for entry in self.session.open.values()):
                self._shell.say("This screen shows what it was started with: tracetui serve --allow-write opens others")
            elif paths:
                if side == "b":
                    self._runs.watcher.leaving()
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
        self._app.push_screen(RunPicker(self._shell.own(title), [*known, *beside], ascii=ascii), chosen)

    def show_captures(self) -> None:
        """Goes to the captures of the opened folder, side by side."""
        if "a" in self.session.runs:
            self._navigation.open_rows("sweep", "captures", "")
