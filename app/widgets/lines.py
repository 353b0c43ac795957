"""The one-line parts of the screen: header, tab bar, title, footer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.strip import Strip

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.text import fitting
from tracetui.app.widgets.painted import Painted


class Line(Painted):
    """One line of text with a left and a right side; text that does not fit is cut visibly."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._left: str | Text = ""
        self._right: str | Text = ""
        self.ascii = False

    def show(self, left: str | Text, right: str | Text = "") -> None:
        """Sets both sides; names in them must have passed `fitting.printable`."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    @property
    def left(self) -> str | Text:
        """What stands at the left."""
        return self._left

    @property
    def text(self) -> str:
        """What the line says, both sides."""
        return f"{self._left} {self._right}".strip()

    def render_line(self, y: int) -> Strip:
        """The line; nothing below it."""
        return self.strip_of(Text() if y else self.render())

    def render(self) -> Text:
        """The line at the width there is; the right side wins where both don't fit."""
        width = self.size.width
        left = self._left.copy() if isinstance(self._left, Text) else Text(self._left)
        right = self._right.copy() if isinstance(self._right, Text) else Text(self._right)
        room = width - right.cell_len - (1 if right else 0)
        if room < 8:
            right, room = Text(), width
        if left.cell_len > room:
            mark = "~" if self.ascii else "…"
            left.truncate(max(room - 1, 0))
            left.append(mark)
        left.pad_right(max(width - left.cell_len - right.cell_len, 0))
        left.append_text(right)
        left.no_wrap = True
        return left


TAB_FORMS: tuple[tuple[int | None, str, str], ...] = (
    (None, " ", " "), (None, " ", ""), (9, " ", ""), (4, " ", ""), (3, " ", ""), (2, " ", ""), (2, "", ""),
    (1, " ", ""), (0, "", ""),
)  # fmt: skip
"""How tabs are written where there is less and less room: letters of the short title (None: the title), what stands
after the key, what stands around both."""


class TabBar(Painted):
    """The tabs in one line; the current one stands in brackets, so that it shows without colours too."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"tabbar--active", "tabbar--tab"}

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        tab: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.active = "overview"
        self.filled: frozenset[str] = frozenset()
        """The tabs that the run has something for."""
        self._spans: list[tuple[int, int, str]] = []

    def show(self, active: str) -> None:
        """Marks the current tab."""
        self.active = active
        self.refresh()

    def offer(self, filled: frozenset[str]) -> None:
        """Shows these tabs beside those that are always there."""
        if filled != self.filled:
            self.filled = filled
            self.refresh()

    def render(self) -> Text:
        """The bar, tighter where the terminal is narrow."""
        text = Text(no_wrap=True)
        self._spans.clear()
        for tab, label in tab_labels(self.active, self.size.width, self.filled):
            style = self.get_component_rich_style("tabbar--active" if tab == self.active else "tabbar--tab")
            begin = text.cell_len
            text.append(label, style)
            self._spans.append((begin, text.cell_len, tab))
            text.append(" ")
        text.truncate(self.size.width)
        return text

    def on_click(self, event: Click) -> None:
        """Goes to the tab under the pointer."""
        for begin, end, tab in self._spans:
            if begin <= event.x < end:
                self.post_message(self.Chosen(tab))


def tab_labels(active: str, width: int, filled: Collection[str] = ()) -> list[tuple[str, str]]:
    """Returns (tab, label) of each tab: titles as long as the width allows, the active one in full."""
    labels: list[tuple[str, str]] = []
    for room, gap, pad in TAB_FORMS:
        labels.clear()
        for tab in tabs.shown(active, filled):
            key = commands.tab_key(tabs.NAMES.index(tab.id) + 1)
            shown = f"{key}{gap}{tab.title if room is None else tab.short[:room]}".rstrip()
            labels.append((tab.id, f"[{key} {tab.title}]" if tab.id == active else f"{pad}{shown}{pad}"))
        if sum(len(label) + 1 for _, label in labels) - 1 <= width:
            break
    return labels


class Footer(Painted):
    """One line: the keys that matter here, or what the program has to say until the next key."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"footer--key", "footer--label", "footer--message"}

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hints: Sequence[tuple[str, str]] = ()
        self.message = ""
        self.ascii = False

    def show(self, hints: Sequence[tuple[str, str]]) -> None:
        """Sets the keys."""
        if list(hints) != list(self._hints):
            self._hints = hints
            self.refresh()

    def say(self, message: str) -> None:
        """Shows a message in place of the keys; an empty one brings them back."""
        if message != self.message:
            self.message = message
            self.refresh()

    def render(self) -> Text:
        """The message, or the keys."""
        if self.message:
            style = self.get_component_rich_style("footer--message")
            said = fitting.fit(self.message, self.size.width - 2, ascii=self.ascii)
            return Text(f" {said}", style, no_wrap=True, overflow="crop")
        key_style = self.get_component_rich_style("footer--key")
        label_style = self.get_component_rich_style("footer--label")
        text = Text(" ", no_wrap=True, overflow="crop")
        for key, label in self._hints:
            text.append(key, key_style)
            text.append(f" {label}  ", label_style)
        return text
