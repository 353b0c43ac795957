"""The shell of the screen: there at once, and filled with the tabs once the recording is read.

Nothing here imports Polars before the first paint; views and readers do, and are imported when needed.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.containers import Container
from textual.widgets import Static

from tracetui.app.keys import commands
from tracetui.app.screen import status
from tracetui.app.session.loading import Loader
from tracetui.app.session.session import Session, Side
from tracetui.app.settings import state
from tracetui.app.settings.preferences import Preferences, preferred_tab
from tracetui.app.settings.schema import Settings
from tracetui.app.text.formats import printable, to_ascii
from tracetui.app.widgets.lines import Footer, Line, TabBar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from textual.app import ComposeResult, SystemCommand
    from textual.command import Provider
    from textual.driver import Driver
    from textual.events import Key, Resize
    from textual.screen import Screen

    from tracetui.analysis.scope import Scope
    from tracetui.app.session.visit import Visit
    from tracetui.app.views.common.base import View

FIRST_TABS = {"ncu": "counters", "memory_snapshot": "memory"}
"""The tab to start on, where a recording has nothing to say in the Overview."""


def _provider() -> type[Provider]:
    # imported here: before the first paint nobody needs it
    from tracetui.app.screen.palette import EverythingProvider

    return EverythingProvider


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
        self.session = Session(rank=rank, kind=source, filter=filter or "", ascii=ascii)
        if scope is not None:
            self.session.scope = scope
        for path in paths:
            self.session.add((path,))
        self.exit_code = 0
        self._default_tab = not tab and len(paths) < 2
        self.tab = commands.find_tab(tab) if tab else "diff" if len(paths) > 1 else "overview"
        self.wanted: dict[Side, str] = {}
        """The letters of the runs that were last asked for as A and B."""
        self.keeps_parsed = cache
        self.keeps_state = cache and not state.off()
        self.loader = Loader(self, cache=cache, meanwhile=self._import_view)
        self._errors: list[str] = []
        self._visits: list[Visit] = []
        """Places to go back to, the last one visited last."""
        self._stale: set[str] = set()
        """Tabs whose numbers are of another range than the one in force."""
        self.animation_level = "none"
        self.set_class(ascii, "-ascii")
        preferred, settings = preferred_tab(settings or Settings())
        self.prefer(settings, color=color, low_bandwidth=low_bandwidth)
        self._preferred_tab = preferred
        self.usual_tab = preferred or "overview"
        """The tab that a run begins with, where nobody asks for another."""
        if self._default_tab:
            self.tab = self.usual_tab

    # --- the shell

    def compose(self) -> ComposeResult:
        """The shell, empty."""
        yield Line(id="header")
        yield TabBar(id="tabs")
        yield Container(Static(id="loading", markup=False), id="body")
        yield Line(id="filter-line")
        yield Footer(id="footer")

    def on_mount(self) -> None:
        """Paints the shell, and only then gets ready for more."""
        self.query_one("#header", Line).ascii = self.session.ascii
        self.query_one(TabBar).show(self.tab)
        self.refresh_lines()
        self.call_after_refresh(self.painted)

    def painted(self) -> None:
        """The shell is there: reads how all else looks, and begins with the work."""
        self.stylesheet.read(Path(__file__).with_name("views.tcss"))
        self.start()

    def start(self) -> None:
        """Begins with the work, once the shell is painted."""

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

    def unsay(self, message: str) -> None:
        """Takes a message away, unless another one has taken its place."""
        if self.query_one(Footer).message == printable(message, ascii=self.session.ascii):
            self.say("")

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

    # --- what a run's reading tells

    def failure(self, side: Side) -> str:
        """Why the run that was asked for could not be opened; empty where nothing failed."""
        return self.loader.failures.get(self.wanted.get(side, ""), "")

    def is_loading(self, side: Side) -> bool:
        """Whether a run is being read to become A or B."""
        return self.wanted.get(side, "") in self.loader.lines

    def reload_views(self, side: Side = "a") -> None:
        """Computes anew what depends on a run: what is in sight at once, other tabs when they are looked at."""
        self._stale |= {view.TAB for view in self._views() if view.is_mounted and (side == "a" or view.COMPARES)}
        view = self.view
        if view is not None and view.TAB in self._stale:
            self._stale.discard(view.TAB)
            view.reload()

    # --- tabs

    def _views(self) -> Iterator[View]:
        from tracetui.app.views.common.base import View

        yield from self.screen_stack[0].query(View).results(View)

    def made(self, tab: str) -> View | None:
        """The view of a tab, where it has been looked at."""
        return next((view for view in self._views() if tab == view.TAB), None)

    @property
    def view(self) -> View | None:
        """The view in sight; null until it has its widgets."""
        view = self.made(self.tab) if "a" in self.session.runs else None
        return view if view is not None and view.is_mounted else None

    def show_tab(self, tab: str) -> None:
        """Brings a tab into view; it is made on the first visit."""
        self.tab = tab
        self.screen_stack[0].query_one(TabBar).show(tab)
        if "a" in self.session.runs:
            from tracetui.app.views import view_class

            for view in self._views():
                view.display = tab == view.TAB
            if self.made(tab) is None:
                self.screen_stack[0].query_one("#body").mount(view_class(tab)())
                self.call_after_refresh(self._focus_view)
                if not self.is_headless:
                    # else the collector looks through a recording and all widgets every few pages, for 50 ms
                    self.call_after_refresh(gc.freeze)
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
        left = status.header_left(self.session, self.own, room)
        screen.query_one("#header", Line).show(left, right)
        loading = screen.query_one("#loading", Static)
        if loading.display:
            wanted = self.wanted.get("a", "")
            line = self.failure("a") or self.loader.lines.get(wanted, "")
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
            if len(self.session.open) > 1:
                labels.setdefault("run.list", "runs")
            hints = commands.footer(self.tab, screen.size.width - 1, labels=labels)
            if view is not None:
                hints = view.footer_hints() or hints
        screen.query_one(Footer).show(hints)

    def _forget_range(self) -> None:
        from tracetui.app.views.timeline import TimelineView

        self.restrict(None)
        view = self.made("timeline")
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
