"""Screens over the main one: texts to read, and lists to choose a run from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Paste, Resize
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.keys.keymap import Command
from tracetui.app.screen.dialogs.start_list import NOTHING, Entry, entries, recordings_in
from tracetui.app.screen.opening import RunLoader
from tracetui.app.session import jobs
from tracetui.app.session.open_runs import OpenRun
from tracetui.app.text.fitting import cell_width, fit, fit_apart, pad, printable, to_ascii, wrapped
from tracetui.app.text.paths import is_folder, is_there, typed
from tracetui.app.text.tool_words import WORDS
from tracetui.app.widgets.list_screen import ListScreen

Choice: TypeAlias = "tuple[str, tuple[Path, ...]]"
"""A run to choose: its name, and the paths to read."""

MOVE_KEYS = (
    ("j ↓", "down"),
    ("k ↑", "up"),
    ("Ctrl+D", "a page down"),
    ("Ctrl+U", "a page up"),
    ("g", "first"),
    ("G", "last"),
)
"""`list_screen.MOVES` in words."""


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
            names = (tab.title for tab in tabs.TABS if tab.key.isdigit())
            entry(f"{digits[0]} to {digits[-1]}", ", ".join(names))
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
    """A screen with the keys of a list and what they do, then sentences that each begin a line."""
    lines = [f"  {key:<10} {what}" for key, what in (*keys, *MOVE_KEYS)]
    for sentence in words:
        lines += ["", *(f"  {line}" for line in wrapped(sentence, max(width - 4, 20)))]
    text = "\n".join(lines)
    return TextScreen(f" Help: {title}", Text(to_ascii(text) if ascii else text))


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


FOOT = " Enter opens  o types a path  j k move  ? help  q quits"
KEYS = (
    ("Enter", "opens the recording, or all recordings of the folder as runs"),
    ("o", "types a path; Tab and Esc lead back to the list"),
    ("q Esc", "quits"),
)
START_WORDS = (
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
    ABOUT = ("which recording?", KEYS, START_WORDS)

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


COLUMNS = (("Tool", 12), ("GPU", 9), ("Steps", 5), ("Size", 10))
"""The columns after letter and name."""
LEAST_NAME = 16


class RunsScreen(ListScreen["tuple[str, str]"]):
    """Its result is an action (view, compare, open, captures) and the letter of the run to apply it to."""

    BINDINGS = commands.bindings("runs")

    def __init__(self, runs: RunLoader, own: Callable[[str], str], title: str = "") -> None:
        super().__init__()
        self._runs, self._own = runs, own
        self._title = title

    def compose(self) -> ComposeResult:
        """Lays out a title, the column titles, the list, and the keys."""
        with Vertical(id="reader"):
            yield Static(id="dialog-title", markup=False)
            yield Static(id="runs-header", markup=False)
            yield OptionList(markup=False)
            yield Static(id="reader-foot", markup=False)

    def on_mount(self) -> None:
        """Focuses the list, with the cursor on the run in view."""
        self.query_one(OptionList).focus()
        self._fill()
        letters = list(self._runs.session.open)
        self.query_one(OptionList).highlighted = letters.index(self._runs.session.sides["a"])
        self._timer = self.set_interval(0.5, self._follow)

    def on_resize(self, event: Resize) -> None:
        """Lays the columns out for the new width."""
        self._fill()

    def _follow(self) -> None:
        """Shows how far reading has come."""
        if self._runs.loader.lines or self._reading:
            self._fill()

    _reading = False

    def _fill(self) -> None:
        if not self.query(OptionList):
            return
        session, own = self._runs.session, self._own
        self._reading = bool(self._runs.loader.lines)
        runs = list(session.open.values())
        title = self._title or f" {len(runs)} run{'s' if len(runs) > 1 else ''}: A is in view, B is compared with it"
        self.query_one("#dialog-title", Static).update(own(title))
        width = (self.size.width or 80) - 2  # the list leaves a column free on both sides
        columns = list(COLUMNS)
        while len(columns) > 1 and width - 8 - sum(size + 2 for _, size in columns) < LEAST_NAME:
            columns.pop(1)
        names = max(width - 8 - sum(size + 2 for _, size in columns), 8)
        heads = "".join("  " + pad(name, size, right=name in ("Steps", "Size")) for name, size in columns)
        self.query_one("#runs-header", Static).update(f"        {pad('Run', names)}{heads}")
        options = self.query_one(OptionList)
        at = options.highlighted
        ascii = session.ascii
        shown = fit_apart([printable(run.name, ascii=ascii) for run in runs], names, ascii=ascii)
        rows = [self._row(run, columns, pad(shown[printable(run.name, ascii=ascii)], names)) for run in runs]
        if len(rows) == options.option_count:
            for place, row in enumerate(rows):
                if options.get_option_at_index(place).prompt != row:
                    options.replace_option_prompt_at_index(place, row)
        else:
            options.clear_options()
            options.add_options([Option(row) for row in rows])
            options.highlighted = min(at or 0, len(rows) - 1)
        self._foot()

    def _row(self, run: OpenRun, columns: list[tuple[str, int]], name: str) -> Text:
        shown, ascii = self._runs, self._runs.session.ascii
        part = next((side.upper() for side, letter in shown.session.sides.items() if letter == run.letter), " ")
        text = Text(f" {part}  {run.letter:<3} {name}", no_wrap=True, overflow="crop")
        failure = shown.loader.failures.get(run.letter, "")
        if run.run is not None:
            facts = run_facts(run)
            for column, size in columns:
                word = fit(printable(facts[column], ascii=ascii), size, ascii=ascii)
                text.append("  " + pad(word, size, right=column in ("Steps", "Size")))
            return text
        room = sum(size + 2 for _, size in columns[:-1]) - 2
        share = shown.loader.shares.get(run.letter, "")
        words = share or (failure.partition(": ")[2] or failure if failure else run.remark or "not read yet")
        text.append("  " + pad(fit(printable(self._own(words), ascii=ascii), room, ascii=ascii), room), "dim")
        taken = disk_bytes(run)
        text.append("  " + pad("" if taken is None else format_bytes(taken), columns[-1][1], right=True), "dim")
        return text

    def _foot(self) -> None:
        shown = [c for c in commands.COMMANDS if c.where == "runs" and c.footer and c.shown]
        if len({run.origin for run in self._runs.session.open.values()}) == len(self._runs.session.open):
            shown = [c for c in shown if c.id != "runs.captures"]
        words = "  ".join(f"{c.shown.split()[0]} {c.footer}" for c in shown)
        self.query_one("#reader-foot", Static).update(self._own(f" {words}"))

    @property
    def _current(self) -> str:
        letters = list(self._runs.session.open)
        return letters[self.query_one(OptionList).highlighted or 0]

    # --- keys

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Handles Enter or a click."""
        event.stop()
        self.dismiss(("view", self._current))

    def action_look(self) -> None:
        """Brings the run into view."""
        self.dismiss(("view", self._current))

    def action_compare_with(self) -> None:
        """Compares the run in view with this one."""
        if self._current == self._runs.session.sides["a"]:
            self._remark("This run is in view: choose the one to compare it with")
        else:
            self.dismiss(("compare", self._current))

    def action_open(self) -> None:
        """Asks for another run."""
        self.dismiss(("open", ""))

    def action_swap(self) -> None:
        """Exchanges A and B."""
        if len(self._runs.session.runs) < 2:
            self._remark("There is no B to swap with")
        else:
            self._runs.swap()
            self._fill()

    def action_close(self) -> None:
        """Removes the run from the list."""
        if self._current == self._runs.session.sides["a"]:
            self._remark("This run is in view: view another one before closing it")
        elif self._runs.close(self._current):
            self._fill()

    def _remark(self, words: str) -> None:
        self.query_one("#reader-foot", Static).update(self._own(f" {words}"))

    def action_captures(self) -> None:
        """Compares all captures of the folder."""
        self.dismiss(("captures", ""))

    def action_help(self) -> None:
        """Shows the keys of the list."""
        keys = [(c.shown, c.title) for c in commands.COMMANDS if c.where == "runs" and c.shown]
        ascii = self._runs.session.ascii
        self.app.push_screen(list_help("open runs", keys, (), ascii=ascii, width=self.size.width))


def run_facts(entry: OpenRun) -> dict[str, str]:
    """Returns what the list says about a run that was read, by column title."""
    run = entry.run
    assert run is not None
    kinds = dict.fromkeys(trace.info.kind for trace in run.traces)
    gpus = dict.fromkeys(device.name for trace in run.traces for device in trace.info.devices if device.name)
    steps = run.main.steps.height
    ranks = f"{len(run.ranks)}x " if len(run.ranks) > 1 else ""
    return {
        "Tool": ", ".join(WORDS[kind].short for kind in kinds),
        "GPU": ranks + ", ".join(gpu.removeprefix("NVIDIA ") for gpu in gpus),
        "Steps": str(steps) if steps else "-",
        "Size": format_bytes(sum(trace.source.bytes for trace in run.traces)),
    }


def disk_bytes(entry: OpenRun) -> int | None:
    """Returns the size of the files of an unread run; None if they do not exist or are a folder."""
    try:
        return sum(path.stat().st_size for path in entry.paths) if all(p.is_file() for p in entry.paths) else None
    except OSError:
        return None
