"""The shell of the screen: header, tabs, current view, filter line, footer.

It shows at once, and gets its tabs once the recording is read: nothing here imports Polars before the first
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
    """The main screen of an application: its lines, and a view for each visited tab."""

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
            app: the application.
            session: holds the open runs; with two, they are compared.
            loader: reads runs.
            tab: the tab to start on; null leaves it to the settings and the run.
            preferred_tab: the tab of the settings.
            on_tab: called when a tab comes into view.
        """
        self._app, self._session, self._loader, self._on_tab = app, session, loader, on_tab
        compares = len(session.open) > 1
        self._preferred_tab = preferred_tab
        self.usual_tab = preferred_tab or "overview"
        """The tab that a run opens on, if no other is requested."""
        self.default_tab = not tab and not compares
        """Whether no tab was requested yet."""
        self.tab = tab or ("diff" if compares else self.usual_tab)
        self.errors: list[str] = []
        """Tracebacks of failures so far."""
        self._stale: set[str] = set()
        """Tabs whose numbers are for an earlier range."""

    @property
    def main(self) -> Screen[object] | None:
        """Returns the main screen; null before it exists and once the application closes."""
        if self._app._exit or not self._app.is_running:
            return None
        return next(iter(self._app.screen_stack), None)

    @property
    def closing(self) -> bool:
        """Returns whether the screen is gone; timers, jobs and messages that still arrive then do nothing."""
        return self.main is None

    def widgets(self) -> ComposeResult:
        """Returns the widgets of the main screen, before any tab was visited."""
        yield Line(id="header")
        yield TabBar(id="tabs")
        yield Container(Static(id="loading", markup=False), id="body")
        yield Line(id="filter-line")
        yield Footer(id="footer")

    def begin(self) -> None:
        """Shows what is known before anything is read, once the widgets exist."""
        if (main := self.main) is not None:
            main.query_one("#header", Line).ascii = self._session.ascii
            main.query_one(TabBar).show(self.tab)
            self.refresh_lines()

    # --- words

    def own(self, text: str) -> str:
        """Returns one of our own texts, in ASCII if that was requested."""
        return to_ascii(text.replace("·", "-").replace("›", ">")) if self._session.ascii else text

    def say(self, message: str) -> None:
        """Shows a message in the footer until the next key."""
        if (main := self.main) is not None:
            main.query_one(Footer).say(printable(message, ascii=self._session.ascii))

    def unsay(self, message: str) -> None:
        """Removes a message, unless another one has replaced it."""
        main = self.main
        if main is not None and main.query_one(Footer).message == printable(message, ascii=self._session.ascii):
            self.say("")

    def log_error(self, error: Exception) -> None:
        """Keeps the traceback of an error that was shown in one line, for `--debug`."""
        import traceback

        self.errors.append("".join(traceback.format_exception(type(error), error, error.__traceback__)))

    # --- tabs

    def views(self) -> Iterator[View]:
        """Returns the views of the visited tabs."""
        from tracetui.app.views.common.base import View

        if (main := self.main) is not None:
            # a query would walk through every widget of all tabs, several times per key
            bodies = (part for part in main.children if part.id == "body")
            yield from (view for body in bodies for view in body.children if isinstance(view, View))

    def made(self, tab: str) -> View | None:
        """Returns the view of a tab, if it was visited."""
        return next((view for view in self.views() if tab == view.TAB), None)

    @property
    def view(self) -> View | None:
        """Returns the current view; null until it has its widgets."""
        view = self.made(self.tab) if "a" in self._session.runs else None
        return view if view is not None and view.is_mounted else None

    @property
    def is_blank(self) -> bool:
        """Returns whether the view shows a message in place of its content."""
        return self.main is not None and bool(self.main.query(f"#view-{self.tab}.-blank"))

    def begin_with(self, tab: str) -> None:
        """Shows the usual tab of the first run, unless the settings or the user ask for another."""
        if self._preferred_tab is None:
            self.usual_tab = tab
        if self.default_tab:
            self.tab = self.usual_tab

    def import_view(self) -> None:
        """Imports the view of the current tab in a thread, while the first run is read."""
        from tracetui.app.views import view_class

        view_class(self.tab)

    def show_tab(self, tab: str) -> None:
        """Shows a tab; its view is made on the first visit."""
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
                    # otherwise the garbage collector scans the recording and all widgets every few pages, for 50 ms
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
        """Updates header, filter line and footer."""
        main = self.main
        if main is None or all(part.id != "header" for part in main.children):
            return
        main.query_one(TabBar).offer(self._session.extra_tabs)
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
        """Returns the keys that the footer shows."""
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

    # --- what the numbers cover

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
        """Recomputes what depends on a run: the current view at once, other tabs on their next visit."""
        self._stale |= {view.TAB for view in self.views() if view.is_mounted and (side == "a" or view.COMPARES)}
        view = self.view
        if view is not None and view.TAB in self._stale:
            self._stale.discard(view.TAB)
            view.reload()

    def restrict(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts every tab to a time range, or ends that; hidden tabs compute on their next visit.

        Args:
            window: start and end, ns on the trace's clock.
            words: the text for the header.
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
