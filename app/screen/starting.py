"""Starts the program: with the requested runs, or with a list of what can be opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.app.text.exit_codes import DONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.app.screen.opening import RunLoader
    from tracetui.app.screen.restoring import Restorer
    from tracetui.app.screen.shell import Shell


class Starter:
    """Starts, and asks again if the first choice could not be read."""

    def __init__(
        self,
        runs: RunLoader,
        shell: Shell,
        restorer: Restorer,
        push_screen: Callable[..., Any],
        leave: Callable[[], None],
        *,
        samples: Sequence[Path] = (),
    ) -> None:
        """Sets up; the session already holds what the command line asks for.

        Args:
            runs: reads the chosen runs.
            shell: shows it.
            restorer: knows the last position.
            push_screen: puts the list over the main screen.
            leave: ends the program if nothing was chosen.
            samples: recordings to offer if no path was given.
        """
        self._runs, self._shell, self._restorer = runs, shell, restorer
        self._session = runs.session
        self._push_screen, self._leave = push_screen, leave
        self._samples = samples
        self._asked = not self._session.open
        """Whether the program was started without a path."""
        self._beginning = shell.tab, shell.default_tab, self._session.filter, runs.run_left
        """The command line's request, without what is remembered about a run."""

    def start(self) -> None:
        """Reads the requested runs; if there are none, shows what can be opened."""
        if self._session.open:
            self._runs.start()
        else:
            self._ask("")

    def _ask(self, problem: str) -> None:
        from tracetui.app.screen.dialogs.start_screen import StartScreen

        screen = StartScreen(Path.cwd(), self._samples, ascii=self._session.ascii, problem=problem)
        self._push_screen(screen, self._begin_with)

    def _begin_with(self, path: Path | None) -> None:
        """Reads what was chosen from the list, or ends the program if nothing was chosen."""
        if path is None:
            self._leave()
            return
        self._session.add((path,))
        self._restorer.recall(path, tab=True, filter=True)
        self._shell.show_tab(self._shell.tab)
        self._runs.start()

    def could_not_open(self, letter: str) -> None:
        """Asks again, if the run that could not be read was chosen from the list."""
        if not self._asked or "a" in self._session.runs:
            return
        origin = self._session.open[letter].origin
        self._runs.exit_code = DONE
        self._session.close(letter)
        self._shell.tab, self._shell.default_tab, self._session.filter, self._runs.run_left = self._beginning
        self._restorer.forget_recalled()
        self._ask(self._runs.loader.failures.pop(letter, f"{origin}: could not be opened"))
