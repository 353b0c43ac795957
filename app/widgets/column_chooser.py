"""A list of a table's columns to switch on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from textual.app import ComposeResult

    from tracetui.app.columns import Column


class ColumnChooser(ModalScreen[frozenset[str] | None]):
    """Space or Enter switches a column, Esc closes; the result is the set of hidden columns."""

    BINDINGS: ClassVar[list[Binding]] = [
        Binding("escape,q,c", "done", show=False),
        Binding("space", "switch", show=False),
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def __init__(self, columns: Sequence[Column], hidden: Collection[str], shown: Collection[str]) -> None:
        super().__init__()
        self._columns = columns
        self._hidden = set(hidden)
        self._shown = shown

    def compose(self) -> ComposeResult:
        """A title and the list."""
        with Vertical(id="dialog"):
            yield Static("Columns: Space switches, Esc closes", markup=False, id="dialog-title")
            yield OptionList(*(Option(self._label(column), id=column.name) for column in self._columns), markup=False)

    def _label(self, column: Column) -> Text:
        on = column.name not in self._hidden
        text = Text(f"[{'x' if on else ' '}] {column.label:<16}")
        if on and column.name not in self._shown:
            text.append("no room  ")
        text.append(column.about, "dim")
        return text

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Switches the column."""
        event.stop()
        column = self._columns[event.option_index]
        if event.option_index == 0:
            return
        self._hidden.symmetric_difference_update({column.name})
        self.query_one(OptionList).replace_option_prompt_at_index(event.option_index, self._label(column))

    def action_switch(self) -> None:
        """Switches the column under the cursor."""
        self.query_one(OptionList).action_select()

    def action_cursor(self, step: int) -> None:
        """Moves in the list."""
        options = self.query_one(OptionList)
        if step > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def action_done(self) -> None:
        """Hands the choice back."""
        self.dismiss(frozenset(self._hidden))
