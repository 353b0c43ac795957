"""Screens over the main one: texts to read, and lists to choose a run from."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.text.fitting import fit, pad, printable, to_ascii, wrapped
from tracetui.app.text.paths import is_folder, is_there, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.events import Paste

    from tracetui.app.keys.keymap import Command

Choice: TypeAlias = "tuple[str, tuple[Path, ...]]"
"""A run to choose: its name, and the paths to read."""

R = TypeVar("R")

MOVES = {"j": "cursor_down", "k": "cursor_up", "g": "first", "G": "last", "ctrl+d": "page_down", "ctrl+u": "page_up"}


MOVE_KEYS = (
    ("j ↓", "down"),
    ("k ↑", "up"),
    ("Ctrl+D", "a page down"),
    ("Ctrl+U", "a page up"),
    ("g", "first"),
    ("G", "last"),
)
"""`MOVES` in words."""


class TextScreen(ModalScreen[None]):
    """Shows a text to read; Esc, q or Enter closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "dismiss", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space,ctrl+d", "scroll(10)", show=False),
        Binding("pageup,ctrl+u", "scroll(-10)", show=False),
        Binding("home,g", "scroll(-100000)", show=False),
        Binding("end,G", "scroll(100000)", show=False),
    ]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """Lays out a title, the text, and a line of keys."""
        with Vertical(id="reader"):
            yield Static(self._title, markup=False, id="dialog-title")
            with VerticalScroll(id="reader-text", can_focus=False):
                yield Static(self._text, markup=False)
            yield Static(" Esc closes, arrows scroll", markup=False, id="reader-foot")

    @property
    def text(self) -> str:
        """Returns the text."""
        return self._text.plain

    def action_scroll(self, lines: int) -> None:
        """Scrolls the text."""
        self.query_one("#reader-text").scroll_relative(y=lines, animate=False)


def help_text(tab: str, columns: Iterable[tuple[str, str]], *, ascii: bool, width: int = 80) -> Text:
    """Makes the help page of a tab from the registry and the tab's columns.

    Args:
        tab: the tab in view.
        columns: (title, meaning) of the columns of its table.
        ascii: no characters outside ASCII.
        width: columns of the page; longer lines wrap with a hanging indent.
    """

    def entry(key: str, words: str) -> None:
        first, *rest = wrapped(own(words), max(width - 17, 20)) or [""]
        text.append(f"  {own(key):<14} {first}\n")
        for line in rest:
            text.append(f"{'':17}{line}\n")

    def own(words: str) -> str:
        return to_ascii(words) if ascii else words

    text = Text()
    # what only this tab, or few of them, can do comes first; then what tables can, then what works everywhere
    title = tabs.TITLES[tab]
    groups: dict[str, list[Command]] = {title: [], "Table": []}
    for command in (command for command in commands.in_tab(tab) if command.shown):
        groups.setdefault(title if command.tabs and command.tabs != tabs.TABLES else command.group, []).append(command)
    for group in filter(groups.get, groups):
        text.append(f"{group}\n", "bold")
        digits = [command.shown for command in groups[group] if command.shown.isdigit()]
        if digits:
            names = ", ".join(tabs.TITLES.values())
            entry(f"{digits[0]} to {digits[-1]}", names)
        for command in groups[group]:
            if not command.shown.isdigit():
                entry(command.shown, command.title)
        if group == title and tab not in tabs.TABLES and (signs := tuple(columns)):
            text.append("Signs\n", "bold")
            for sign, meaning in signs:
                entry(sign, meaning)
    if tab in tabs.TABLES:
        from tracetui.app.tables.filters import FILTER_HELP  # imports Polars, which the list at the start does without

        text.append("What / understands\n", "bold")
        for example, meaning in FILTER_HELP:
            entry(example, meaning)
        text.append("Columns\n", "bold")
        for title, about in columns:
            entry(title, about)
    text.rstrip()
    return text


