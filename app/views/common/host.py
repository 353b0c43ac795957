"""The interface through which views use the application; whatever can wait is a message instead (`messages`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.table import Field
    from tracetui.app.session.session import Session, Side
    from tracetui.app.session.visit import Visit
    from tracetui.app.widgets.prompt import Question


class Host(Protocol):
    """The parts of the application that its views use."""

    @property
    def session(self) -> Session:
        """Returns the session: the open runs and what the numbers cover."""

    @property
    def tab(self) -> str:
        """The tab in view."""

    @property
    def low_bandwidth(self) -> bool:
        """Returns whether the connection to the terminal is slow."""

    # --- the lines around the view

    def own(self, text: str) -> str:
        """Returns one of our own texts, in ASCII if that was requested."""

    def say(self, message: str) -> None:
        """Shows a message in the footer until the next key."""

    def unsay(self, message: str) -> None:
        """Removes a message, unless another one has replaced it."""

    def refresh_lines(self) -> None:
        """Updates header, filter line and footer."""

    def rows_came(self) -> None:
        """Says that a view has shown what it computed, so that keys that waited for it can follow."""

    def log_error(self, error: Exception) -> None:
        """Keeps the traceback of an error that was shown in one line, for `--debug`; thread-safe."""

    # --- the line to type into

    @property
    def asking(self) -> bool:
        """Returns whether the line is open; all keys are its until it is closed."""

    def ask(self, question: Question) -> None:
        """Opens the line; every key from the one that led here on is typed into it."""

    def remark(self, text: str) -> None:
        """Says something at the right end of the line, such as how many rows match."""

    # --- what is known of a run that is being read

    def failure(self, side: Side) -> str:
        """Returns why the requested run could not be opened; empty if nothing failed."""

    def is_loading(self, side: Side) -> bool:
        """Returns whether a run is being read to become A or B."""

    # --- what must have happened before the view goes on

    def configure_columns(self, page: str, columns: Sequence[Field]) -> None:
        """Applies which columns of a page the settings show and hide."""

    @property
    def came_from_finding(self) -> bool:
        """Returns whether the tab in view shows rows that a finding led to."""

    @property
    def came_by_jump(self) -> bool:
        """Returns whether something of another tab led to the tab in view."""

    def here(self) -> Visit | None:
        """Returns the current place; None until there is one."""

    def leave(self, place: Visit | None = None) -> None:
        """Adds a place to the history, by default the current one, before the view goes to another."""


class Hosting(Protocol):
    """The application, as the object that provides the host."""

    @property
    def host(self) -> Host:
        """Returns the host for its views."""
