"""The shell of the screen: there at once, and filled with the tabs once the recording is read.

Nothing here imports Polars before the first paint; views and readers do, and are imported when needed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual.containers import Container
from textual.widgets import Static

from tracetui.app import commands, jobs, status
from tracetui.app.exit_codes import UNREADABLE
from tracetui.app.formats import printable, to_ascii
from tracetui.app.loading import Loader, LoadProgress, explain
from tracetui.app.preferences import Preferences
from tracetui.app.session import Session, Side
from tracetui.app.settings import Settings
from tracetui.app.widgets.lines import Footer, Line, TabBar
from tracetui.app.words import KIND_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from textual.app import ComposeResult, SystemCommand
    from textual.command import Provider
    from textual.driver import Driver
    from textual.events import Key, Resize
    from textual.screen import Screen

    from tracetui.analysis.scope import Scope
    from tracetui.app.views.base import View
    from tracetui.parsers import Run

FIRST_TABS = {"ncu": "counters", "memory_snapshot": "memory"}
"""The tab to start on, where a recording has nothing to say in the Overview."""


def _provider() -> type[Provider]:
    # imported here: before the first paint nobody needs it
    from tracetui.app.palette import EverythingProvider

    return EverythingProvider


class Return(NamedTuple):
    """Where Esc and Ctrl+O lead from rows that a finding rests on."""

    tab: str
    filter: str
    """That was in force there."""
    shown: str
    """The tab that shows the rows."""


class Shell(Preferences):
    """Header, tabs, the view, footer."""

    TITLE = "tracetui"
    CSS_PATH = "app.tcss"
    COMMANDS: ClassVar[set[Any]] = {_provider}
    BINDINGS = commands.bindings("app")
    ALLOW_SELECT = False

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        scope: Scope | None = None,
        rank: int | None = None,
        source: str | None = None,
        tab: str | None = None,
        filter: str | None = None,
        color: str = "auto",
        ascii: bool = False,
        low_bandwidth: bool = False,
        cache: bool = True,
        driver_class: type[Driver] | None = None,
        settings: Settings | None = None,
    ) -> None:
        # NO_COLOR is answered by a filter that is chosen here: with ANSI colours it takes them all away
        super().__init__(driver_class=driver_class, ansi_color=True if color == "never" else None)
        self.session = Session(tuple(paths[:1]), rank=rank, kind=source, filter=filter or "", ascii=ascii)
        if scope is not None:
            self.session.scope = scope
        self.exit_code = 0
        self._default_tab = not tab and len(paths) < 2
        self.tab = commands.find_tab(tab) if tab else "diff" if len(paths) > 1 else "overview"
        self._paths: dict[Side, tuple[Path, ...]] = {"a": tuple(paths[:1]), "b": tuple(paths[1:2])}
        self._keep_parsed = cache
        self._beside: tuple[tuple[str, tuple[Path, ...]], ...] = ()
        self.loader = Loader(self, cache=cache, meanwhile=self._import_view)
        self._errors: list[str] = []
        self._return: Return | None = None
        self._stale: set[str] = set()
        """Tabs whose numbers are of another range than the one in force."""
        self.animation_level = "none"
        self.set_class(ascii, "-ascii")
        self.prefer(settings or Settings(), color=color, low_bandwidth=low_bandwidth)

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

    def _import_view(self) -> None:
        from tracetui.app.views import view_class

        view_class(self.tab)

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
        """Any key takes the message away; one that does nothing here says where it does."""
        self.say(self.elsewhere(event.key) if len(self.screen_stack) == 1 and "a" in self.session.runs else "")

    def on_resize(self, event: Resize) -> None:
        """The footer's keys depend on the width."""
        self.refresh_lines()

    # --- loading

    def open_run(self, side: Side, paths: tuple[Path, ...]) -> None:
        """Reads a run in a thread."""
        self._paths[side] = paths
        self.loader.start(side, paths)
        self.refresh_lines()

    def on_load_progress(self, event: LoadProgress) -> None:
        """Shows stage, size and what is left, in a line."""
        self.loader.note(event)
        self.refresh_lines()

    def failure(self, side: Side) -> str:
        """Why a run could not be opened; empty where nothing failed."""
        return self.loader.failures.get(side, "")

    def is_loading(self, side: Side) -> bool:
        """Whether a run is being read."""
        return side in self.loader.lines

    def on_job_done(self, event: jobs.JobDone[Run]) -> None:
        """A run is read, or could not be."""
        ended = self.loader.finish(event.key)
        if ended is None:
            return
        side, cancelled = ended
        if event.result is not None and event.result.traces:
            self._opened(side, event.result, cancelled=cancelled)
        else:
            self._failed(side, event.error, cancelled=cancelled)
        self.refresh_lines()

    def _configured(self, run: Run) -> Run:
        """Takes over the user's thresholds for this run; what is wrong with their file counts as its warnings."""
        from tracetui.analysis.findings import config

        found = config.load(run.path, Path.cwd())
        self.session.config = found
        return replace(run, warnings=(*run.warnings, *found.problems)) if found.problems else run

    def _opened(self, side: Side, run: Run, *, cancelled: bool) -> None:
        first = side not in self.session.runs
        if side == "a":
            run = self._configured(run)
        self.session.put(side, run)
        self.session.paths = (run.path,) if side == "a" else self.session.paths
        ranks = run.ranks
        if side == "a" and self.session.rank is not None and self.session.rank not in ranks:
            known = ", ".join(map(str, ranks)) or "none"
            self.say(f"No rank {self.session.rank} in this run (ranks: {known})")
            self.session.rank = None
        if side == "a" and self.session.kind is not None and not run.of_kind(self.session.kind):
            self.say(f"Nothing from {KIND_NAMES[self.session.kind]} in this run")
            self.session.kind = None
        if run.warnings:
            self.say(run.warnings[0] + (f" (and {len(run.warnings) - 1} more: N)" if len(run.warnings) > 1 else ""))
        if side == "a" and first and self._default_tab:
            self.tab = "sweep" if self._is_sweep else FIRST_TABS.get(run.main.info.kind, self.tab)
        if cancelled and self.session.partial:
            self.say("Stopped: what was read so far is shown")
        self._reload_views(side)
        if "a" in self.session.runs:
            self.screen_stack[0].query_one("#loading").display = False
            self.show_tab(self.tab)
        if side == "a" and first and run.others and self.tab != "sweep":
            self._pick_run(run)

    @property
    def _is_sweep(self) -> bool:
        """Whether what was opened is a folder with a sweep's index."""
        from tracetui.parsers.sweep_place import INDEX

        return any((path / INDEX).is_file() for path in self._paths["a"])

    def action_captures(self) -> None:
        """Compares the files of the folder that was opened, as far as they are of this run's kind."""
        if (run := self.session.runs.get("a")) is None:
            return
        files = tuple(trace.source.path for trace in run.traces)
        others = tuple(other for other in self._beside if other[1] != files)
        if len(others) == len(self._beside):  # it is none of those the folder held
            others = run.others
        if not others:
            self.say("There is nothing to compare with: open the folder that holds all captures")
            return
        from tracetui.app.captures_screen import CapturesScreen

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths and paths != files:
                self.open_run("a", paths)

        whole = replace(run, others=others)
        ascii = self.session.ascii
        self.push_screen(CapturesScreen(whole, self.session.scope, use_cache=self._keep_parsed, ascii=ascii), chosen)

    def _pick_run(self, run: Run) -> None:
        """The folder holds several runs: asks which."""
        from tracetui.app.screens import RunPicker

        files = tuple(trace.source.path for trace in run.traces)
        choices = [(f"{run.name} (open now)", files), *run.others]
        self._beside = tuple(choices)

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths and paths != files:
                self.open_run("a", paths)

        title = f" {len(choices)} runs in {printable(str(self._paths['a'][0]))}: which one?"
        ascii, compare = self.session.ascii, self.action_captures
        self.push_screen(RunPicker(self.own(title), choices, typing=False, ascii=ascii, compare=compare), chosen)

    def _failed(self, side: Side, error: Exception | None, *, cancelled: bool) -> None:
        line, bug = explain(error, self._paths[side], cancelled=cancelled)
        if bug and error is not None:
            self.log_error(error)
        self.loader.failures[side] = line
        if side == "a" and "a" not in self.session.runs:
            self.exit_code = UNREADABLE
        else:
            self.say(line)
            self._reload_views(side)

    def _reload_views(self, side: Side = "a") -> None:
        """Computes anew what depends on a run."""
        if side == "a" and self.session.range_words:  # it is a range of another trace
            self._forget_range()
        for view in self._views():
            if view.is_mounted and (side == "a" or view.COMPARES):
                self._stale.discard(view.TAB)
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
            from tracetui.app.views import view_class

            for view in self._views():
                view.display = tab == view.TAB
            if self._made(tab) is None:
                self.screen_stack[0].query_one("#body").mount(view_class(tab)())
                self.call_after_refresh(self._focus_view)
            elif self.view is not None:
                if tab in self._stale:
                    self._stale.discard(tab)
                    self.view.reload()
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
        right = status.header_right(self.session, self.loader.shares, self.own)
        room = self.size.width - right.cell_len
        left = status.header_left(self.session, self._paths["a"], self.own, room)
        screen.query_one("#header", Line).show(left, right)
        loading = screen.query_one("#loading", Static)
        if loading.display:
            line = self.failure("a") or self.loader.lines.get("a", "")
            loading.update(self.own(f" {printable(line)}"))
        filter_line = screen.query_one("#filter-line", Line)
        words = view.filter_line if view is not None else ""
        if not words and self.session.filter and view is not None and not view.own_filter and not view.footer_hints():
            words = f"/ {printable(self.session.filter)}   filters the tables of all tabs"
        filter_line.display = bool(words)
        filter_line.show(Text(f" {self.own(words)}"))
        labels = dict(view.footer_labels()) if view is not None else {}
        if "a" not in self.session.runs:
            hints = [("Esc", "keep what was read"), ("q", "quit")] if self.loader.lines else [("q", "quit")]
        else:
            if not self.session.trace().notes:
                labels.pop("app.notes", None)
            hints = commands.footer(self.tab, screen.size.width - 1, labels=labels)
            if view is not None:
                hints = view.footer_hints() or hints
        screen.query_one(Footer).show(hints)

    def _forget_range(self) -> None:
        from tracetui.app.views.timeline import TimelineView

        self.restrict(None)
        view = self._made("timeline")
        if isinstance(view, TimelineView):
            view.forget_marks()

    def restrict(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts every tab to a stretch of time, or none; those out of sight compute when they are looked at.

        Args:
            window: start and end, ns on the trace's clock.
            words: what the header says of it.
        """
        if window == self.session.scope.window:
            return
        self.session.restrict(window, words)
        self._stale = {view.TAB for view in self._views() if view.is_mounted} - {"timeline"}
        view = self.view
        if view is not None and view.TAB in self._stale:
            self._stale.discard(view.TAB)
            view.reload()
        self.refresh_lines()