def list_help(
    title: str, keys: Iterable[tuple[str, str]], words: Iterable[str], *, ascii: bool, width: int
) -> TextScreen:
    """Returns a screen with the keys of a list.

    Args:
        title: the list's name.
        keys: (key, what it does).
        words: sentences behind the keys; each begins a line.
        ascii: no characters outside ASCII.
        width: columns of the page.
    """
    lines = [f"  {key:<10} {what}" for key, what in (*keys, *MOVE_KEYS)]
    for sentence in words:
        lines += ["", *(f"  {line}" for line in wrapped(sentence, max(width - 4, 20)))]
    text = "\n".join(lines)
    return TextScreen(f" Help: {title}", Text(to_ascii(text) if ascii else text))


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


class PathLine(Input):
    """The line for a path beside a list; what is pasted while the list has the keys goes there too."""

    def __init__(self) -> None:
        super().__init__(placeholder="path of a trace or folder, Enter opens it", compact=True, id="picker-path")
        self.cursor_blink = False

    def take(self, event: Paste) -> None:
        """Takes what was pasted into the list."""
        event.stop()
        self.focus()
        self.value = next(iter(event.text.splitlines()), "")
        self.cursor_position = len(self.value)


class PathScreen(ListScreen["tuple[Path, ...]"]):
    """A list of recordings, and a line for the path of another; its result is the paths to open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("o", "type", show=False),
        Binding("question_mark,f1", "help", show=False),
    ]
    ABOUT: ClassVar[tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]]
    """The list's name, its keys, and sentences, for the help page."""
    ascii = False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Returns the typed path if it exists; otherwise says that it does not."""
        event.stop()
        if not event.value.strip():
            return
        path = typed(event.value)
        if is_there(path):
            self.dismiss((path,))
        else:
            self.remark("No such file or folder: ", path)

    def remark(self, words: str, path: Path) -> None:
        """Says something about a path in the place of the keys."""
        room = max(self.size.width - len(words) - 2, 8)
        shown = fit(printable(str(path), ascii=self.ascii), room, ascii=self.ascii, keep_end=True)
        self.query_one("#reader-foot", Static).update(f" {words}{shown}")

    def on_paste(self, event: Paste) -> None:
        """Takes a path that was pasted into the list."""
        self.query_one(PathLine).take(event)

    def action_type(self) -> None:
        """Moves the focus to the line for a path."""
        self.query_one(PathLine).focus()

    def action_help(self) -> None:
        """Shows the keys of the list."""
        self.app.push_screen(list_help(*self.ABOUT, ascii=self.ascii, width=self.size.width))


class RunPicker(PathScreen):
    """A list of runs or files."""

    ABOUT = (
        "recordings",
        (("Enter", "opens the recording or folder"), ("o", "types a path"), ("q Esc", "closes the list")),
        (),
    )

    def __init__(self, title: str, runs: Sequence[Choice], *, ascii: bool) -> None:
        super().__init__()
        self._title = title
        self._runs = list(runs)
        self.ascii = ascii

    def compose(self) -> ComposeResult:
        """Lays out a title, a line for a path, and the list."""
        with Vertical(id="reader"):
            yield Static(self._title, markup=False, id="dialog-title")
            yield PathLine()
            yield OptionList(*(Option(self._label(name, files)) for name, files in self._runs), markup=False)
            foot = " Enter opens  o types a path  j k move  ? help  Esc closes"
            yield Static(foot, markup=False, id="reader-foot")

    def on_mount(self) -> None:
        """Focuses the list, unless it is empty."""
        self.query_one(OptionList if self._runs else Input).focus()

    def _label(self, name: str, files: tuple[Path, ...]) -> Text:
        shown = pad(fit(printable(name, ascii=self.ascii), 56, ascii=self.ascii), 56)
        if any(map(is_folder, files)):
            return Text(f"{shown}     folder")
        size = sum(file.stat().st_size for file in files if is_there(file))
        many = f"  {len(files)} files" if len(files) > 1 else ""
        return Text(f"{shown} {format_bytes(size):>10}{many}")

    def remark(self, words: str, path: Path) -> None:
        """Says something about a path in the place of the keys, from its beginning on."""
        foot = fit(f"{words}{printable(str(path), ascii=self.ascii)}", self.size.width - 2)
        self.query_one("#reader-foot", Static).update(f" {foot}")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Returns the chosen entry."""
        event.stop()
        self.dismiss(self._runs[event.option_index][1])
