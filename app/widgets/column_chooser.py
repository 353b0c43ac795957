"""A list of a table's columns to switch on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tracetui.app.text import fitting

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from tracetui.analysis.tables.table import Field
    from tracetui.app.widgets.frame_table import FrameTable


WIDTH = 70
"""Cells of a line of the list."""


class ColumnChooser(ModalScreen["tuple[frozenset[str], frozenset[str]]"]):
    """Space or Enter shows or hides a column, r takes all choices back, Esc closes.

    One that is asked for and has no room goes before others, which the list then marks. The result is the hidden
    columns, and those asked for in this way.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,c", "done", show=False),
        Binding("space", "switch", show=False),
        Binding("r", "reset", show=False),
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def __init__(self, table: FrameTable) -> None:
        super().__init__()
        self._columns = table.columns
        self._hidden, self._pinned = set(table.hidden), set(table.pinned)
        self._room_for = table.room_for
        self._ascii = table.ascii
        self._shown = table.room_for(self._hidden, self._pinned)

    def compose(self) -> ComposeResult:
        """A title and the list."""
        with Vertical(id="dialog"):
            title = "Columns: Space shows or hides, r takes all choices back, Esc closes"
            yield Static(title, markup=False, id="dialog-title")
            yield OptionList(*(Option(self._label(column), id=column.name) for column in self._columns), markup=False)

    def _label(self, column: Field) -> Text:
        mark = " " if column.name in self._hidden else "x" if column.name in self._shown else "-"
        remark = "no room; " if mark == "-" else "always; " if column is self._columns[0] else ""
        text = Text(f"[{mark}] {fitting.printable(column.label, ascii=self._ascii):<12} ", no_wrap=True)
        text.append(fitting.fit(remark + column.about, WIDTH - len(text), ascii=self._ascii))
        return text

    def _show(self) -> None:
        """Updates the mark of every column: showing one may push another out."""
        self._shown = self._room_for(self._hidden, self._pinned)
        options = self.query_one(OptionList)
        for index, column in enumerate(self._columns):
            options.replace_option_prompt_at_index(index, self._label(column))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Switches the column."""
        event.stop()
        if event.option_index == 0:
            return
        name = self._columns[event.option_index].name
        if name in self._shown or name in self._pinned:
            self._hidden.add(name)
            self._pinned.discard(name)
        else:
            self._hidden.discard(name)
            if name not in self._room_for(self._hidden, self._pinned):
                self._pinned.add(name)
        self._show()

    def action_reset(self) -> None:
        """Takes all choices back."""
        self._hidden = {column.name for column in self._columns if column.hidden}
        self._pinned.clear()
        self._show()

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
        """Closes with the choice as result."""
        self.dismiss((frozenset(self._hidden), frozenset(self._pinned)))
