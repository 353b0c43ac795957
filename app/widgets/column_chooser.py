"""A list of a table's columns to switch on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from textual.app import ComposeResult

    from tracetui.app.columns import Column


class ColumnChooser(ModalScreen["tuple[frozenset[str], frozenset[str]]"]):
    """Space or Enter shows or hides a column, Esc closes.

    The result is the hidden columns, and those that were asked for and so go before others where room is short.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,c", "done", show=False),
        Binding("space", "switch", show=False),
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def __init__(
        self, columns: Sequence[Column], *, hidden: Collection[str], pinned: Collection[str], shown: Collection[str]
    ) -> None:
        super().__init__()
        self._columns = columns
        self._hidden = set(hidden)
        self._pinned = set(pinned)
        self._crowded = {column.name for column in columns} - set(shown) - self._hidden
        """Those that would be shown, had they room."""

    def compose(self) -> ComposeResult:
        """A title and the list."""
        with Vertical(id="dialog"):
            yield Static("Columns: Space shows or hides, Esc closes", markup=False, id="dialog-title")
            yield OptionList(*(Option(self._label(column), id=column.name) for column in self._columns), markup=False)

    def _label(self, column: Column) -> Text:
        mark = " " if column.name in self._hidden else "-" if column.name in self._crowded else "x"
        remark = "no room; " if mark == "-" else ""
        text = Text(f"[{mark}] {column.label:<12} ", no_wrap=True)
        text.append(remark + column.about, "dim")
        text.truncate(70, overflow="crop")
        return text

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Switches the column."""
        event.stop()
        column = self._columns[event.option_index]
        if event.option_index == 0:
            return
        name = column.name
        if name in self._hidden or name in self._crowded:
            self._hidden.discard(name)
            self._crowded.discard(name)
            self._pinned.add(name)
        else:
            self._hidden.add(name)
            self._pinned.discard(name)
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
        self.dismiss((frozenset(self._hidden), frozenset(self._pinned)))
