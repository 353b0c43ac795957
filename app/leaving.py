"""The one way out: the program ends once every part of the screen has done what it was asked to do.

Once `App.exit` is called, Textual puts up no more children: a view or dialog that is half there finds none of its
parts, and each message that still waits fails in it. So the end waits until nothing is half there, a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.dom import DOMNode
    from textual.events import Event
    from textual.messages import ExitApp

LEAVING_SECONDS = 1.0
"""After so long, the program ends whatever is half there: a part that never answers must not keep it."""


class Leaving(App[None]):
    """The app as far as it ends."""

    is_leaving = False
    """Whether the end was asked for: nothing new begins, and nobody waits for what is under way."""
    _left = False
    _known: frozenset[DOMNode] = frozenset()
    _missing = 0

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Ends the program, with what was to be kept kept; a second call changes nothing.

        Args:
            result: there is none.
            return_code: of the process.
            message: to be printed behind the screen.
        """
        if self.is_leaving:
            return
        self.is_leaving = True
        self._last_words = return_code, message
        self.call_later(self._ask_all)
        self.call_later(self.set_timer, LEAVING_SECONDS, self._leave)
        self.before_leaving()

    def before_leaving(self) -> None:
        """Called once, with all views still there: keeps what is to be kept, gives up what is under way."""

    def on_exit_app(self, event: ExitApp) -> None:
        """Ends the same way where a driver asks Textual itself for the end, as when a browser's page is closed."""
        if not self._left:
            event.prevent_default()
            self.exit()

    async def on_event(self, event: Event) -> None:
        """Takes no more keys once the end was asked for."""
        from textual.events import InputEvent, Paste

        if not (self.is_leaving and isinstance(event, (InputEvent, Paste))):
            await super().on_event(event)

    def _ask_all(self) -> None:
        """Asks every part to answer after what waits for it; a part answers once its children are there."""
        if self._left:
            return
        parts = {part for screen in self.screen_stack for part in screen.walk_children(with_self=True)}
        settled = parts == self._known
        self._known = frozenset(parts)
        if settled:
            self._leave()
            return
        self._missing = sum(part.call_later(self._answered) for part in parts)
        if not self._missing:
            self._leave()

    def _answered(self) -> None:
        self._missing -= 1
        if not self._missing:
            self.call_later(self._ask_all)

    def _leave(self) -> None:
        """Ends the program now."""
        if not self._left:
            self._left = True
            super().exit(None, *self._last_words)
