"""What a view needs of the application around it, and nothing more; whatever can wait is a message (`messages`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.field import Field
    from tracetui.app.session.session import Session, Side
    from tracetui.app.session.visit import Visit


class Host(Protocol):
    """The application as its views see it."""

    @property
    def session(self) -> Session:
        """What is open, and what the numbers are about."""

    @property
    def tab(self) -> str:
        """The tab in view."""

    @property
    def low_bandwidth(self) -> bool:
        """Whether each byte to the terminal counts."""

    # --- the lines around the view

    def own(self, text: str) -> str:
        """A text of ours, in ASCII where that was asked for."""

    def say(self, message: str) -> None:
        """Says something in the footer until the next key."""

    def unsay(self, message: str) -> None:
        """Takes a message away, unless another one has taken its place."""

    def refresh_lines(self) -> None:
        """Brings header, filter line and footer up to date."""

    def log_error(self, error: Exception) -> None:
        """Keeps an error that was shown in one line, for `--debug`; safe in threads."""

    # --- what is known of a run that is being read

    def failure(self, side: Side) -> str:
        """Why the run that was asked for could not be opened; empty where nothing failed."""

    def is_loading(self, side: Side) -> bool:
        """Whether a run is being read to become A or B."""

    # --- what must have happened before the view goes on

    def configure_columns(self, page: str, columns: Sequence[Field]) -> None:
        """Takes over which columns of a page the settings show and hide."""

    @property
    def came_from_finding(self) -> bool:
        """Whether the tab in view shows rows that a finding led to."""

    def here(self) -> Visit | None:
        """The place in sight; null until there is one."""

    def leave(self, place: Visit | None = None) -> None:
        """Notes a place, by default the one in sight, before the view goes on to another."""


class Hosting(Protocol):
    """The application as far as it leads to the host."""

    @property
    def host(self) -> Host:
        """What it is to its views."""
