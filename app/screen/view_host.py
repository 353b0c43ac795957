"""Gives views access to the application."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.table import Field
    from tracetui.app.screen.history import Navigation
    from tracetui.app.screen.preferences import Preferences
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.loading import Loader
    from tracetui.app.session.session import Session, Side
    from tracetui.app.session.visit import Visit
    from tracetui.app.widgets.prompt import Question


class ViewHost:
    """Implements `views.common.host.Host` with the application's parts."""

    def __init__(
        self, session: Session, loader: Loader, shell: Shell, navigation: Navigation, preferences: Preferences
    ) -> None:
        self._session, self._loader, self._shell = session, loader, shell
        self._navigation, self._preferences = navigation, preferences

    @property
    def session(self) -> Session:
        """Returns the session: the open runs and what the numbers cover."""
        return self._session

    @property
    def tab(self) -> str:
        """Returns the tab in view."""
        return self._shell.tab

    @property
    def low_bandwidth(self) -> bool:
        """Returns whether the connection to the terminal is slow."""
        return self._preferences.low_bandwidth

    def own(self, text: str) -> str:
        """Returns one of our own texts, in ASCII if that was requested."""
        return self._shell.own(text)

    def say(self, message: str) -> None:
        """Shows a message in the footer until the next key."""
        self._shell.say(message)

    def unsay(self, message: str) -> None:
        """Removes a message, unless another one has replaced it."""
        self._shell.unsay(message)

    def refresh_lines(self) -> None:
        """Updates header, filter line and footer."""
        self._shell.refresh_lines()

    @property
    def asking(self) -> bool:
        """Returns whether the line is open; all keys are its until it is closed."""
        return self._shell.prompt is not None

    def ask(self, question: Question) -> None:
        """Opens the line; every key from the one that led here on is typed into it."""
        self._shell.ask(question)

    def remark(self, text: str) -> None:
        """Says something at the right end of the line, such as how many rows match."""
        self._shell.remark(text)

    def rows_came(self) -> None:
        """Says that a view has shown what it computed, so that keys that waited for it can follow."""
        self._shell.rows_came()

    def log_error(self, error: Exception) -> None:
        """Keeps the traceback of an error that was shown in one line, for `--debug`; thread-safe."""
        self._shell.log_error(error)

    def failure(self, side: Side) -> str:
        """Returns why the requested run could not be opened; empty if nothing failed."""
        return self._loader.failure(side)

    def is_loading(self, side: Side) -> bool:
        """Returns whether a run is being read to become A or B."""
        return self._loader.is_loading(side)

    def configure_columns(self, page: str, columns: Sequence[Field]) -> None:
        """Applies which columns of a page the settings show and hide."""
        if problem := self._preferences.configure_columns(page, columns):
            self._shell.say(problem)

    @property
    def came_from_finding(self) -> bool:
        """Returns whether the tab in view shows rows that a finding led to."""
        return self._navigation.came_from_finding

    @property
    def came_by_jump(self) -> bool:
        """Returns whether something of another tab led to the tab in view."""
        return self._navigation.came_by_jump

    def here(self) -> Visit | None:
        """Returns the current place; None until there is one."""
        return self._navigation.here()

    def leave(self, place: Visit | None = None) -> None:
        """Adds a place to the history, by default the current one, before the view goes to another."""
        self._navigation.leave(place)
