"""The one line to type into: a filter, a time to go to, the name of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, Static

from tracetui.app.text.fitting import cell_width
from tracetui.app.widgets.painted import Painted

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult
    from textual.geometry import Region, Size
    from textual.timer import Timer
    from typing_extensions import Self

DEBOUNCE_SECONDS = 0.12
HINTS = (("Enter", "go"), ("Esc", "cancel"))
FILTER_HINTS = (("Enter", "keep"), ("Esc", "clear"), ("text a|b /regex/ !not >100us <5% calls>10", ""))
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
    suggested: bool = False
    """Whether that text is a suggestion, which typing replaces and Right or End keeps."""
    changed: Callable[[str], object] | None = None
    """Called with the text whenever nothing was typed for a moment."""
    pause: float = DEBOUNCE_SECONDS
    """That moment in seconds; 0 if each letter counts at once."""
    cancelled: Callable[[], object] | None = None
    """Called on Esc, after the line has closed."""
    hints: tuple[tuple[str, str], ...] = HINTS
    """The footer's (key, label) pairs while the line is open."""
    history: tuple[str, ...] = ()
    """Earlier texts, the latest last, which Up and Down bring back."""
    completes: Callable[[str, str], tuple[str, str]] | None = None
    """Called on Tab with the text before and behind the cursor; returns what to insert, and what to say below."""
    below: str = ""
    """What stands below the line."""
    joins: Callable[[str], str] | None = None
    """Makes one line of pasted text that has several; without it, the first line counts."""


class PromptInput(Input):
    """An input without blinking that hands Esc to its prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", show=False),
        Binding("down", "down", show=False),
        Binding("up", "up", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self.cursor_blink = False

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Paints the line anew; what is typed moves nothing else, as the line takes what room there is."""
        return super().refresh(*regions, repaint=repaint, layout=layout and not self.outer_size, recompose=recompose)

    def notify_style_update(self) -> None:
        """Colours have changed, and with them the room that a remark leaves."""
        super().notify_style_update()
        for part in self.siblings:
            part.refresh()

    def action_give_up(self) -> None:
        """Leaves the line."""
        self.post_message(Prompt.Cancelled())

    async def action_down(self) -> None:
        """Brings the next of the earlier texts; where there are none to choose from, submits what writes no file."""
        prompt = self.query_ancestor(Prompt)
        writes = prompt.question is not None and SAVE_HINTS[0] in prompt.question.hints
        if not prompt.go_through(1) and not writes:
            await self.action_submit()

    def action_up(self) -> None:
        """Brings the text before this one."""
        self.query_ancestor(Prompt).go_through(-1)

    def on_paste(self, event: events.Paste) -> None:
        """Pastes several lines as one, if the question can join them."""
        question = self.query_ancestor(Prompt).question
        if question is not None and question.joins is not None:
            event.prevent_default()
            event.stop()
            self.replace(question.joins(event.text), *self.selection)


class Remark(Painted):
    """Words at the right end of the line, in a place that grows with them and shrinks when they end.

    What is typed changes them with every letter, and the screen is laid out anew only where they need more room.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._words = ""
        self._room = 0
        self._beside = 0
        """The width of the whole line, in which they had that room."""

    def say(self, words: str) -> None:
        """Shows these words."""
        if words == self._words:
            return
        self._words = words
        needed = cell_width(words)
        grows = needed > self._room or not words
        if grows:
            self._room = needed
        self.refresh(layout=grows)

    def give_room(self) -> None:
        """Takes no more room than the words need: the line is full."""
        if self._room > (needed := cell_width(self._words)):
            self._room = needed
            self.refresh(layout=True)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """The room of the longest words so far in a terminal of this width."""
        if container.width != self._beside:
            self._room, self._beside = cell_width(self._words), container.width
        return self._room

    def render_line(self, y: int) -> Strip:
        """The words at the right of their room; what they leave of it looks like the line that they stand behind."""
        words = self.strip_of(Text(self._words))
        left = self.outer_size.width - cell_width(self._words)
        lines = [part for part in self.siblings if isinstance(part, PromptInput)]
        if left <= 0 or not lines:
            return words
        return Strip.join([Strip.blank(left, lines[0].rich_style), words.crop(0, self.outer_size.width - left)])


class Prompt(Vertical):
    """A label, a line to type into, a remark at the right, and what there is to say about it below."""

    class Cancelled(Message):
        """Esc was pressed."""

    def __init__(self, closed: Callable[[], object], *, id: str | None = None) -> None:
        """Sets up; `closed` is called whenever the line was closed, with or without an answer."""
        super().__init__(id=id)
        self._closed_line = closed
        self.question: Question | None = None
        """What is asked; None while the line is closed."""
        self._pending: Timer | None = None
        self._remark = ""
        self._below = ""
        self._at = 0
        """Which text of the history is in the line; its length stands for the one that is typed."""
        self._typed = ""
        self.display = False

    def compose(self) -> ComposeResult:
        """Label, input, remark; below them a text."""
        with Horizontal(id="prompt-line"):
            yield Static(markup=False, id="prompt-label")
            yield PromptInput()
            yield Remark(id="prompt-remark")
        yield Static(markup=False, id="prompt-below")

    def on_mount(self) -> None:
        """Opens the line, if it was asked for before it had its parts."""
        if self.question is not None:
            self._show(self.question)

    @property
    def line(self) -> PromptInput:
        """What is typed into."""
        return self.query_one(PromptInput)

    def open(self, question: Question) -> None:
        """Shows the line, and gives it the keys; the cursor stands behind the question's value.

        A suggested value is selected.
        """
        self._stop_waiting()
        self.question = question
        self.display = True
        self._remark, self._below = "", question.below
        self._at, self._typed = len(question.history), ""
        if self.query(PromptInput):
            self._show(question)

    def _show(self, question: Question) -> None:
        self.query_one("#prompt-label", Static).update(Text(f" {question.label} "))
        self.remark(self._remark)
        self.explain(self._below)
        self.fill(question.value, quiet=True)
        if question.suggested:
            self.line.select_all()
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
        for remark in self.query(Remark):
            remark.say(f" {text} " if text else "")

    def explain(self, text: str) -> None:
        """Says something below the line, such as what is wrong with what was typed."""
        self._below = text
        for below in self.query("#prompt-below").results(Static):
            below.update(Text(text))
            below.display = bool(text)

    def go_through(self, step: int) -> bool:
        """Puts an earlier or later text of the history into the line; returns whether the question has a history."""
        question = self.question
        if question is None or not question.history:
            return False
        at = min(max(self._at + step, 0), len(question.history))
        if at != self._at:
            if self._at == len(question.history):
                self._typed = self.line.value
            self._at = at
            self.fill([*question.history, self._typed][at])
        return True

    def complete(self) -> None:
        """Completes the word before the cursor, if the question knows its words."""
        question, line = self.question, self.line
        if question is None or question.completes is None:
            return
        more, said = question.completes(line.value[: line.cursor_position], line.value[line.cursor_position :])
        if more:
            line.insert_text_at_cursor(more)
        self.explain(said or question.below)

    def _stop_waiting(self) -> None:
        if self._pending is not None:
            self._pending.stop()
            self._pending = None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Waits for a pause in typing."""
        event.stop()
        if self.line.virtual_size.width >= self.line.outer_size.width:
            self.query_one(Remark).give_room()
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
