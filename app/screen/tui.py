"""The application: it builds the parts, and passes keys, commands and messages of views to them.

Nothing here imports Polars before the first paint; views and readers do, so they are imported when needed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, ComposeResult, SystemCommand

from tracetui.analysis.scope import Scope
from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.screen import status
from tracetui.app.screen.dialogs.choosing import RunLists
from tracetui.app.screen.history import Navigation
from tracetui.app.screen.keyboard import Keyboard, Leaving, Passed
from tracetui.app.screen.opening import RunLoader
from tracetui.app.screen.preferences import Preferences, preferred_tab
from tracetui.app.screen.queries import Queries
from tracetui.app.screen.range_writer import RangeWriter
from tracetui.app.screen.restoring import Restorer
from tracetui.app.screen.shell import Shell
from tracetui.app.session.loading import Loader, LoadProgress
from tracetui.app.session.session import Session
from tracetui.app.settings import state
from tracetui.app.settings import theme as themes
from tracetui.app.settings.schema import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import RenderableType
    from textual.command import Provider
    from textual.driver import Driver
    from textual.events import Event, Key, Resize
    from textual.messages import ExitApp
    from textual.screen import Screen

    from tracetui.analysis.tables.table import Field
    from tracetui.app.session import jobs
    from tracetui.app.session.open_runs import OpenRun
    from tracetui.app.views.common import messages
    from tracetui.app.views.common.base import Host, View
    from tracetui.app.widgets.lines import TabBar


def _provider() -> type[Provider]:
    # imported here because nothing needs it before the first paint
    from tracetui.app.screen.dialogs.palette import EverythingProvider

    return EverythingProvider


class ViewHost:
    """What views use of the application's parts: a `views.common.base.Host`."""

    def __init__(
        self,
        session: Session,
        loader: Loader,
        shell: Shell,
        navigation: Navigation,
        preferences: Preferences,
        silence: Callable[[Sequence[str], str], None],
        stop_loading: Callable[[], None],
    ) -> None:
        self._shell, self._navigation, self._preferences = shell, navigation, preferences
        self.session = session
        self.own = shell.own
        self.say = shell.say
        self.unsay = shell.unsay
        self.refresh_lines = shell.refresh_lines
        self.ask = shell.ask
        self.remark = shell.remark
        self.rows_came = shell.rows_came
        self.log_error = shell.log_error
        self.restrict = shell.restrict
        self.failure = loader.failure
        self.is_loading = loader.is_loading
        self.here = navigation.here
        self.leave = navigation.leave
        self.open_rows = navigation.open_rows
        self.show_in_timeline = navigation.show_in_timeline
        self.show_gap = navigation.show_gap
        self.come_back = navigation.come_back
        self.back = navigation.back
        self.went_back = navigation.went_back
        self.silence = silence
        self.keep = preferences.keep
        self.keep_columns = preferences.keep_columns
        self.stop_loading = stop_loading

    @property
    def tab(self) -> str:
        """The tab in view."""
        return self._shell.tab

    @property
    def low_bandwidth(self) -> bool:
        """Whether the connection to the terminal is slow."""
        return self._preferences.low_bandwidth

    @property
    def asking(self) -> bool:
        """Whether the line is open; all keys are its until it is closed."""
        return self._shell.prompt is not None

    @property
    def came_from_finding(self) -> bool:
        """Whether the tab in view shows rows that a finding led to."""
        return self._navigation.came_from_finding

    @property
    def came_by_jump(self) -> bool:
        """Whether something of another tab led to the tab in view."""
        return self._navigation.came_by_jump

    def configure_columns(self, page: str, columns: Sequence[Field]) -> None:
        """Applies which columns of a page the settings show and hide."""
        if problem := self._preferences.configure_columns(page, columns):
            self._shell.say(problem)


