"""What `tracetui` alone shows: recordings of the current folder, and those opened lately."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tracetui.app.formats import cell_width, fit, format_bytes, pad, printable, to_ascii
from tracetui.app.recent import age, recents
from tracetui.app.screens import MOVES, traces_beside
from tracetui.app.words import SHORT_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.events import Resize

HERE_SHOWN = 200
SIZE_WIDTH, AGE_WIDTH, TOOL_WIDTH = 10, 11, 12
NOTHING = (
    "No recording in this folder, and none was opened before.",
    "",
    "tracetui open PATH             a trace, or a folder of them",
    "tracetui open --sample         a recording that ships with tracetui",
    "tracetui profile vim_tiny      records one (tracetui profile --help)",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list; one without a path is a heading."""

    label: str
    path: Path | None = None
    tools: str = ""
    size: str = ""
    when: str = ""
    missing: bool = False


def entries(folder: Path, samples: Sequence[Path] = (), *, now: float | None = None) -> list[Entry]:
    """The recordings in a folder, those opened lately, and those that ship with the program.

    Args:
        folder: the current one.
        samples: what ships with the program.
        now: seconds since 1970.
    """
    now = time.time() if now is None else now
    found: list[Entry] = []
    here = traces_beside(folder)[:HERE_SHOWN]
    if here:
        found.append(Entry("In this folder"))
        found += [Entry(name, paths[0], size=_size(paths[0])) for name, paths in here]
    lately = recents()
    if lately:
        found.append(Entry("Opened lately"))
    for recent in lately:
        tools = ", ".join(SHORT_KINDS[kind] for kind in recent.kinds)
        size = "" if recent.bytes is None else format_bytes(recent.bytes)
        label, when = short_path(recent.path, folder), age(recent.opened, now)
        found.append(Entry(label, recent.path, tools, size, when, missing=not recent.is_there))
    fresh = [path for path in samples if not any(path == recent.path for recent in lately)]
    if fresh:
        found.append(Entry("Comes with tracetui"))
        found += [Entry(path.name, path, size=_size(path)) for path in fresh]
    return found


def short_path(path: Path, folder: Path) -> str:
    """A path as a person would type it: from here, from home, or whole."""
    for base, mark in ((folder, ""), (_home(), "~")):
        if base is not None and path != base and path.is_relative_to(base):
            below = path.relative_to(base).as_posix()
            return f"{mark}/{below}" if mark else below
    return str(path)


def plain(found: Sequence[Entry], *, ascii: bool = False) -> str:
    """The list as lines of text, for where there is no screen."""
    lines: list[str] = []
    for entry in found:
        if entry.path is None:
            lines += [*([""] if lines else []), f"{entry.label}:"]
            continue
        facts = [word for word in (entry.tools, entry.size, entry.when, "missing" if entry.missing else "") if word]
        lines.append(f"  {entry.label}" + (f"   ({', '.join(facts)})" if facts else ""))
    return "\n".join(printable(line, ascii=ascii) for line in lines)


class StartScreen(ModalScreen["Path | None"]):
    """A list to choose from, and a line for another path; null is to leave."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("q,ctrl+q,ctrl+c", "cancel", show=False),
        Binding("o", "type", show=False),
        *(Binding(key, f"move('{action}')", show=False) for key, action in MOVES.items()),
    ]

    def __init__(self, found: Sequence[Entry], *, ascii: bool, problem: str = "") -> None:
        """`problem` says why what was chosen before could not be opened."""
        super().__init__()
        self._problem = problem
        self._entries = list(found)
        self._ascii = ascii

    def compose(self) -> ComposeResult:
        """A title, a line for a path, the list, the keys."""
        with Vertical(id="reader"):
            yield Static(" tracetui: which recording?", markup=False, id="dialog-title")
            line = Input(placeholder="path of a trace or folder, Enter opens it", compact=True, id="picker-path")
            line.cursor_blink = False
            yield line
            known = any(entry.path is not None and entry.path.exists() for entry in self._entries)
            if not known:
                yield Static("\n".join(f" {line}" for line in NOTHING), markup=False, id="start-help")
            yield OptionList(markup=False)
            foot = self._problem or "Enter opens  o types a path  j k move  q quits"
            yield Static(f" {printable(foot, ascii=self._ascii)}", markup=False, id="reader-foot")

    def on_mount(self) -> None:
        """The list has the keys, unless it is empty."""
        self._fill()
        options = self.query_one(OptionList)
        options.display = bool(self._entries)
        if self._entries:
            options.focus()
            options.highlighted = next(
                (at for at, entry in enumerate(self._entries) if entry.path is not None and not entry.missing), None
            )
        else:
            self.query_one(Input).focus()

    def on_resize(self, event: Resize) -> None:
        """Shares the new width."""
        self._fill()

    def _fill(self) -> None:
        options = self.query_one(OptionList)
        at = options.highlighted
        options.clear_options()
        options.add_options([Option(self._row(entry), disabled=entry.path is None) for entry in self._entries])
        options.highlighted = at

    def _row(self, entry: Entry) -> Text:
        width = (self.size.width or 80) - 1
        if entry.path is None:
            return Text(f" {entry.label}", "bold", no_wrap=True)
        ascii = self._ascii
        facts = (
            f"  {pad(entry.tools[:TOOL_WIDTH], TOOL_WIDTH)}"
            if width >= 70 and any(e.tools for e in self._entries)
            else ""
        )
        facts += f"  {pad(entry.size, SIZE_WIDTH, right=True)}"
        if any(e.when for e in self._entries):
            facts += f"  {pad('missing' if entry.missing else entry.when, AGE_WIDTH)}"
        room = max(width - 3 - cell_width(facts), 8)
        name = fit(printable(entry.label, ascii=ascii), room, ascii=ascii, keep_end=True)
        return Text(
            f"   {pad(name, room)}{to_ascii(facts) if ascii else facts}", "dim" if entry.missing else "", no_wrap=True
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """One was chosen."""
        event.stop()
        entry = self._entries[event.option_index]
        if entry.path is not None and not entry.path.exists():
            foot = f" {printable(str(entry.path), ascii=self._ascii)}: no longer there"
            self.query_one("#reader-foot", Static).update(foot)
        else:
            self.dismiss(entry.path)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A path was typed."""
        event.stop()
        typed = event.value.strip()
        if not typed:
            return
        path = Path(typed).expanduser()
        if path.exists():
            self.dismiss(path)
        else:
            foot = f" {printable(str(path), ascii=self._ascii)}: no such file or folder"
            self.query_one("#reader-foot", Static).update(foot)

    def action_type(self) -> None:
        """Goes to the line for a path."""
        self.query_one(Input).focus()

    def action_move(self, where: str) -> None:
        """Moves in the list with the keys of the tables."""
        getattr(self.query_one(OptionList), f"action_{where}")()

    def action_cancel(self) -> None:
        """From the line for a path back to the list; from there out."""
        if self._entries and isinstance(self.focused, Input):
            self.query_one(OptionList).focus()
        else:
            self.dismiss(None)


def _size(path: Path) -> str:
    try:
        return "folder" if path.is_dir() else format_bytes(path.stat().st_size)
    except OSError:
        return ""


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None
