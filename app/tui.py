"""The screen: a shell that is there at once, and the tabs once the trace is read.

Nothing here imports Polars before the first paint; views and readers do, and are imported when needed.
"""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import constants
from textual.app import App
from textual.containers import Container
from textual.message import Message
from textual.theme import Theme
from textual.widgets import Static

from tracetui.app import commands, jobs
from tracetui.app.formats import fit, format_bytes, printable, to_ascii
from tracetui.app.palette import EverythingProvider
from tracetui.app.screens import RunPicker, TextScreen, help_text, traces_beside
from tracetui.app.session import Session, Side
from tracetui.app.widgets.lines import Footer, Line, TabBar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from textual.app import ComposeResult, SystemCommand
    from textual.events import Key, Resize
    from textual.screen import Screen

    from tracetui.analysis.scope import Scope
    from tracetui.app.views.base import View
    from tracetui.parsers import Progress, Run

EXIT_UNREADABLE = 1
PROGRESS_SECONDS = 0.1
"""How often the progress line changes at most; each change is sent over the link."""

DARK = Theme(
    name="tracetui",
    primary="#5fafff",
    secondary="#87d7d7",
    accent="#5fafff",
    warning="#ffaf5f",
    error="#ff6b6b",
    success="#87d787",
    foreground="#d0d0d0",
    background="#121212",
    surface="#121212",
    panel="#262626",
    dark=True,
    variables={"block-cursor-foreground": "#ffffff", "block-cursor-background": "#005f87"},
)