class TracetuiApp(App[None]):
    """The application: header, tabs, view, footer, and all actions.

    Args:
        paths: run A, then B to compare with, then more for the list of runs; if empty, the start screen asks.
        scope: what the numbers cover.
        rank: the distributed rank to show first.
        source: the tool whose recording to show first (`TraceInfo.kind`).
        tab: the tab to start on.
        filter: the initial filter.
        run: which run to view first, by letter or name, if a folder or the paths hold several.
        samples: recordings to offer if no path is given.
        color: never, 16, 256 or truecolor.
        ascii: no characters outside ASCII.
        low_bandwidth: few colours, and tables scroll by half pages.
        cache: use the cache of parsed traces, and remember what was opened.
        driver_class: what sends the screen.
        settings: the user's other settings.
    """

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
        # Textual chooses its NO_COLOR filter here: with ANSI colours, that filter removes all colours
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
        self._awaited: messages.ShowRank | None = None
        """What is gone to when its rank was read."""
        self.shell = Shell(
            self,
            session,
            self.loader,
            tab=asked,
            preferred_tab=wished,
            on_tab=lambda: self.restorer.save_soon(),
            on_rows=lambda: self._rows_came(),
        )
        self.keyboard = Keyboard(self, self.shell, self.ending, super().on_event, lambda: self.navigation.note())
        self.runs = RunLoader(
            session, self.loader, self.shell, self, wanted=run or "", problems=self.preferences.problems
        )
        self.navigation = Navigation(session, self.shell, self.runs)
        self.restorer = Restorer(self.runs, self.shell, self.navigation, self.preferences, self.set_timer)
        self.lists = RunLists(self, self.runs, self.shell, self.restorer, self.navigation, samples=samples)
        self.ranges = RangeWriter(session, self.shell, self)
        self.queries = Queries(session, self.shell, self.navigation, self, self.action_command_palette)
        self.host: Host = ViewHost(
            session,
            self.loader,
            self.shell,
            self.navigation,
            self.preferences,
            self.runs.silence,
            self.action_stop_loading,
        )
        self._give_keys_to_parts()
        if len(paths) == 1:
            self.restorer.recall(paths[0], tab=not tab, filter=filter is None)
        self._begin_with_theme(self.preferences.usual_theme)
        self.update_keymap(dict(self.preferences.keymap))

    def _begin_with_theme(self, name: str) -> None:
        """Sets the theme of the first paint before the style sheet is read, so that it is read only once."""
        for known in themes.ALL:
            self.register_theme(known)
        self.set_reactive(App.theme, name)
        dark = self.current_theme.dark
        for kind, holds in ((f"-theme-{name}", True), ("-dark-mode", dark), ("-light-mode", not dark)):
            self.set_class(holds, kind, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Returns defaults for style sheet variables that a theme may leave out."""
        return themes.DEFAULTS

    # --- from the first paint to the first run

    def compose(self) -> ComposeResult:
        """Lays out the empty shell."""
        yield from self.shell.widgets()

    def on_mount(self) -> None:
        """Paints the shell before doing anything else."""
        self.shell.begin()
        self.call_after_refresh(self.painted)

    def painted(self) -> None:
        """Reads the rest of the styles and starts the work, once the shell is painted."""
        self.stylesheet.read(Path(__file__).with_name("views.tcss"))
        self.start()
        self.keyboard.begin()

    def start(self) -> None:
        """Starts the work, once the shell is painted."""
        self.lists.start()

    @property
    def tab(self) -> str:
        """Returns the tab in view."""
        return self.shell.tab

    @property
    def view(self) -> View | None:
        """Returns the current view; None until it has its widgets."""
        return self.shell.view

    def _rows_came(self) -> None:
        self.keyboard.rows_came()
        self.queries.rows_came()

    def on_key(self, event: Key) -> None:
        """Removes the message on any key; for a key that does nothing here, says where it works."""
        there = len(self.screen_stack) == 1 and "a" in self.session.runs and self.shell.prompt is None
        self.shell.say(commands.elsewhere(event.key, self.tab, blank=self.shell.is_blank) if there else "")

    def on_resize(self, event: Resize) -> None:
        """Updates the lines whose words depend on the width, which Textual gives to its screens only later."""
        self.shell.refresh_lines(event.size)

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """Shows the tab that was clicked."""
        self.navigation.to_tab(event.tab)

    def on_load_progress(self, event: LoadProgress) -> None:
        """Shows stage, size and remaining time in one line."""
        self.loader.note(event)
        self.shell.refresh_lines()

    def on_job_done(self, event: jobs.JobDone[Any]) -> None:
        """Handles a run that was read or a range that was written; does nothing if the program is closing."""
        if not self.shell.closing:
            self.ranges.finish(event)
            self.queries.finish(event)
            self.runs.finish(event)
            awaited = self._awaited
            if awaited is not None and awaited.rank not in self.session.runs["a"].unread:
                self._awaited = None
                self._show_kernel(awaited)

    # --- events of runs

    def leaving(self) -> None:
        """Saves the current place, to go back to and to start from next time, before another run is shown."""
        self.navigation.leave()
        self.restorer.save_place()

    def was_opened(self, entry: OpenRun) -> None:
        """Restores the last position of a run that was read."""
        self.restorer.was_opened(entry)

    def was_closed(self) -> None:
        """Drops places of runs that may have been released from memory."""
        self.navigation.was_closed()

    def could_not_open(self, letter: str) -> None:
        """Asks again if a run could not be read."""
        self.keyboard.after_typing(lambda: self.lists.could_not_open(letter))

    def has_others(self, title: str) -> None:
        """Asks which run is meant, if the first is one of several in its folder."""
        self.keyboard.after_typing(lambda: self.lists.show_runs(title))

    # --- messages of views

    def on_open_runs(self, event: messages.OpenRuns) -> None:
        """Opens a point of a sweep; for a variant, opens it and its baseline side by side."""
        self.navigation.leave()
        self.runs.open_run("a", (event.a,))
        if event.b is not None:
            self.runs.open_run("b", (event.b,))
        self.navigation.arrive("overview" if event.b is None else "diff")

    def on_show_evidence(self, event: messages.ShowEvidence) -> None:
        """Goes to the rows that a finding rests on."""
        self.navigation.show_rows(event.query)

    def on_show_rank(self, event: messages.ShowRank) -> None:
        """Shows a rank of the run."""
        self.navigation.show_rank(event.rank)
        run = self.session.runs["a"]
        if event.began is not None and run.summaries_in is None:
            if event.rank in run.unread:
                self._awaited = event
            else:
                self._show_kernel(event)
        elif run.summaries_in is None:
            self.navigation.jump("overview")

    def _show_kernel(self, event: messages.ShowRank) -> None:
        """Goes to the timeline of the rank in view, and there to the kernel that began then."""
        trace = self.session.trace()
        at = trace.device["start"].index_of((event.began or 0) - (trace.info.base_time or 0))
        if at is not None:
            self.navigation.show_in_timeline("device", at)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Returns none of Textual's own commands: the registry has them all."""
        return ()

    def action_command_palette(self, text: str = "") -> None:
        """Opens the palette with a steady cursor: a blinking one sends bytes while nobody types."""
        from tracetui.app.screen.dialogs.palette import still_cursor

        super().action_command_palette()
        self.call_after_refresh(lambda: still_cursor(self.screen, text))

    # --- keys: places

    def _give_keys_to_parts(self) -> None:
        """Binds the keys whose work is that of one part: Textual finds an action by its name."""
        self.action_tab = self.navigation.to_tab
        self.action_come_back = self.navigation.back
        self.action_undo = self.navigation.undo
        self.action_redo = self.navigation.redo
        self.action_next_rank = self.navigation.next_rank
        self.action_next_kind = self.navigation.next_kind
        self.action_runs = self.lists.show_runs
        self.action_captures = self.lists.show_captures
        self.action_open_other = self.lists.ask_what_to_compare
        self.action_swap_runs = self.runs.swap
        self.action_afresh = self.restorer.begin_afresh
        self.action_query = self.queries.ask
        self.action_save_range = self.ranges.ask

    def action_filter(self) -> None:
        """Asks for the filter of all tabs, in the tab without tables whose command this is."""
        if self.tab == "overview" and ("a" in self.session.runs or self.shell.awaits_rows):
            self.shell.ask_for_filter()

    def action_next_tab(self, step: int) -> None:
        """Goes to the next or previous tab; in a dialog, moves the focus."""
        if len(self.screen_stack) > 1:
            if step > 0:
                self.screen.focus_next()
            else:
                self.screen.focus_previous()
            return
        names = [tab.id for tab in tabs.shown(self.tab, self.session.filled_tabs)]
        self.navigation.to_tab(names[(names.index(self.tab) + step) % len(names)])

    def action_gaps(self) -> None:
        """Opens the list of the longest gaps."""
        if "a" in self.session.runs:
            self.navigation.open_rows("host", "gaps", "")

    def action_stop_loading(self) -> None:
        """Stops reading, or else goes back to what led here, or else ends the restriction to a range."""
        if self.loader.lines:
            self.loader.stop()
        elif not self.navigation.come_back(only_here=True) and not self.navigation.undo_jump():
            if self.session.range_words:
                self.shell.say(f"The range is no longer in force: {commands.key('app.undo')} brings it back")
            self.shell.forget_range()

    # --- keys: files

    def action_picture(self) -> None:
        """Asks where to save the screen as an SVG, if there is no table to save in another form."""
        if self.tab not in tabs.TABLES:
            self._save_picture(of_chart=False)

    def action_save_chart(self) -> None:
        """Asks where to save the view's chart as an SVG; where it has none, the screen."""
        self._save_picture(of_chart=True)

    def _save_picture(self, *, of_chart: bool) -> None:
        if self.view is not None:
            from tracetui.app.views.common.rows import ask_for_picture

            ask_for_picture(self.view, lambda: self.export_screenshot(title=self.TITLE), of_chart=of_chart)

    def action_edit_source(self) -> None:
        """Opens the line under the cursor in the user's editor, which has the terminal until it ends."""
        if self.view is None or "a" not in self.session.runs:
            return
        import subprocess

        from textual.app import SuspendNotSupported

        from tracetui.app.session.source_file import editor_command, file_here, source_line
        from tracetui.app.text.exit_codes import UsageError

        place, manifest = source_line(self.view.place_text), self.session.runs["a"].manifest
        if place is None:
            self.shell.say("This row names no line of a Python file")
            return
        try:
            path = file_here(place, (None if manifest is None else manifest.identity.cwd, Path.cwd()))
            command = editor_command(path, place.line, os.environ)
            with self.suspend():
                subprocess.run(command, check=False)
        except UsageError as problem:
            self.shell.say(str(problem))
        except SuspendNotSupported:
            self.shell.say("This terminal can't be handed to an editor")
        except OSError as error:
            self.shell.say(f"$EDITOR: {(error.strerror or str(error)).lower()}")

    # --- keys: the program

    def action_help(self) -> None:
        """Shows the help of this view."""
        from tracetui.app.screen.dialogs.common import TextScreen, help_text

        columns = self.view.columns_about() if self.view is not None else ()
        text = help_text(self.tab, columns, ascii=self.session.ascii, width=self.size.width - 2)
        self.push_screen(TextScreen(f" Help: {tabs.TITLES[self.tab]}", text))

    def action_notes(self) -> None:
        """Shows what was skipped, repaired or missing."""
        if "a" in self.session.runs:
            from tracetui.app.screen.dialogs.common import TextScreen

            notes = status.notes_text(self.session, self.shell.own)
            self.push_screen(TextScreen(" Notes: what was skipped, repaired or missing", notes))

    def action_theme(self, name: str) -> None:
        """Changes the theme."""
        self.theme, words = self.preferences.choose_theme(name)
        self.shell.say(words)

    def action_next_theme(self) -> None:
        """Switches to the next theme that this terminal has the colours for."""
        self.action_theme(self.preferences.theme_after(self.theme))

    def action_low_bandwidth(self) -> None:
        """Switches low bandwidth on or off."""
        theme, words = self.preferences.switch_bandwidth()
        if theme is not None:
            self.theme = theme
        for table in self.query("FrameTable"):
            table.jump = self.preferences.low_bandwidth  # type: ignore[attr-defined]
        self.shell.say(words)

    def action_redraw(self) -> None:
        """Redraws everything."""
        if redraw := getattr(self._driver, "redraw", None):
            redraw()
        self.refresh(repaint=True, layout=True)

    # --- the end

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Saves the position and ends the program once all parts are finished; does not wait for reading threads."""
        end = super().exit
        self.ending.ask(lambda: end(result, return_code, message))

    def _before_the_end(self) -> None:
        self.loader.close()
        self.queries.stop()
        self.restorer.save_for_good()

    def on_exit_app(self, event: ExitApp) -> None:
        """Ends the same way if a driver asks Textual itself to end, as when a browser page is closed."""
        if not self.ending.done:
            event.prevent_default()
            self.exit()

    async def on_event(self, event: Event) -> None:
        """Passes keys on one at a time, and ignores them once the end was requested."""
        if not self.ending.uses_up(event) and not await self.keyboard.takes(event):
            await super().on_event(event)

    async def on_passed(self, event: Passed) -> None:
        """Goes on to the next key."""
        await self.keyboard.passed(event)
