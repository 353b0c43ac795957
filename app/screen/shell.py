"""The shell of the screen: header, tabs, current view, filter line, footer.

It shows at once, and gets its tabs once the recording is read: nothing here imports Polars before the first
paint; views do, and are imported when needed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Container
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.screen import status
from tracetui.app.session.loading import Loader
from tracetui.app.session.session import Session, Side
from tracetui.app.text.fitting import printable, to_ascii
from tracetui.app.views.common.base import View
from tracetui.app.widgets.lines import Footer, Line, TabBar
from tracetui.app.widgets.painted import Painted
from tracetui.app.widgets.prompt import Prompt, Question


class Body(Container, Painted):
    """The place of the views."""


LEAST = 40, 10
"""The columns and lines below which next to nothing of a tab fits."""
LEAST_LINE = 17, 3
"""The columns and lines below which the footer can't say so: words in place of the screen do."""


def too_small(width: int, height: int) -> list[tuple[str, str]]:
    """Returns what the footer says if the terminal is too small to work in; nothing if it is not."""
    if width >= LEAST[0] and height >= LEAST[1]:
        return []
    size, needed = f"{width}x{height}", f"needs {LEAST[0]}x{LEAST[1]}"
    return [(size, needed)] if width < LEAST[0] else [("too small", f"{size}, {needed}"), ("q", "quit")]


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
        on_rows: Callable[[], None],
    ) -> None:
        self._app, self._session, self._loader = app, session, loader
        self._on_tab = on_tab
        self.rows_came = on_rows
        """Lets keys follow that waited for the rows of a tab, which may have come."""
        compares = len(session.open) > 1
        self._preferred_tab = preferred_tab
        self.usual_tab = preferred_tab or "overview"
        """The tab that a run opens on, if no other is requested, by the settings first of all."""
        self.default_tab = not tab and not compares
        """Whether no tab was requested yet."""
        self.tab = tab or ("diff" if compares else self.usual_tab)
        self.errors: list[str] = []
        """Tracebacks of failures so far."""
        self._stale: set[str] = set()
        """Tabs whose numbers are for an earlier range."""
        self._prompt: Prompt | None = None

    @property
    def main(self) -> Screen[object] | None:
        """Returns the main screen; None before it exists and once the application closes."""
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
        yield Body(Static(id="loading", markup=False), id="body")
        yield Line(id="filter-line")
        yield Footer(id="footer")
        yield Static("needs {}x{}".format(*LEAST), id="too-small")

    def begin(self) -> None:
        """Shows what is known before anything is read, once the widgets exist."""
        if (main := self.main) is not None:
            for line in main.query("#header, #filter-line").results(Line):
                line.ascii = self._session.ascii
            main.query_one(Footer).ascii = self._session.ascii
            main.query_one(TabBar).show(self.tab)
            self.refresh_lines()

    # --- words

    def own(self, text: str) -> str:
        """Returns one of our own texts, in ASCII if that was requested."""
        return to_ascii(text) if self._session.ascii else text

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

    # --- the line to type into

    @property
    def prompt(self) -> Prompt | None:
        """Returns the line to type into while it is open; until it is closed, all keys are its."""
        return self._prompt if self._prompt is not None and self._prompt.question is not None else None

    def ask(self, question: Question) -> None:
        """Opens the line; one that is open already asks this instead."""
        main = self.main
        if main is None:
            return
        if self._prompt is None:
            from tracetui.app.widgets.prompt import Prompt

            self._prompt = Prompt(self.line_closed, id="prompt")
            self._prompt.open(question)
            main.mount(self._prompt, before="#filter-line")
        else:
            self._prompt.open(question)
        self.refresh_lines()

    def remark(self, text: str) -> None:
        """Says something at the right end of the line."""
        if self._prompt is not None:
            self._prompt.remark(text)

    def explain(self, text: str) -> None:
        """Says something below the line."""
        if self._prompt is not None:
            self._prompt.explain(printable(self.own(text)))

    def line_closed(self) -> None:
        """Gives the keys back to the view."""
        if self.prompt is None:
            self._focus_view()
            self.refresh_lines()

    def ask_for_filter(self) -> None:
        """Asks for the filter that all tabs share, where there are no rows to filter as the user types."""
        from tracetui.app.widgets.prompt import FILTER_HINTS, Question

        def keep(text: str) -> bool:
            from tracetui.app.tables import filters

            try:
                filters.parse(text)
            except filters.FilterError as error:
                self.remark(str(error))
                return False
            self._session.filter = text.strip()
            if self.view is not None and not self.view.awaits_rows:
                self.view.revisit()
            return True

        self.ask(Question("filter", "/", keep, self._session.filter, cancelled=lambda: keep(""), hints=FILTER_HINTS))

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
        """Returns the current view; None until it has its widgets."""
        view = self.made(self.tab) if "a" in self._session.runs else None
        return view if view is not None and view.is_mounted else None

    @property
    def awaits_rows(self) -> bool:
        """Returns whether the view of the tab is still to come, or computes what it will show."""
        if "a" not in self._session.runs:
            return bool(self._session.open) and not self._loader.failure("a")
        view = self.made(self.tab)
        return view is not None and (not view.is_mounted or view.awaits_rows)

    @property
    def filter(self) -> str:
        """Returns the filter that all tabs share."""
        return self._session.filter

    @property
    def own_filter(self) -> bool:
        """Returns whether the page in view, or the one that is computed, has a filter of its own."""
        view = self.made(self.tab)
        inner = view is not None and (view.own_filter or view.awaits_inner)
        return inner or self.tab in tabs.that_can(tabs.OWN_FILTER)

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
        if tab != self.tab and (prompt := self.prompt) is not None:
            prompt.close()
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
                self._reload_stale()
                self.view.revisit()
                self._focus_view()
        self.refresh_lines()
        self._on_tab()

    def _focus_view(self) -> None:
        if self.view is not None:
            self.view.take_focus()
        self.refresh_lines()
        self.rows_came()

    def take_keys(self) -> bool:
        """Gives the keys to the open line, or else to the view; returns whether the view will only get them soon."""
        main, view = self.main, self.view
        if main is None or main is not self._app.screen:
            return False
        if (prompt := self.prompt) is not None:
            for line in prompt.query("PromptInput"):
                main.set_focus(line)
        elif view is not None:
            focused = main.focused
            inside = focused is not None and view in focused.ancestors
            if not inside and (focused is not view or not self.is_blank):
                view.take_focus()
                return True
        return False

    def refresh_lines(self, size: Size | None = None) -> None:
        """Updates header, filter line and footer, for this size while the app and its screens have the one before."""
        main = self.main
        if main is None or all(part.id != "header" for part in main.children):
            return
        main.query_one(TabBar).offer(self._session.filled_tabs)
        size = size or self._app.size
        main.query_one("#too-small").display = size.width < LEAST_LINE[0] or size.height < LEAST_LINE[1]
        self._show_header(main, size.width)
        self._show_filter(main)
        main.query_one(Footer).show(self._hints(size))

    def _show_header(self, main: Screen[object], width: int) -> None:
        right = status.header_right(self._session, self._loader.shares, self.own, width)
        left = status.header_left(self._session, self.own, width - right.cell_len)
        main.query_one("#header", Line).show(left, right)
        loading = main.query_one("#loading", Static)
        if loading.display:
            line = self._loader.failure("a") or self._loader.lines.get(self._loader.wanted.get("a", ""), "")
            loading.update(self.own(printable(line)))

    def _show_filter(self, main: Screen[object]) -> None:
        view = self.view
        words = view.filter_line if view is not None and self.prompt is None else ""
        shares = view is None or not view.own_filter
        if not words and self._session.filter and shares and self.prompt is None:
            words = f"/ {printable(self._session.filter)}   filters the tables of all tabs"
        line = main.query_one("#filter-line", Line)
        line.display = bool(words)
        line.show(Text(f" {self.own(words)}"))

    def _hints(self, size: Size) -> list[tuple[str, str]]:
        """Returns the keys that the footer shows in a terminal of this size."""
        if (prompt := self.prompt) is not None and prompt.question is not None:
            return list(prompt.question.hints)
        if hints := too_small(*size):
            return hints
        if "a" not in self._session.runs:
            return [("Esc", "keep what was read"), ("q", "quit")] if self._loader.lines else [("q", "quit")]
        view = self.view
        labels = dict(view.footer_labels()) if view is not None else {}
        if not self._session.trace().notes:
            labels.pop("app.notes", None)
        if len(self._session.open) > 1:
            labels.setdefault("run.list", "runs")
        return commands.footer(self.tab, size.width - 1, labels=labels)

    # --- what the numbers cover

    def forget_range(self) -> None:
        """Ends the restriction to the marked range, if there is one."""
        if self._session.range_words:
            self.show_range(None)

    def show_range(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts every tab to a time range, as `restrict`, and marks it in the timeline."""
        from tracetui.app.views.timeline import TimelineView

        self.restrict(window, words)
        view = self.made("timeline")
        if isinstance(view, TimelineView):
            view.show_marks(window)

    def reload_views(self, side: Side = "a") -> None:
        """Recomputes what depends on a run: the current view at once, other tabs on their next visit."""
        self.outdate(side)
        self._reload_stale()

    def outdate(self, side: Side = "a") -> None:
        """Lets every tab compute what depends on a run anew on its next visit."""
        self._stale |= {view.TAB for view in self.views() if view.is_mounted and (side == "a" or view.COMPARES)}

    def _reload_stale(self) -> None:
        view = self.view
        if view is not None and view.TAB in self._stale:
            self._stale.discard(view.TAB)
            view.reload()

    def restrict(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts every tab to a time range (ns on the trace's clock), or ends that; `words` are for the header."""
        if window == self._session.scope.window:
            return
        self._session.restrict(window, words)
        self._stale = {view.TAB for view in self.views() if view.is_mounted} - {"timeline"}
        self._reload_stale()
        self.refresh_lines()