class LoadProgress(Message):
    """How far reading has come."""

    def __init__(self, side: Side, progress: Progress) -> None:
        self.side = side
        self.progress = progress
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Only the last one matters."""
        return isinstance(message, LoadProgress)


class TracetuiApp(App[None]):
    """Header, tabs, the view, footer."""

    TITLE = "tracetui"
    CSS_PATH = "app.tcss"
    COMMANDS: ClassVar[set[Any]] = {EverythingProvider}
    BINDINGS = commands.bindings("app")
    ALLOW_SELECT = False

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        scope: Scope | None = None,
        rank: int | None = None,
        tab: str | None = None,
        filter: str | None = None,
        color: str = "auto",
        ascii: bool = False,
        low_bandwidth: bool = False,
        cache: bool = True,
    ) -> None:
        # NO_COLOR is answered by a filter that is chosen here: with ANSI colours it takes them all away
        super().__init__(ansi_color=True if color == "never" else None)
        self.session = Session(tuple(paths[:1]), rank=rank, filter=filter or "", ascii=ascii)
        if scope is not None:
            self.session.scope = scope
        self.low_bandwidth = low_bandwidth
        self.exit_code = 0
        tabs = [name for name, _ in commands.TABS]
        self.tab = tab if tab in tabs else "diff" if len(paths) > 1 and tab is None else "overview"
        self._paths: dict[Side, tuple[Path, ...]] = {"a": tuple(paths[:1]), "b": tuple(paths[1:2])}
        self._cache = cache
        self._cancel: dict[Side, threading.Event] = {}
        self._loading: dict[Side, str] = {}
        self._began = 0.0
        self._failure: dict[Side, str] = {}
        self._errors: list[str] = []
        self.animation_level = "none"
        self.set_class(ascii, "-ascii")
        self.register_theme(DARK)
        self.theme = "ansi-dark" if color in ("never", "16") or low_bandwidth else DARK.name

    # --- the shell

    def compose(self) -> ComposeResult:
        """The shell, empty."""
        yield Line(id="header")
        yield TabBar(id="tabs")
        yield Container(Static(id="loading", markup=False), id="body")
        yield Line(id="filter-line")
        yield Footer(id="footer")

    def on_mount(self) -> None:
        """Paints the shell, and only then begins to read."""
        self.query_one("#header", Line).ascii = self.session.ascii
        self.query_one(TabBar).show(self.tab)
        self.refresh_lines()
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        for side, paths in self._paths.items():
            if paths:
                self.open_run(side, paths)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """None of Textual's own: the registry has them all."""
        return ()

    def own(self, text: str) -> str:
        """A text of ours, in ASCII where that was asked for."""
        return to_ascii(text.replace("·", "-").replace("›", ">")) if self.session.ascii else text

    def say(self, message: str) -> None:
        """Says something in the footer until the next key."""
        self.query_one(Footer).say(printable(message, ascii=self.session.ascii))

    def log_error(self, error: Exception) -> None:
        """Keeps an error that was shown in one line, for `--debug`."""
        import traceback

        self._errors.append("".join(traceback.format_exception(type(error), error, error.__traceback__)))

    @property
    def errors(self) -> Sequence[str]:
        """Tracebacks of what failed so far."""
        return self._errors

    def on_key(self, event: Key) -> None:
        """Any key takes the message away."""
        self.query_one(Footer).say("")

    def on_resize(self, event: Resize) -> None:
        """The footer's keys depend on the width."""
        self.refresh_lines()

    # --- loading

    def open_run(self, side: Side, paths: tuple[Path, ...]) -> None:
        """Reads a run in a thread."""
        cancel = threading.Event()
        self._cancel[side] = cancel
        self._loading[side] = "Opening …"
        self._failure.pop(side, None)
        self._began = time.monotonic()
        cache = self._cache
        told = [-PROGRESS_SECONDS]

        def report(progress: Progress) -> None:
            now = time.monotonic()
            if now - told[0] < PROGRESS_SECONDS:
                return
            told[0] = now
            with suppress(RuntimeError):
                self.post_message(LoadProgress(side, progress))

        def read() -> Run:
            # imported here: Polars and NumPy take longer than the first paint
            from tracetui.parsers import open_path

            return open_path(*paths, progress=report, cancel=cancel, cache=cache)

        jobs.start(self, f"open-{side}", read)
        self.refresh_lines()

    def on_load_progress(self, event: LoadProgress) -> None:
        """Shows stage, size and what is left, in a line."""
        if event.side in self._loading:
            self._loading[event.side] = self._progress_line(event.progress)
            self.refresh_lines()

    def failure(self, side: Side) -> str:
        """Why a run could not be opened; empty where nothing failed."""
        return self._failure.get(side, "")

    def is_loading(self, side: Side) -> bool:
        """Whether a run is being read."""
        return side in self._loading

    def _progress_line(self, progress: Progress) -> str:
        parts = [progress.stage.capitalize()]
        if progress.path is not None:
            parts.append(fit(printable(progress.path.name), 32))
        if progress.total:
            parts.append(f"{format_bytes(progress.done)} of {format_bytes(progress.total)}")
            elapsed = time.monotonic() - self._began
            if 0 < progress.done < progress.total and elapsed > 0.5:
                parts.append(f"{math.ceil(elapsed * (progress.total / progress.done - 1))} s left")
        if progress.events:
            parts.append(f"{progress.events:,} events")
        return "  ".join(parts)

    def on_job_done(self, event: jobs.JobDone[Run]) -> None:
        """A run is read, or could not be."""
        side: Side = "b" if event.key == "open-b" else "a"
        self._loading.pop(side, None)
        cancelled = self._cancel.pop(side, threading.Event()).is_set()
        if event.result is not None and event.result.traces:
            self._opened(side, event.result, cancelled=cancelled)
        else:
            self._failed(side, event.error, cancelled=cancelled)
        self.refresh_lines()

    def _opened(self, side: Side, run: Run, *, cancelled: bool) -> None:
        first = side not in self.session.runs
        self.session.put(side, run)
        self.session.paths = (run.path,) if side == "a" else self.session.paths
        ranks = run.ranks
        if side == "a" and self.session.rank is not None and self.session.rank not in ranks:
            known = ", ".join(map(str, ranks)) or "none"
            self.say(f"No rank {self.session.rank} in this run (ranks: {known})")
            self.session.rank = None
        if run.warnings:
            self.say(run.warnings[0] + (f" (and {len(run.warnings) - 1} more: N)" if len(run.warnings) > 1 else ""))
        if cancelled and self.session.partial:
            self.say("Stopped: what was read so far is shown")
        self._reload_views()
        if "a" in self.session.runs:
            self.query_one("#loading").display = False
            self.show_tab(self.tab)
        if side == "a" and first and run.others:
            self._pick_run(run)

    def _pick_run(self, run: Run) -> None:
        """The folder holds several runs: asks which."""
        files = tuple(trace.source.path for trace in run.traces)
        choices = [(f"{run.name} (open now)", files), *run.others]

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths and paths != files:
                self.open_run("a", paths)

        title = f" {len(choices)} runs in {printable(str(self._paths['a'][0]))}: which one?"
        self.push_screen(RunPicker(self.own(title), choices, typing=False, ascii=self.session.ascii), chosen)

    def _failed(self, side: Side, error: Exception | None, *, cancelled: bool) -> None:
        from tracetui.parsers import Cancelled, TraceError

        path = self._paths[side][0] if self._paths[side] else ""
        if isinstance(error, Cancelled) or (cancelled and error is None):
            line = f"{path}: stopped before anything was read"
        elif isinstance(error, TraceError):
            line = str(error)
        elif isinstance(error, OSError):
            line = f"{error.filename or path}: {error.strerror or error}"
        elif error is None:
            line = f"{path}: no trace in it"
        else:
            self.log_error(error)
            line = f"{path}: {type(error).__name__}: {error}; this is a bug in tracetui"
        self._failure[side] = line
        if side == "a" and "a" not in self.session.runs:
            self.exit_code = EXIT_UNREADABLE
        else:
            self.say(line)
            self._reload_views()

    def _reload_views(self) -> None:
        for view in self._views():
            if view.is_mounted:
                view.reload()

    # --- tabs

    def _views(self) -> Iterator[View]:
        from tracetui.app.views.base import View

        yield from self.screen_stack[0].query(View).results(View)

    def _made(self, tab: str) -> View | None:
        return next((view for view in self._views() if tab == view.TAB), None)

    @property
    def view(self) -> View | None:
        """The view in sight; null until it has its widgets."""
        view = self._made(self.tab) if "a" in self.session.runs else None
        return view if view is not None and view.is_mounted else None

    def show_tab(self, tab: str) -> None:
        """Brings a tab into view; it is made on the first visit."""
        self.tab = tab
        self.screen_stack[0].query_one(TabBar).show(tab)
        if "a" in self.session.runs:
            from tracetui.app.views import make_view

            for view in self._views():
                view.display = tab == view.TAB
            if self._made(tab) is None:
                self.screen_stack[0].query_one("#body").mount(make_view(tab))
                self.call_after_refresh(self._focus_view)
            elif self.view is not None:
                self.view.revisit()
                self._focus_view()
        self.refresh_lines()

    def _focus_view(self) -> None:
        if self.view is not None:
            self.view.take_focus()
        self.refresh_lines()

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """A tab was clicked."""
        self.show_tab(event.tab)

    def refresh_lines(self) -> None:
        """Brings header, filter line and footer up to date."""
        if not self.is_running or not self.screen_stack:
            return
        screen = self.screen_stack[0]
        if not screen.query("#header"):
            return
        view = self.view
        screen.query_one("#header", Line).show(self._header_left(), self._header_right())
        loading = screen.query_one("#loading", Static)
        if loading.display:
            loading.update(self.own(self._loading_text()))
        filter_line = screen.query_one("#filter-line", Line)
        words = view.filter_line if view is not None else ""
        if not words and self.session.filter and view is not None and not view.own_filter and not view.footer_hints():
            words = f"/ {printable(self.session.filter)}   filters the tables of all tabs"
        filter_line.display = bool(words)
        filter_line.show(Text(f" {self.own(words)}"))
        labels = dict(view.footer_labels()) if view is not None else {}
        if "a" not in self.session.runs:
            hints = [("Esc", "keep what was read"), ("q", "quit")] if self._loading else [("q", "quit")]
        else:
            if not self.session.trace().notes:
                labels.pop("app.notes", None)
            hints = commands.footer(self.tab, screen.size.width - 1, labels=labels)
            if view is not None:
                hints = view.footer_hints() or hints
        screen.query_one(Footer).show(hints)

    def _loading_text(self) -> str:
        if "a" in self._failure:
            return f" {printable(self._failure['a'])}"
        line = self._loading.get("a", "")
        return f" {line}" if line else ""

    def _header_left(self) -> Text:
        text = Text(" tracetui", "bold")
        runs = self.session.runs
        if "a" not in runs:
            names = [fit(printable(str(path)), 60) for path in self._paths["a"]]
            text.append(self.own(f"  {' '.join(names)}"), "not bold")
            return text
        name = printable(runs["a"].name)
        if "b" in runs:
            text.append(self.own(f"  A {name}   B {printable(runs['b'].name)}"), "not bold")
        else:
            trace = self.session.trace()
            gpu = next((device.name for device in trace.info.devices if device.name), "")
            text.append(self.own(f"  {name}"), "not bold")
            if gpu:
                text.append(self.own(f"  {printable(gpu)}"), "not bold dim")
        return text

    def _header_right(self) -> Text:
        parts: list[str] = []
        if "b" in self._loading:
            parts.append(f"B: {self._loading['b']}")
        elif "a" in self._loading and "a" in self.session.runs:
            parts.append(self._loading["a"])
        if "a" in self.session.runs:
            ranks = self.session.runs["a"].ranks
            if len(ranks) > 1:
                parts.append(f"rank {self.session.trace().info.rank} of {len(ranks)}")
            if self.session.partial:
                parts.append("PARTIAL")
            notes = len(self.session.trace().notes) + len(self.session.runs["a"].warnings)
            if notes:
                parts.append(f"{notes} note{'s' if notes > 1 else ''} (N)")
        return Text(self.own(" · ".join(parts) + " "), "bold" if self.session.partial else "")

    # --- actions

    def do(self, command: commands.Command) -> None:
        """Runs a command of the palette where it belongs."""
        self.call_later(self._do, command)

    async def _do(self, command: commands.Command) -> None:
        view = self.view
        target: Any = self
        if command.where in ("view", "diff"):
            target = view
        elif command.where in ("table", "tree", "overview"):
            target = self.focused
        if target is not None:
            await self.run_action(command.action, default_namespace=target)

    def places(self) -> Iterator[tuple[str, str, str, str]]:
        """(tab, noun, name, label) of everything the palette can go to, as far as it has been computed."""
        if "a" not in self.session.runs:
            return
        from tracetui.app.places import places

        yield from places(self.session)

    def go_to(self, tab: str, name: str) -> None:
        """Goes to a tab and to the row of this name."""
        self.show_tab(tab)
        view = self._made(tab)
        if view is not None:
            view.go_to(name)

    def action_tab(self, tab: str) -> None:
        """Goes to a tab."""
        self.show_tab(tab)

    def action_next_tab(self, step: int) -> None:
        """Goes to the tab after or before."""
        names = [name for name, _ in commands.TABS]
        self.show_tab(names[(names.index(self.tab) + step) % len(names)])

    def action_help(self) -> None:
        """Shows the help of this view."""
        view = self.view
        columns = view.columns_about() if view is not None else ()
        title = dict(commands.TABS)[self.tab]
        text = help_text(self.tab, columns, ascii=self.session.ascii)
        self.push_screen(TextScreen(f" Help: {title}", text))

    def action_notes(self) -> None:
        """Shows what was skipped, repaired or missing."""
        if "a" not in self.session.runs:
            return
        text = Text()
        for side, run in self.session.runs.items():
            for trace in run.traces:
                source = trace.source
                text.append(self.own(f"{side.upper()}  {printable(str(source.path))}\n"), "bold")
                text.append(
                    f"   {source.events_parsed:,} of {source.events_total:,} events parsed,"
                    f" {format_bytes(source.bytes)}{', PARTIAL: reading was stopped' if source.partial else ''}\n"
                )
                for note in trace.notes:
                    text.append(self.own(f"   {note.count:,} {note.kind}: {printable(note.reason)}\n"))
                    if note.example:
                        text.append(self.own(f"      such as {fit(printable(note.example), 200)}\n"))
                if not trace.notes:
                    text.append("   nothing was skipped, repaired or missing\n")
            for warning in run.warnings:
                text.append(self.own(f"   warning: {printable(warning)}\n"))
        self.push_screen(TextScreen(" Notes: what was skipped, repaired or missing", text))

    def action_stop_loading(self) -> None:
        """Stops reading."""
        for cancel in self._cancel.values():
            cancel.set()

    def action_next_rank(self) -> None:
        """Goes on to the next rank."""
        if "a" not in self.session.runs:
            return
        rank = self.session.next_rank()
        if rank is None:
            self.say("This run has one rank")
        else:
            self._reload_views()
            self.say(f"Rank {rank}")
        self.refresh_lines()

    def action_open_other(self) -> None:
        """Asks for the run to compare with."""
        if "a" not in self.session.runs:
            return

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths:
                self._paths["b"] = paths
                self.show_tab("diff")
                self.open_run("b", paths)

        run = self.session.runs["a"]
        choices = [*run.others, *traces_beside(run.path)]
        title = self.own(f" Compare {printable(run.name)} (A) with …")
        self.push_screen(RunPicker(title, choices, typing=True, ascii=self.session.ascii), chosen)

    def action_swap_runs(self) -> None:
        """Exchanges A and B."""
        if len(self.session.runs) < 2:
            self.say("There is no second run: o opens one")
            return
        self.session.swap()
        self._reload_views()
        self.refresh_lines()

    def action_redraw(self) -> None:
        """Draws everything anew."""
        self.refresh(repaint=True, layout=True)

    async def action_quit(self) -> None:
        """Leaves at once; threads that still read are told to stop and not waited for."""
        self.action_stop_loading()
        self.exit()


