"""The list of open runs: their letters, which one is in view, and which one it is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.keys import commands
from tracetui.app.screen.dialogs.common import ListScreen, list_help
from tracetui.app.text.fitting import fit, fit_apart, pad, printable
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.events import Resize

    from tracetui.app.screen.opening import RunLoader
    from tracetui.app.session.open_runs import OpenRun

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
