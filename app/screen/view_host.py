"""What the application is to its views."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.field import Field
    from tracetui.app.screen.history import Navigation
    from tracetui.app.screen.preferences import Preferences
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.loading import Loader
    from tracetui.app.session.session import Session, Side
    from tracetui.app.session.visit import Visit


class ViewHost:
    """`views.common.host.Host`, made of the application's parts."""

    def __init__(
        self, session: Session, loader: Loader, shell: Shell, navigation: Navigation, preferences: Preferences
    ) -> None:
        self._session, self._loader, self._shell = session, loader, shell
        self._navigation, self._preferences = navigation, preferences

    @property
    def session(self) -> Session:
        """What is open, and what the numbers are about."""
        return self._session

    @property
    def tab(self) -> str:
        """The tab in view."""
        return self._shell.tab

    @property
    def low_bandwidth(self) -> bool:
        """Whether each byte to the terminal counts."""
        return self._preferences.low_bandwidth

    def own(self, text: str) -> str:
        """A text of ours, in ASCII where that was asked for."""
        return self._shell.own(text)

    def say(self, message: str) -> None:
        """Says something in the footer until the next key."""
        self._shell.say(message)

    def unsay(self, message: str) -> None:
        """Takes a message away, unless another one has taken its place."""
        self._shell.unsay(message)

    def refresh_lines(self) -> None:
        """Brings header, filter line and footer up to date."""
        self._shell.refresh_lines()

    def log_error(self, error: Exception) -> None:
        """Keeps an error that was shown in one line, for `--debug`; safe in threads."""
        self._shell.log_error(error)

    def failure(self, side: Side) -> str:
        """Why the run that was asked for could not be opened; empty where nothing failed."""
        return self._loader.failure(side)

    def is_loading(self, side: Side) -> bool:
        """Whether a run is being read to become A or B."""
        return self._loader.is_loading(side)

    def configure_columns(self, page: str, columns: Sequence[Field]) -> None:
        """Takes over which columns of a page the settings show and hide."""
        if problem := self._preferences.configure_columns(page, columns):
            self._shell.say(problem)

    @property
    def came_from_finding(self) -> bool:
        """Whether the tab in view shows rows that a finding led to."""
        return self._navigation.came_from_finding

    def here(self) -> Visit | None:
        """The place in sight; null until there is one."""
        return self._navigation.here()

    def leave(self, place: Visit | None = None) -> None:
        """Notes a place, by default the one in sight, before the view goes on to another."""
        self._navigation.leave(place)
