"""Ends the program, once every part of the screen has finished its pending messages.

Once `App.exit` is called, Textual puts up no more children: a view or dialog that is half there finds none of its
parts, and each message that still waits fails in it. So the end waits until nothing is half there, a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.events import InputEvent, Key, Paste

from tracetui.app.keys import commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App
    from textual.dom import DOMNode
    from textual.events import Event

LEAVING_SECONDS = 1.0
"""The program ends after this time even if parts are unfinished: a part that never answers must not keep it open."""


class Leaving:
    """Ends an application."""

    def __init__(self, app: App[None], before: Callable[[], None]) -> None:
        """Sets up.

        Args:
            app: the application to end.
            before: called once while all views still exist; saves state and cancels work in progress.
        """
        self._app, self._before = app, before
        self._end: Callable[[], None] | None = None
        self.asked = False
        """Whether the end was requested: nothing new starts, and nobody waits for work in progress."""
        self.done = False
        """Whether every part is finished, so that the program can end."""
        self._asked_last: frozenset[DOMNode] = frozenset()
        self._unanswered = 0

    def ask(self, end: Callable[[], None]) -> None:
        """Saves the state and ends the application; a second call does nothing.

        Args:
            end: Textual's own way of ending it.
        """
        if self.asked:
            return
        self.asked, self._end = True, end
        self._app.call_later(self._ask_all)
        self._app.call_later(self._app.set_timer, LEAVING_SECONDS, self._leave)
        self._before()

    def uses_up(self, event: Event) -> bool:
        """Ends the program on a key that quits; returns whether an event is input for which nothing else is left.

        Textual looks up no key of the application while a dialog is open.
        """
        if isinstance(event, Key) and len(self._app.screen_stack) > 1 and commands.quits(event.key):
            self._app.exit()
        return self.asked and isinstance(event, (InputEvent, Paste))

    def _ask_all(self) -> None:
        """Asks every part to answer after its pending messages; a part answers once its children exist."""
        if self.done:
            return
        parts = {part for screen in self._app.screen_stack for part in screen.walk_children(with_self=True)}
        settled = parts == self._asked_last
        self._asked_last = frozenset(parts)
        if settled:
            self._leave()
            return
        self._unanswered = sum(part.call_later(self._answered) for part in parts)
        if not self._unanswered:
            self._leave()

    def _answered(self) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self._app.call_later(self._ask_all)

    def _leave(self) -> None:
        """Ends the application now."""
        if not self.done and self._end is not None:
            self.done = True
            self._end()
