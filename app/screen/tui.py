"""The application: the parts that it has, what keys and commands ask of them, and what views ask for.

Nothing here imports Polars before the first paint; views and readers do, and are imported when needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App

from tracetui.analysis.scope import Scope
from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.screen import status
from tracetui.app.screen.choosing import RunLists
from tracetui.app.screen.history import Navigation
from tracetui.app.screen.leaving import Leaving
from tracetui.app.screen.opening import RunLoader
from tracetui.app.screen.preferences import Preferences, preferred_tab
from tracetui.app.screen.range_writer import RangeWriter
from tracetui.app.screen.restoring import Restorer
from tracetui.app.screen.shell import Shell
from tracetui.app.screen.starting import Starter
from tracetui.app.screen.view_host import ViewHost
from tracetui.app.session.loading import Loader
from tracetui.app.session.session import Session
from tracetui.app.settings import state
from tracetui.app.settings import theme as themes
from tracetui.app.settings.schema import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType
    from textual.app import ComposeResult, SystemCommand
    from textual.command import Provider
    from textual.driver import Driver
    from textual.events import Event, Key, Resize
    from textual.messages import ExitApp
    from textual.screen import Screen

    from tracetui.app.session import jobs
    from tracetui.app.session.loading import LoadProgress
    from tracetui.app.session.open_runs import OpenRun
    from tracetui.app.views.common import messages
    from tracetui.app.views.common.base import View
    from tracetui.app.views.common.host import Host
    from tracetui.app.widgets.lines import TabBar


def _provider() -> type[Provider]:
    # imported here: before the first paint nobody needs it
    from tracetui.app.screen.dialogs.palette import EverythingProvider

    return EverythingProvider


class TracetuiApp(App[None]):
    """Header, tabs, the view, footer, and all that can be done there."""

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
        run: str | None = None,
        samples: Sequence[Path] = (),
        color: str = "auto",
        ascii: bool = False,
        low_bandwidth: bool = False,
        cache: bool = True,
        driver_class: type[Driver] | None = None,
        settings: Settings | None = None,
    ) -> None:
        # NO_COLOR is answered by a filter that is chosen here: with ANSI colours it takes them all away
        super().__init__(driver_class=driver_class, ansi_color=True if color == "never" else None)
        self.ending = Leaving(self, self._before_the_end)
        self.session = session = Session(scope or Scope(), rank=rank, kind=source, filter=filter or "", ascii=ascii)
        for path in paths:
            session.add((path,))
        self.animation_level = "none"
        self.set_class(ascii, "-ascii")
        wished, settings = preferred_tab(settings or Settings())
        self.preferences = Preferences(
            settings, session, color=color, low_bandwidth=low_bandwidth, keeps_state=cache and not state.off()
        )
        self.loader = Loader(self, cache=cache, meanwhile=lambda: self.shell.import_view())
        asked = commands.find_tab(tab) if tab else None
        self.shell = Shell(
            self, session, self.loader, tab=asked, preferred_tab=wished, on_tab=lambda: self.restorer.save_soon()
        )
        self.runs = RunLoader(
            session, self.loader, self.shell, self, wanted=run or "", problems=self.preferences.problems
        )
        self.navigation = Navigation(session, self.shell, self.runs)
        self.restorer = Restorer(
            self.runs, self.shell, self.navigation, self.set_timer, keeps=lambda: self.preferences.keeps_state
        )
        self.starter = Starter(self.runs, self.shell, self.restorer, self.push_screen, self.exit, samples=samples)
        self.lists = RunLists(self.runs, self.shell, self, self.push_screen, cache=cache)
        self.ranges = RangeWriter(session, self.shell, self)
        self.host: Host = ViewHost(session, self.loader, self.shell, self.navigation, self.preferences)
        if len(paths) == 1:
            self.restorer.recall(paths[0], tab=not tab, filter=filter is None)
        self._begin_with_theme(self.preferences.usual_theme)
        self.update_keymap(dict(self.preferences.keymap))

    def _begin_with_theme(self, name: str) -> None:
        """The theme of the first paint: set before the style sheet is read, lest it be read twice."""
        for known in themes.ALL:
            self.register_theme(known)
        self.set_reactive(App.theme, name)
        dark = self.current_theme.dark
        for kind, holds in ((f"-theme-{name}", True), ("-dark-mode", dark), ("-light-mode", not dark)):
            self.set_class(holds, kind, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Variables of the style sheet that a theme may leave out."""
        return themes.DEFAULTS

    # --- from the first paint to the first run

    def compose(self) -> ComposeResult:
        """The shell, empty."""
        yield from self.shell.widgets()

    def on_mount(self) -> None:
        """Paints the shell, and only then gets ready for more."""
        self.shell.begin()
        self.call_after_refresh(self.painted)

    def painted(self) -> None:
        """The shell is there: reads how all else looks, and begins with the work."""
        self.stylesheet.read(Path(__file__).with_name("views.tcss"))
        self.start()

    def start(self) -> None:
        """Begins with the work, once the shell is painted."""
        self.starter.start()

    @property
    def tab(self) -> str:
        """The tab in view."""
        return self.shell.tab

    @property
    def view(self) -> View | None:
        """The view in sight; null until it has its widgets."""
        return self.shell.view

    def on_key(self, event: Key) -> None:
        """Any key takes the message away; one that does nothing here says where it does."""
        there = len(self.screen_stack) == 1 and "a" in self.session.runs
        self.shell.say(commands.elsewhere(event.key, self.tab, blank=self.shell.is_blank) if there else "")

    def on_resize(self, event: Resize) -> None:
        """The footer's keys depend on the width."""
        self.shell.refresh_lines()

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """A tab was clicked."""
        self.navigation.to_tab(event.tab)

    def on_load_progress(self, event: LoadProgress) -> None:
        """Shows stage, size and what is left, in a line."""
        self.loader.note(event)
        self.shell.refresh_lines()

    def on_job_done(self, event: jobs.JobDone[Any]) -> None:
        """A run is read, or a range is written; too late where the program is closing."""
        if not self.shell.closing:
            self.ranges.finish(event)
            self.runs.finish(event)

    # --- what becomes of runs

    def leaving(self) -> None:
        """Another run was asked for: where one is now is a place to go back to, and to begin with the next time."""
        self.navigation.leave()
        self.restorer.save_place()

    def was_opened(self, entry: OpenRun) -> None:
        """A run was read."""
        self.restorer.was_opened(entry)

    def was_closed(self) -> None:
        """Runs may have gone out of memory."""
        self.navigation.was_closed()

    def could_not_open(self, letter: str) -> None:
        """A run could not be read."""
        self.starter.could_not_open(letter)

    def has_others(self, title: str) -> None:
        """One of several runs of a folder is in view: asks which one is meant."""
        self.lists.show_runs(title)

    # --- what views ask for

    def on_open_runs(self, event: messages.OpenRuns) -> None:
        """Opens a point of a sweep; of a variant, it and its baseline side by side."""
        self.runs.open_run("a", (event.a,))
        if event.b is not None:
            self.runs.open_run("b", (event.b,))
        self.shell.show_tab("overview" if event.b is None else "diff")

    def on_show_evidence(self, event: messages.ShowEvidence) -> None:
        """Goes to the rows that a finding rests on."""
        self.navigation.show_rows(event.query)

    def on_show_rows(self, event: messages.ShowRows) -> None:
        """Goes to a row of another tab."""
        self.navigation.open_rows(event.tab, event.table, event.name)

    def on_show_in_timeline(self, event: messages.ShowInTimeline) -> None:
        """Goes to an event of the timeline."""
        self.navigation.show_in_timeline(event.source, event.row)

    def on_range_marked(self, event: messages.RangeMarked) -> None:
        """Restricts every tab to the range."""
        self.shell.restrict(event.window, event.words)

    def on_back_to_finding(self, event: messages.BackToFinding) -> None:
        """Leaves the rows for the finding."""
        self.navigation.come_back(only_here=True)

    def on_went_back(self, event: messages.WentBack) -> None:
        """The way back may be shorter."""
        self.navigation.went_back()

    def on_nothing_to_close(self, event: messages.NothingToClose) -> None:
        """Esc means the application."""
        self.action_stop_loading()

    def on_names_chosen(self, event: messages.NamesChosen) -> None:
        """Keeps how names are written."""
        self.preferences.keep("names", self.session.names)

    def on_columns_chosen(self, event: messages.ColumnsChosen) -> None:
        """Keeps which columns a page has."""
        self.preferences.keep_columns(event.page, event.columns)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """None of Textual's own: the registry has them all."""
        return ()

    def action_command_palette(self) -> None:
        """Opens the palette, with a cursor that stands still: a blinking one sends bytes while nobody types."""
        from tracetui.app.screen.dialogs.palette import still_cursor

        super().action_command_palette()
        self.call_after_refresh(lambda: still_cursor(self.screen))

    # --- keys: places

    def action_tab(self, tab: str) -> None:
        """Goes to a tab."""
        self.navigation.to_tab(tab)

    def action_next_tab(self, step: int) -> None:
        """Goes to the tab after or before; over a list, to its other part."""
        if len(self.screen_stack) > 1:
            if step > 0:
                self.screen.focus_next()
            else:
                self.screen.focus_previous()
            return
        names = tabs.NAMES
        self.navigation.to_tab(names[(names.index(self.tab) + step) % len(names)])

    def action_come_back(self) -> None:
        """Goes back to the place visited before this one."""
        self.navigation.back()

    def action_stop_loading(self) -> None:
        """Stops reading; else goes back to the finding that led here, else ends the restriction to a range."""
        if self.loader.lines:
            self.loader.stop()
        elif not self.navigation.come_back(only_here=True):
            self.shell.forget_range()

    # --- keys: runs

    def action_runs(self) -> None:
        """Shows the list of runs."""
        self.lists.show_runs()

    def action_open_other(self) -> None:
        """Asks for the run to compare with."""
        self.lists.ask_what_to_compare()

    def action_captures(self) -> None:
        """Compares the files of the folder that was opened."""
        self.lists.show_captures()

    def action_swap_runs(self) -> None:
        """Exchanges A and B."""
        self.runs.swap()

    def action_afresh(self) -> None:
        """Goes back to how a run looks when it is opened for the first time."""
        self.restorer.begin_afresh()

    def action_next_rank(self) -> None:
        """Goes on to the next rank."""
        self.navigation.next_rank()

    def action_next_kind(self) -> None:
        """Goes on to the recording of the run's next tool."""
        self.navigation.next_kind()

    # --- keys: what is written

    def action_save_range(self) -> None:
        """Writes what lies in the marked range as a trace of its own."""
        self.ranges.start()

    def action_picture(self) -> None:
        """Writes what the screen shows as an SVG, where there is no table to save in another form."""
        if "a" in self.session.runs and self.tab not in tabs.TABLES:
            from tracetui.app.screen.picture import save_picture

            self.shell.say(save_picture(self.session, self.tab, self.export_screenshot(title=self.TITLE)))

    # --- keys: the program

    def action_help(self) -> None:
        """Shows the help of this view."""
        from tracetui.app.screen.dialogs.common import help_screen

        columns = self.view.columns_about() if self.view is not None else ()
        self.push_screen(help_screen(self.tab, columns, ascii=self.session.ascii, width=self.size.width - 2))

    def action_notes(self) -> None:
        """Shows what was skipped, repaired or missing."""
        if "a" in self.session.runs:
            from tracetui.app.screen.dialogs.common import notes_screen

            self.push_screen(notes_screen(status.notes_text(self.session, self.shell.own)))

    def action_theme(self, name: str) -> None:
        """Changes the theme."""
        self.theme, words = self.preferences.choose_theme(name)
        self.shell.say(words)

    def action_next_theme(self) -> None:
        """Goes on to the next theme that this terminal has the colours for."""
        self.action_theme(self.preferences.theme_after(self.theme))

    def action_low_bandwidth(self) -> None:
        """Sends less, or no longer."""
        theme, words = self.preferences.switch_bandwidth()
        if theme is not None:
            self.theme = theme
        for table in self.query("FrameTable"):
            table.jump = self.preferences.low_bandwidth  # type: ignore[attr-defined]
        self.shell.say(words)

    def action_redraw(self) -> None:
        """Draws everything anew."""
        if redraw := getattr(self._driver, "redraw", None):
            redraw()
        self.refresh(repaint=True, layout=True)

    # --- the end

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Ends the program once nothing is half there; keeps the place, and waits for no thread that still reads."""
        end = super().exit
        self.ending.ask(lambda: end(result, return_code, message))

    def _before_the_end(self) -> None:
        self.loader.close()
        self.restorer.save_for_good()

    def on_exit_app(self, event: ExitApp) -> None:
        """Ends the same way where a driver asks Textual itself for the end, as when a browser's page is closed."""
        if not self.ending.done:
            event.prevent_default()
            self.exit()

    async def on_event(self, event: Event) -> None:
        """Takes no more keys once the end was asked for."""
        if not self.ending.swallows(event):
            await super().on_event(event)
