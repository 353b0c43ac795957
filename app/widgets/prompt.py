"""The one line to type into: a filter, a time to go to, the name of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.timer import Timer

DEBOUNCE_SECONDS = 0.12
HINTS = (("Enter", "go"), ("Esc", "cancel"))
FILTER_HINTS = (("Enter", "keep"), ("Esc", "clear"), ("text /regex/ !not >100us <5% calls>10", ""))
SAVE_HINTS = (("Enter", "write"), ("Esc", "cancel"))


@dataclass(frozen=True)
class Question:
    """What a line asks for, and who is told what was typed."""

    purpose: str
    """What the line is open for, as ``filter``."""
    label: str
    submitted: Callable[[str], bool]
    """Called on Enter with the text; returns whether the line closes."""
    value: str = ""
    """The text that the line begins with."""
    changed: Callable[[str], object] | None = None
    """Called with the text whenever nothing was typed for a moment."""
    pause: float = DEBOUNCE_SECONDS
    """That moment in seconds; 0 if each letter counts at once."""
    cancelled: Callable[[], object] | None = None
    """Called on Esc, after the line has closed."""
    hints: tuple[tuple[str, str], ...] = HINTS
    """The footer's (key, label) pairs while the line is open."""


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

    class Cancelled(Message):
        """Esc was pressed."""

    def __init__(self, closed: Callable[[], object], *, id: str | None = None) -> None:
        """Sets up; `closed` is called whenever the line was closed, with or without an answer."""
        super().__init__(id=id)
        self._closed_line = closed
        self.question: Question | None = None
        """What is asked; null while the line is closed."""
        self._pending: Timer | None = None
        self._remark = ""
        self.display = False

    def compose(self) -> ComposeResult:
        """Label, input, remark."""
        yield Static(markup=False, id="prompt-label")
        yield PromptInput()
        yield Static(markup=False, id="prompt-remark")

    def on_mount(self) -> None:
        """Opens the line, if it was asked for before it had its parts."""
        if self.question is not None:
            self._show(self.question)

    @property
    def line(self) -> PromptInput:
        """What is typed into."""
        return self.query_one(PromptInput)

    def open(self, question: Question) -> None:
        """Shows the line, and gives it the keys; the cursor stands behind the question's value."""
        self._stop_waiting()
        self.question = question
        self.display = True
        self._remark = ""
        if self.query(PromptInput):
            self._show(question)

    def _show(self, question: Question) -> None:
        self.query_one("#prompt-label", Static).update(Text(f" {question.label} "))
        self.remark(self._remark)
        self.fill(question.value, quiet=True)
        self.screen.set_focus(self.line)

    def fill(self, text: str, *, quiet: bool = False) -> None:
        """Replaces what was typed; a quiet change calls nobody."""
        if quiet:
            with self.line.prevent(Input.Changed):
                self.line.value = text
        else:
            self.line.value = text
        self.line.cursor_position = len(text)

    def close(self) -> None:
        """Hides the line."""
        self._stop_waiting()
        self.question = None
        self.display = False
        self._closed_line()

    def remark(self, text: str) -> None:
        """Says something at the right end, such as how many rows match."""
        self._remark = text
        for remark in self.query("#prompt-remark").results(Static):
            remark.update(Text(f" {text} " if text else ""))

    def _stop_waiting(self) -> None:
        if self._pending is not None:
            self._pending.stop()
            self._pending = None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Waits for a pause in typing."""
        event.stop()
        self._stop_waiting()
        question, text = self.question, event.value
        if question is None or question.changed is None:
            return
        changed = question.changed
        if question.pause:
            self._pending = self.set_timer(question.pause, lambda: changed(text))
        else:
            changed(text)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hands the text on at once."""
        event.stop()
        self._stop_waiting()
        question = self.question
        if question is not None and question.submitted(event.value) and self.question is question:
            self.close()

    def on_prompt_cancelled(self, event: Cancelled) -> None:
        """Closes the line."""
        event.stop()
        question = self.question
        if question is not None:
            self.close()
            if question.cancelled is not None:
                question.cancelled()
