"""The screen: a shell that is there at once, and the tabs once the trace is read.

Nothing here imports Polars before the first paint; views and readers do, and are imported when needed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual import constants
from textual.app import App
from textual.containers import Container
from textual.widgets import Static

from tracetui.app import commands, jobs, status
from tracetui.app.exit_codes import UNREADABLE
from tracetui.app.formats import printable, to_ascii
from tracetui.app.loading import Loader, LoadProgress, explain
from tracetui.app.session import Session, Side
from tracetui.app.terminal.choice import driver_class
from tracetui.app.theme import DARK, settle_color, theme_name
from tracetui.app.widgets.lines import Footer, Line, TabBar
from tracetui.app.words import KIND_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from textual.app import ComposeResult, SystemCommand
    from textual.command import Provider
    from textual.driver import Driver
    from textual.events import Key, Resize
    from textual.screen import Screen

    from tracetui.analysis.findings.finding import Query
    from tracetui.analysis.scope import Scope
    from tracetui.app.views.base import View
    from tracetui.parsers import Run

REMOTE_ESCAPE_SECONDS = 0.4
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


class TracetuiApp(App[None]):
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
    ) -> None:
        # NO_COLOR is answered by a filter that is chosen here: with ANSI colours it takes them all away
        super().__init__(driver_class=driver_class, ansi_color=True if color == "never" else None)
        self.session = Session(tuple(paths[:1]), rank=rank, kind=source, filter=filter or "", ascii=ascii)
        if scope is not None:
            self.session.scope = scope
        self.low_bandwidth = low_bandwidth
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
        self.register_theme(DARK)
        self.theme = theme_name(color, low_bandwidth=low_bandwidth)

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
        """Any key takes the message away."""
        self.query_one(Footer).say("")

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

    # --- actions

    def do(self, command: commands.Command) -> None:
        """Runs a command of the palette where it belongs."""
        self.call_later(self._do, command)

    async def _do(self, command: commands.Command) -> None:
        view = self.view
        target: Any = self
        if command.where in ("view", "diff", "sweep", "timeline"):
            target = view
        elif command.where in ("table", "tree", "overview", "lanes"):
            target = self.focused
        if target is not None:
            await self.run_action(command.action, default_namespace=target)

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

    def open_rows(self, tab: str, table: str, name: str) -> None:
        """Goes to a table of a tab, and to the row of this name."""
        self.show_tab(tab)
        view = self._made(tab)
        if view is not None:
            view.open_at(table, name)
        self.refresh_lines()

    def show_in_timeline(self, source: str, row: int) -> None:
        """Goes to the timeline, and there to a row of one of the trace's frames."""
        from tracetui.app.views.timeline import TimelineView

        self.show_tab("timeline")
        view = self._made("timeline")
        if isinstance(view, TimelineView):
            view.seek(source, row)

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

    def show_rows(self, query: Query) -> None:
        """Goes to the rows that a finding rests on, in their own tab."""
        tab, _, table = query.tab.partition(":")
        self._return = Return(self.tab, self.session.filter, tab)
        self.session.filter = query.filter
        self.show_tab(tab)
        view = self._made(tab)
        if view is not None:
            view.open_at(table, query.row)
        self.refresh_lines()

    @property
    def came_from_finding(self) -> bool:
        """Whether the tab in view shows rows that a finding led to."""
        return self._return is not None and self._return.shown == self.tab

    def come_back(self, *, only_here: bool = False) -> bool:
        """Goes back to the finding that led to some rows, with the filter that was in force there.

        Args:
            only_here: not from a tab that it did not lead to.

        Returns:
            Whether there was one to go back to.
        """
        if self._return is None or (only_here and not self.came_from_finding):
            return False
        back, self._return = self._return, None
        self.session.filter = back.filter
        self.show_tab(back.tab)
        return True

    def action_come_back(self) -> None:
        """Goes back to the finding that led here."""
        if not self.come_back():
            self.say("No finding led here: Enter on the evidence of one goes to its rows")

    def action_tab(self, tab: str) -> None:
        """Goes to a tab."""
        if self._return is None or tab != self._return.tab or not self.come_back():
            self.show_tab(tab)

    def action_next_tab(self, step: int) -> None:
        """Goes to the tab after or before."""
        names = [name for name, _, _ in commands.TABS]
        self.show_tab(names[(names.index(self.tab) + step) % len(names)])

    def action_help(self) -> None:
        """Shows the help of this view."""
        from tracetui.app.screens import TextScreen, help_text

        view = self.view
        columns = view.columns_about() if view is not None else ()
        title = commands.TITLES[self.tab]
        text = help_text(self.tab, columns, ascii=self.session.ascii, width=self.size.width - 2)
        self.push_screen(TextScreen(f" Help: {title}", text))

    def action_picture(self) -> None:
        """Writes what the screen shows as an SVG, where there is no table to save in another form."""
        if "a" not in self.session.runs or self.tab in commands.TABLES:
            return
        from tracetui.app import export

        name = printable(self.session.runs["a"].name).replace("/", "_")
        path = export.free_path(Path(f"{name}-{self.tab}.svg"))
        try:
            path.write_text(self.export_screenshot(title="tracetui"), encoding="utf-8")
        except OSError as error:
            self.say(f"{path}: {error.strerror or error}")
        else:
            self.say(f"wrote {path.resolve()}")

    def action_notes(self) -> None:
        """Shows what was skipped, repaired or missing."""
        if "a" not in self.session.runs:
            return
        from tracetui.app.screens import TextScreen

        text = status.notes_text(self.session, self.own)
        self.push_screen(TextScreen(" Notes: what was skipped, repaired or missing", text))

    def action_stop_loading(self) -> None:
        """Stops reading; else goes back to the finding that led here, else ends the restriction to a range."""
        if self.loader.lines:
            self.loader.stop()
        elif not self.come_back(only_here=True) and self.session.range_words:
            self._forget_range()

    def _forget_range(self) -> None:
        from tracetui.app.views.timeline import TimelineView

        self.restrict(None)
        view = self._made("timeline")
        if isinstance(view, TimelineView):
            view.forget_marks()

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

    def action_next_kind(self) -> None:
        """Goes on to the recording of the run's next tool."""
        if "a" not in self.session.runs:
            return
        kind = self.session.next_kind()
        if kind is None:
            self.say("This run has one recording with a time line")
        else:
            self._reload_views()
            self.say(f"From {KIND_NAMES[kind]}: {self.session.trace().source.path.name}")
        self.refresh_lines()

    def action_open_other(self) -> None:
        """Asks for the run to compare with."""
        if "a" not in self.session.runs:
            return
        from tracetui.app.screens import RunPicker, traces_beside

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths:
                self.open_run("b", paths)
                self.show_tab("diff")

        run = self.session.runs["a"]
        choices = [*run.others, *traces_beside(run.path)]
        title = self.own(f" Compare {printable(run.name)} (A) with …")
        self.push_screen(RunPicker(title, choices, typing=True, ascii=self.session.ascii), chosen)

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

    def action_swap_runs(self) -> None:
        """Exchanges A and B."""
        if len(self.session.runs) < 2:
            self.say("There is no second run: o opens one")
            return
        self.session.swap()
        self._reload_views()
        self.refresh_lines()

    def action_command_palette(self) -> None:
        """Opens the palette, with a cursor that stands still: a blinking one sends bytes while nobody types."""
        super().action_command_palette()
        self.call_after_refresh(self._still_cursor)

    def _still_cursor(self) -> None:
        from textual.widgets import Input

        for line in self.screen.query(Input):
            line.cursor_blink = False

    def action_redraw(self) -> None:
        """Draws everything anew."""
        if redraw := getattr(self._driver, "redraw", None):
            redraw()
        self.refresh(repaint=True, layout=True)

    async def action_quit(self) -> None:
        """Leaves at once; threads that still read are told to stop and not waited for."""
        self.loader.stop()
        self.exit()