def run_tui(
    paths: Sequence[Path],
    *,
    scope: Scope | None = None,
    rank: int | None = None,
    tab: str | None = None,
    filter: str | None = None,
    color: str = "auto",
    ascii: bool = False,
    mouse: bool | None = None,
    cache: bool = True,
) -> int:
    """Shows a run, or two, until the person quits; the exit code.

    Args:
        paths: run A, and B to compare with.
        scope: what the numbers are about.
        rank: the distributed rank to show first.
        tab: the tab to begin with.
        filter: a filter in force from the start.
        color: auto, never, 16, 256 or truecolor.
        ascii: no characters outside ASCII.
        mouse: null is on, but off over SSH, where every motion of the pointer costs kilobytes.
        cache: use the cache of parsed traces.
    """
    remote = "SSH_CONNECTION" in os.environ
    if "NO_COLOR" in os.environ and color == "auto":
        color = "never"
    if color == "never":
        os.environ["NO_COLOR"] = "1"
    elif color != "auto":
        os.environ.pop("NO_COLOR", None)
        constants.COLOR_SYSTEM = {"16": "standard"}.get(color, color)  # type: ignore[misc]
    app = TracetuiApp(
        paths,
        scope=scope,
        rank=rank,
        tab=tab,
        filter=filter,
        color=color,
        ascii=ascii,
        low_bandwidth=remote,
        cache=cache,
    )
    app.run(mouse=not remote if mouse is None else mouse)
    return app.exit_code
