"""The shell of the screen: header, tabs, the view in sight, filter line, footer.

It is there at once, and filled with the tabs once the recording is read: nothing here imports Polars before the first
paint; views do, and are imported when needed.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import Container
from textual.widgets import Static

from tracetui.app.keys import commands
from tracetui.app.screen import status
from tracetui.app.text.fitting import printable, to_ascii
from tracetui.app.widgets.lines import Footer, Line, TabBar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.app import App, ComposeResult
    from textual.screen import Screen

    from tracetui.app.session.loading import Loader
    from tracetui.app.session.session import Session, Side
    from tracetui.app.views.common.base import View


class Shell:
    """The main screen of an application: its lines, and a view for each tab that was looked at."""

    def __init__(
        self,
        app: App[None],
        session: Session,
        loader: Loader,
        *,
        tab: str | None,
        preferred_tab: str | None,
        on_tab: Callable[[], None],
    ) -> None:
        """Sets up.

        Args:
            app: whose main screen it is.
            session: what is open; two runs are there to be compared.
            loader: what is being read.
            tab: the one to begin with; null leaves it to the settings and to what is opened.
            preferred_tab: the one that the settings ask for.
            on_tab: called when a tab has come into view.
        """
        self._app, self._session, self._loader, self._on_tab = app, session, loader, on_tab
        compares = len(session.open) > 1
        self._preferred_tab = preferred_tab
        self.usual_tab = preferred_tab or "overview"
        """The tab that a run begins with, where nobody asks for another."""
        self.default_tab = not tab and not compares
        """Whether nobody has asked for a tab yet."""
        self.tab = tab or ("diff" if compares else self.usual_tab)
        self.errors: list[str] = []
        """Tracebacks of what failed so far."""
        self._stale: set[str] = set()
        """Tabs whose numbers are of another range than the one in force."""

    @property
    def main(self) -> Screen[object] | None:
        """The main screen; null before there is one, and from the moment on that the application closes."""
        if self._app._exit or not self._app.is_running:
            return None
        return next(iter(self._app.screen_stack), None)

    @property
    def closing(self) -> bool:
        """Whether there is nothing to show anything on: timers, jobs and messages may still come, and do nothing."""
        return self.main is None

    def widgets(self) -> ComposeResult:
        """What the main screen is made of; no tab has been looked at."""
        yield Line(id="header")
        yield TabBar(id="tabs")
        yield Container(Static(id="loading", markup=False), id="body")
        yield Line(id="filter-line")
        yield Footer(id="footer")

    def begin(self) -> None:
        """The widgets are there: shows what is known before anything is read."""
        if (main := self.main) is not None:
            main.query_one("#header", Line).ascii = self._session.ascii
            main.query_one(TabBar).show(self.tab)
            self.refresh_lines()

    # --- words

    def own(self, text: str) -> str:
        """A text of ours, in ASCII where that was asked for."""
        return to_ascii(text.replace("·", "-").replace("›", ">")) if self._session.ascii else text

    def say(self, message: str) -> None:
        """Says something in the footer until the next key."""
        if (main := self.main) is not None:
            main.query_one(Footer).say(printable(message, ascii=self._session.ascii))

    def unsay(self, message: str) -> None:
        """Takes a message away, unless another one has taken its place."""
        main = self.main
        if main is not None and main.query_one(Footer).message == printable(message, ascii=self._session.ascii):
            self.say("")

    def log_error(self, error: Exception) -> None:
        """Keeps an error that was shown in one line, for `--debug`."""
        import traceback

        self.errors.append("".join(traceback.format_exception(type(error), error, error.__traceback__)))

    # --- tabs

    def views(self) -> Iterator[View]:
        """The views of the tabs that were looked at."""
        from tracetui.app.views.common.base import View

        if (main := self.main) is not None:
            yield from main.query(View).results(View)

    def made(self, tab: str) -> View | None:
        """The view of a tab, where it has been looked at."""
        return next((view for view in self.views() if tab == view.TAB), None)

    @property
    def view(self) -> View | None:
        """The view in sight; null until it has its widgets."""
        view = self.made(self.tab) if "a" in self._session.runs else None
        return view if view is not None and view.is_mounted else None

    @property
    def is_blank(self) -> bool:
        """Whether the view says why it has nothing to show."""
        return self.main is not None and bool(self.main.query(f"#view-{self.tab}.-blank"))

    def begin_with(self, tab: str) -> None:
        """The first run is read: this is its usual tab, unless the settings or somebody ask for another."""
        if self._preferred_tab is None:
            self.usual_tab = tab
        if self.default_tab:
            self.tab = self.usual_tab

    def import_view(self) -> None:
        """Imports what the tab in view is shown with: in a thread, beside the reading of the first run."""
        from tracetui.app.views import view_class

        view_class(self.tab)

    def show_tab(self, tab: str) -> None:
        """Brings a tab into view; it is made on the first visit."""
        main = self.main
        if main is None:
            return
        self.tab = tab
        main.query_one(TabBar).show(tab)
        if "a" in self._session.runs:
            from tracetui.app.views import view_class

            main.query_one("#loading").display = False
            for view in self.views():
                view.display = tab == view.TAB
            if self.made(tab) is None:
                main.query_one("#body").mount(view_class(tab)())
                self._app.call_after_refresh(self._focus_view)
                if not self._app.is_headless:
                    # else the collector looks through a recording and all widgets every few pages, for 50 ms
                    self._app.call_after_refresh(gc.freeze)
            elif self.view is not None:
                if tab in self._stale:
                    self._stale.discard(tab)
                    self.view.reload()
                self.view.revisit()
                self._focus_view()
        self.refresh_lines()
        self._on_tab()

    def _focus_view(self) -> None:
        if self.view is not None:
            self.view.take_focus()
        self.refresh_lines()

    def refresh_lines(self) -> None:
        """Brings header, filter line and footer up to date."""
        main = self.main
        if main is None or not main.query("#header"):
            return
        self._show_header(main)
        self._show_filter(main)
        main.query_one(Footer).show(self._hints(main.size.width - 1))

    def _show_header(self, main: Screen[object]) -> None:
        right = status.header_right(self._session, self._loader.shares, self.own)
        left = status.header_left(self._session, self.own, self._app.size.width - right.cell_len)
        main.query_one("#header", Line).show(left, right)
        loading = main.query_one("#loading", Static)
        if loading.display:
            line = self._loader.failure("a") or self._loader.lines.get(self._loader.wanted.get("a", ""), "")
            loading.update(self.own(f" {printable(line)}"))

    def _show_filter(self, main: Screen[object]) -> None:
        view = self.view
        words = view.filter_line if view is not None else ""
        if not words and self._session.filter and view is not None and not view.own_filter and not view.footer_hints():
            words = f"/ {printable(self._session.filter)}   filters the tables of all tabs"
        line = main.query_one("#filter-line", Line)
        line.display = bool(words)
        line.show(Text(f" {self.own(words)}"))

    def _hints(self, width: int) -> list[tuple[str, str]]:
        """The keys that the footer shows."""
        if "a" not in self._session.runs:
            return [("Esc", "keep what was read"), ("q", "quit")] if self._loader.lines else [("q", "quit")]
        view = self.view
        labels = dict(view.footer_labels()) if view is not None else {}
        if not self._session.trace().notes:
            labels.pop("app.notes", None)
        if len(self._session.open) > 1:
            labels.setdefault("run.list", "runs")
        hints = commands.footer(self.tab, width, labels=labels)
        return (view.footer_hints() if view is not None else None) or hints

    # --- what the numbers are of

    def forget_range(self) -> None:
        """Ends the restriction to the marked range, if there is one."""
        if not self._session.range_words:
            return
        from tracetui.app.views.timeline import TimelineView

        self.restrict(None)
        view = self.made("timeline")
        if isinstance(view, TimelineView):
            view.forget_marks()

    def reload_views(self, side: Side = "a") -> None:
        """Computes anew what depends on a run: what is in sight at once, other tabs when they are looked at."""
        self._stale |= {view.TAB for view in self.views() if view.is_mounted and (side == "a" or view.COMPARES)}
        view = self.view
        if view is not None and view.TAB in self._stale:
            self._stale.discard(view.TAB)
            view.reload()

    def restrict(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts every tab to a stretch of time, or none; those out of sight compute when they are looked at.

        Args:
            window: start and end, ns on the trace's clock.
            words: what the header says of it.
        """
        if window == self._session.scope.window:
            return
        self._session.restrict(window, words)
        self._stale = {view.TAB for view in self.views() if view.is_mounted} - {"timeline"}
        view = self.view
        if view is not None and view.TAB in self._stale:
            self._stale.discard(view.TAB)
            view.reload()
        self.refresh_lines()