def run_tui(
    paths: Sequence[Path],
    *,
    scope: Scope | None = None,
    rank: int | None = None,
    source: str | None = None,
    tab: str | None = None,
    filter: str | None = None,
    color: str = "auto",
    ascii: bool = False,
    mouse: bool | None = None,
    driver: str = "auto",
    cache: bool = True,
) -> int:
    """Shows a run, or two, until the person quits; the exit code.

    Args:
        paths: run A, and B to compare with.
        scope: what the numbers are about.
        rank: the distributed rank to show first.
        source: the tool whose recording to show first (`TraceInfo.kind`).
        tab: the tab to begin with.
        filter: a filter in force from the start.
        color: auto, never, 16, 256 or truecolor.
        ascii: no characters outside ASCII.
        mouse: null is on, but off over SSH, where every motion of the pointer costs kilobytes.
        driver: what sends the screen, one of `terminal.choice.DRIVERS`.
        cache: use the cache of parsed traces.
    """
    remote = "SSH_CONNECTION" in os.environ
    color = settle_color(color)
    if remote and "ESCDELAY" not in os.environ:
        # a slow link may split the three bytes of an arrow key by more than the usual 0.1 s
        constants.ESCAPE_DELAY = REMOTE_ESCAPE_SECONDS  # type: ignore[misc]
    app = TracetuiApp(
        paths,
        scope=scope,
        rank=rank,
        source=source,
        tab=tab,
        filter=filter,
        color=color,
        ascii=ascii,
        low_bandwidth=remote,
        cache=cache,
        driver_class=driver_class(driver),
    )
    app.run(mouse=not remote if mouse is None else mouse)
    return app.exit_code or app.return_code or 0
