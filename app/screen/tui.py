"""What keys and commands do on the screen, and how it is started."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import constants

from tracetui.app.keys import commands
from tracetui.app.screen import status
from tracetui.app.screen.restoring import Restoring
from tracetui.app.session import jobs
from tracetui.app.settings.theme import settle_color
from tracetui.app.terminal.choice import driver_class
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.formats import printable
from tracetui.app.text.words import KIND_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.scope import Scope
    from tracetui.app.keys.command import Command
    from tracetui.app.settings.schema import Settings
    from tracetui.app.views.common.messages import (
        BackToFinding,
        ColumnsChosen,
        NamesChosen,
        NothingToClose,
        OpenRuns,
        RangeMarked,
        ShowEvidence,
        ShowInTimeline,
        ShowRows,
        WentBack,
    )

REMOTE_ESCAPE_SECONDS = 0.4
CUT = "cut"
"""The job that writes a range."""
STOP_SECONDS = 2.0
"""How long quitting waits for it at most."""
RUNS = "runs"
"""Stands for a tab, where the palette names a run."""


class TracetuiApp(Restoring):
    """Header, tabs, the view, footer, and all that can be done there."""

    def __init__(self, paths: Sequence[Path], **more: Any) -> None:
        super().__init__(paths, **more)
        self._ends = threading.Event()
        """Set when the program ends: what is half written is taken away."""

    def stop_writing(self) -> None:
        """Stops what writes a file, and gives it the time to take away what is half written."""
        self._ends.set()
        jobs.wait(CUT, STOP_SECONDS)

    def do(self, command: Command) -> None:
        """Runs a command of the palette where it belongs."""
        self.call_later(self._do, command)

    async def _do(self, command: Command) -> None:
        view = self.view
        target: Any = self
        if command.where in ("view", "counted", "diff", "sweep", "timeline"):
            target = view
        elif command.where in ("table", "tree", "overview", "lanes"):
            target = self.focused
        if target is not None:
            await self.run_action(command.action, default_namespace=target)

    def open_rows(self, tab: str, table: str, name: str) -> None:
        """Goes to a table of a tab, and to the row of this name."""
        self.leave()
        self.show_tab(tab)
        view = self.made(tab)
        if view is not None:
            view.open_at(table, name)
        self.refresh_lines()

    def show_in_timeline(self, source: str, row: int) -> None:
        """Goes to the timeline, and there to a row of one of the trace's frames."""
        from tracetui.app.views.timeline import TimelineView

        self.leave()
        self.show_tab("timeline")
        view = self.made("timeline")
        if isinstance(view, TimelineView):
            view.seek(source, row)

    # --- what views ask for

    def on_open_runs(self, event: OpenRuns) -> None:
        """Opens a point of a sweep; of a variant, it and its baseline side by side."""
        self.open_run("a", (event.a,))
        if event.b is not None:
            self.open_run("b", (event.b,))
        self.show_tab("overview" if event.b is None else "diff")

    def on_show_evidence(self, event: ShowEvidence) -> None:
        """Goes to the rows that a finding rests on."""
        self.show_rows(event.query)

    def on_show_rows(self, event: ShowRows) -> None:
        """Goes to a row of another tab."""
        self.open_rows(event.tab, event.table, event.name)

    def on_show_in_timeline(self, event: ShowInTimeline) -> None:
        """Goes to an event of the timeline."""
        self.show_in_timeline(event.source, event.row)

    def on_range_marked(self, event: RangeMarked) -> None:
        """Restricts every tab to the range."""
        self.restrict(event.window, event.words)

    def on_back_to_finding(self, event: BackToFinding) -> None:
        """Leaves the rows for the finding."""
        self.come_back(only_here=True)

    def on_went_back(self, event: WentBack) -> None:
        """The way back may be shorter."""
        self.went_back()

    def on_nothing_to_close(self, event: NothingToClose) -> None:
        """Esc means the application."""
        self.action_stop_loading()

    def on_names_chosen(self, event: NamesChosen) -> None:
        """Keeps how names are written."""
        self.keep("names", self.session.names)

    def on_columns_chosen(self, event: ColumnsChosen) -> None:
        """Keeps which columns a page has."""
        self.keep_columns(event.page, event.columns)

    def places(self) -> Iterator[tuple[str, str, str, str]]:
        """(tab, noun, name, label) of everything the palette can go to, as far as it has been computed."""
        if "a" not in self.session.runs:
            return
        if len(self.session.open) > 1:
            yield from ((RUNS, "run", letter, words) for letter, words in self.run_places())
        from tracetui.app.session.places import places

        yield from places(self.session)

    def go_to(self, tab: str, name: str) -> None:
        """Goes to a tab and to the row of this name; or to a run, by its letter."""
        if tab == RUNS:
            self.look_at(name)
            return
        self.leave()
        self.show_tab(tab)
        view = self.made(tab)
        if view is not None:
            view.go_to(name)

    def action_next_tab(self, step: int) -> None:
        """Goes to the tab after or before; over a list, to its other part."""
        if len(self.screen_stack) > 1:
            if step > 0:
                self.screen.focus_next()
            else:
                self.screen.focus_previous()
            return
        names = [name for name, _, _ in commands.TABS]
        self.action_tab(names[(names.index(self.tab) + step) % len(names)])

    def action_help(self) -> None:
        """Shows the help of this view."""
        from tracetui.app.screen.dialogs import TextScreen, help_text

        view = self.view
        columns = view.columns_about() if view is not None else ()
        title = commands.TITLES[self.tab]
        text = help_text(self.tab, columns, ascii=self.session.ascii, width=self.size.width - 2)
        self.push_screen(TextScreen(f" Help: {title}", text))

    def action_picture(self) -> None:
        """Writes what the screen shows as an SVG, where there is no table to save in another form."""
        if "a" not in self.session.runs or self.tab in commands.TABLES:
            return
        from tracetui.app.tables import export

        name = printable(self.session.runs["a"].name).replace("/", "_")
        path = export.free_path(Path(f"{name}-{self.tab}.svg"))
        try:
            path.write_text(self.export_screenshot(title="tracetui"), encoding="utf-8")
        except OSError as error:
            self.say(f"{path}: {error.strerror or error}")
        else:
            self.say(f"wrote {path.resolve()}")

    def action_save_range(self) -> None:
        """Writes what lies in the marked range as a trace of its own."""
        if "a" not in self.session.runs:
            return
        from tracetui.app.session import cut
        from tracetui.parsers.progress import Watch

        trace, window = self.session.trace(), self.session.scope.window
        if no := cut.refused(trace.info.kind):
            self.say(no[0].upper() + no[1:])
        elif window is None:
            self.say("No range is marked: [ and ] in Timeline mark one")
        elif jobs.busy(CUT):
            self.say("A range is being written already")
        else:
            self.say("Writing the range ...")
            jobs.start(self, CUT, lambda: cut.save_range(trace, window, Watch(cancel=self._ends)))

    def on_job_done(self, event: jobs.JobDone[Any]) -> None:
        """A range is written, or could not be; Textual calls the handlers of the other classes next."""
        if event.key == CUT:
            from tracetui.app.session import cut

            if event.error is not None:
                self.log_error(event.error)
            self.say(cut.said(event.result) if event.result is not None else str(event.error))

    def action_notes(self) -> None:
        """Shows what was skipped, repaired or missing."""
        if "a" not in self.session.runs:
            return
        from tracetui.app.screen.dialogs import TextScreen

        text = status.notes_text(self.session, self.own)
        self.push_screen(TextScreen(" Notes: what was skipped, repaired or missing", text))

    def action_stop_loading(self) -> None:
        """Stops reading; else goes back to the finding that led here, else ends the restriction to a range."""
        if self.loader.lines:
            self.loader.stop()
        elif not self.come_back(only_here=True) and self.session.range_words:
            self._forget_range()

    def _other_recording(self) -> None:
        """Another recording of the run is in view: the marked range was one of the other's clock."""
        if self.session.range_words:
            self._forget_range()
        self.reload_views()

    def action_next_rank(self) -> None:
        """Goes on to the next rank."""
        if "a" not in self.session.runs:
            return
        rank = self.session.next_rank()
        if rank is None:
            self.say("This run has one rank")
        else:
            self._other_recording()
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
            self._other_recording()
            self.say(f"From {KIND_NAMES[kind]}: {self.session.trace().source.path.name}")
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


