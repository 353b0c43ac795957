"""The screen of `tracetui` without arguments: recordings of the current folder and recent ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tracetui.app.screen.dialogs.common import PathLine, PathScreen
from tracetui.app.screen.dialogs.start_list import NOTHING, Entry, entries, recordings_in
from tracetui.app.session import jobs
from tracetui.app.text.fitting import cell_width, fit, pad, printable, to_ascii
from tracetui.app.text.paths import is_there

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.events import Paste, Resize


FOOT = " Enter opens  o types a path  j k move  ? help  q quits"
KEYS = (
    ("Enter", "opens the recording, or all recordings of the folder as runs"),
    ("o", "types a path; Tab and Esc lead back to the list"),
    ("q Esc", "quits"),
)
WORDS = (
    "The list has the recordings in the current folder, those that were opened lately, and a sample. A path that is "
    "pasted goes into the line above the list.",
    "Recordings are Chrome traces of torch.profiler or JAX (.json, .json.gz), exports of Nsight Systems (.sqlite) and "
    "Nsight Compute (.csv), and memory snapshots (.pickle).",
    "From the shell: tracetui open PATH; tracetui profile vim_tiny records one; tracetui --help lists all commands.",
)
SIZE_WIDTH, AGE_WIDTH, TOOL_WIDTH = 10, 11, 12


class StartScreen(PathScreen):
    """The recordings to choose from, and a line for another path; without a result, the program ends."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q,ctrl+c", "cancel", show=False)]
    ABOUT = ("which recording?", KEYS, WORDS)

    def __init__(self, folder: Path, samples: Sequence[Path], *, ascii: bool, problem: str = "") -> None:
        super().__init__()
        self._folder, self._samples = folder, samples
        self._problem = problem
        """Why the previous choice could not be opened."""
        self._entries = entries(folder, (), samples)
        self.ascii = ascii

    def compose(self) -> ComposeResult:
        """Lays out a title, a line for a path, the list, and the keys."""
        with Vertical(id="reader"):
            yield Static(" tracetui: which recording?", markup=False, id="dialog-title")
            yield PathLine()
            yield OptionList(markup=False)
            yield Static(markup=False, id="start-help")
            yield Static(FOOT, markup=False, id="reader-foot")

    def on_mount(self) -> None:
        """Focuses the list, unless it is empty."""
        self._fill()
        self._begin()
        jobs.start(self, "here", lambda: recordings_in(self._folder))

    def on_job_done(self, event: jobs.JobDone[list[Path]]) -> None:
        """Adds the recordings of this folder, once they are known."""
        event.stop()
        at = self.query_one(OptionList).highlighted
        chosen = self._entries[at].path if at is not None and self._moved else None
        self._looked = True
        self._entries = entries(self._folder, event.result or (), self._samples)
        self._fill()
        if chosen is None:
            self._begin()
        else:
            places = [place for place, entry in enumerate(self._entries) if entry.path == chosen]
            self.query_one(OptionList).highlighted = places[0]

    _looked = False
    _moved = False

    def _begin(self) -> None:
        """Puts the cursor on the first recording that exists."""
        options = self.query_one(OptionList)
        options.display = bool(self._entries)
        there = (at for at, entry in enumerate(self._entries) if entry.path is not None and not entry.missing)
        options.highlighted = next(there, None)
        if not self._moved:
            (options if self._entries else self.query_one(Input)).focus()

    def on_key(self) -> None:
        """Notes that the user has taken over the cursor."""
        self._moved = True

    def on_resize(self, event: Resize) -> None:
        """Lays the columns out for the new width."""
        self._fill()

    def _fill(self) -> None:
        options = self.query_one(OptionList)
        at = options.highlighted
        options.clear_options()
        options.add_options([Option(self._row(entry), disabled=entry.path is None) for entry in self._entries])
        options.highlighted = at
        known = any(entry.path is not None and entry.path not in self._samples for entry in self._entries)
        words = "" if known else "\n".join(f" {line}" for line in NOTHING) if self._looked else " Looking …"
        words = "\n\n".join(part for part in (f" {printable(self._problem)}" if self._problem else "", words) if part)
        self.query_one("#start-help", Static).update(to_ascii(words) if self.ascii else words)
        self.query_one("#start-help", Static).display = bool(words)

    def _row(self, entry: Entry) -> Text:
        width = (self.size.width or 80) - 1
        if entry.path is None:
            return Text(f" {entry.label}", "bold", no_wrap=True)
        ascii = self.ascii
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
        """Returns the chosen recording, if it still exists."""
        event.stop()
        entry = self._entries[event.option_index]
        if entry.path is not None and not is_there(entry.path):
            self.remark("No longer there: ", entry.path)
        elif entry.path is not None:
            self.dismiss((entry.path,))

    def on_paste(self, event: Paste) -> None:
        """Notes that the user has taken over the cursor; Textual then calls the handler of `PathScreen`."""
        self._moved = True

    def action_cancel(self) -> None:
        """Goes from the path line back to the list; from the list, quits."""
        if self._entries and isinstance(self.focused, Input):
            self.query_one(OptionList).focus()
        else:
            self.dismiss(None)
