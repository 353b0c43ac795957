"""One line to type into: the filter, or the name of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.timer import Timer

DEBOUNCE_SECONDS = 0.12


class PromptInput(Input):
    """An input without blinking that hands Esc to its prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", show=False),
        Binding("down", "submit", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self.cursor_blink = False

    def action_give_up(self) -> None:
        """Leaves the line."""
        self.post_message(Prompt.Cancelled())


class Prompt(Horizontal):
    """A label, a line to type into, and a remark at the right."""

    class Changed(Message):
        """The text changed, and nothing was typed for a moment."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    class Submitted(Message):
        """Enter was pressed."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    class Cancelled(Message):
        """Esc was pressed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.purpose = ""
        """What the line is open for; empty while it is closed."""
        self._pending: Timer | None = None

    def compose(self) -> ComposeResult:
        """Label, input, remark."""
        yield Static(markup=False, id="prompt-label")
        yield PromptInput()
        yield Static(markup=False, id="prompt-remark")

    def open(self, purpose: str, label: str, value: str) -> None:
        """Shows the line and puts the cursor at the end of `value`."""
        self.purpose = purpose
        self.display = True
        self.query_one("#prompt-label", Static).update(Text(f" {label} "))
        self.remark("")
        line = self.query_one(PromptInput)
        with line.prevent(Input.Changed):
            line.value = value
        line.cursor_position = len(value)
        line.focus()

    def close(self) -> None:
        """Hides the line."""
        self._stop_waiting()
        self.purpose = ""
        self.display = False

    def remark(self, text: str) -> None:
        """Says something at the right end, such as how many rows match."""
        self.query_one("#prompt-remark", Static).update(Text(f" {text} " if text else ""))

    def _stop_waiting(self) -> None:
        if self._pending is not None:
            self._pending.stop()
            self._pending = None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Waits for a pause in typing."""
        event.stop()
        self._stop_waiting()
        text = event.value
        self._pending = self.set_timer(DEBOUNCE_SECONDS, lambda: self.post_message(self.Changed(text)))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hands the text on at once."""
        event.stop()
        self._stop_waiting()
        self.post_message(self.Submitted(event.value))