def run_tui(
    paths: Sequence[Path],
    *,
    scope: Scope | None = None,
    rank: int | None = None,
    source: str | None = None,
    tab: str | None = None,
    filter: str | None = None,
    run: str | None = None,
    samples: Sequence[Path] = (),
    color: str = "auto",
    ascii: bool = False,
    mouse: bool | None = None,
    driver: str = "auto",
    low_bandwidth: bool | None = None,
    cache: bool = True,
    settings: Settings | None = None,
) -> int:
    """Shows runs until the person quits; the exit code.

    Args:
        paths: run A, B to compare with, and more for the list of runs; none asks which.
        scope: what the numbers are about.
        rank: the distributed rank to show first.
        source: the tool whose recording to show first (`TraceInfo.kind`).
        tab: the tab to begin with.
        filter: a filter in force from the start.
        run: which run to look at first, by letter or name, of a folder with several or of several paths.
        samples: recordings to offer where no path is given.
        color: auto, never, 16, 256 or truecolor.
        ascii: no characters outside ASCII.
        mouse: null is on, but off over SSH, where every motion of the pointer costs kilobytes.
        driver: what sends the screen, one of `terminal.choice.DRIVERS`.
        low_bandwidth: null is over SSH.
        cache: use the cache of parsed traces, and remember what was opened.
        settings: what else the person prefers.

    Raises:
        UsageError: there is no such run.
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
        run=run,
        samples=samples,
        color=color,
        ascii=ascii,
        low_bandwidth=remote if low_bandwidth is None else low_bandwidth,
        cache=cache,
        driver_class=driver_class(driver),
        settings=settings,
    )
    app.run(mouse=not remote if mouse is None else mouse)
    app.stop_writing()
    if app.usage:
        raise UsageError(app.usage)
    return app.exit_code or app.return_code or 0
