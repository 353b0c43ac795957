"""A list over the screen, with the keys of tables."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import OptionList

R = TypeVar("R")
MOVES = {"j": "cursor_down", "k": "cursor_up", "g": "first", "G": "last", "ctrl+d": "page_down", "ctrl+u": "page_up"}


class ListScreen(ModalScreen["R | None"], Generic[R]):
    """A list to choose from, with the keys of tables; its result is what was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "cancel", show=False),
        *(Binding(key, f"move('{action}')", show=False) for key, action in MOVES.items()),
    ]

    def action_move(self, where: str) -> None:
        """Moves in the list with the same keys as in tables."""
        getattr(self.query_one(OptionList), f"action_{where}")()

    def action_cancel(self) -> None:
        """Closes the screen without a choice."""
        self.dismiss(None)
