"""The base of every view: it computes its numbers when its tab is first visited."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from textual.containers import Vertical
from textual.widgets import Static

from tracetui.app.session import jobs
from tracetui.app.text.fitting import printable
from tracetui.app.widgets.painted import Painted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.screen import Screen
    from textual.widget import Widget

    from tracetui.analysis.tables.table import Field
    from tracetui.app.session.session import Arranged, Session, Side, Visit
    from tracetui.app.views.common.chart import ViewChart
    from tracetui.app.widgets.prompt import Question


ONLY_SUMMARIES = (
    "Only summaries of this job's ranks are here, not their recordings.\n\n"
    "The tabs Ranks and Findings compare the ranks; this tab is about the recording of one."
)
TMUX_SECONDS = 1
"""How long tmux may take to accept what is copied."""
_job = threading.local()
"""In the thread of a view's job: the session as it was when the job started."""


class Host(Protocol):
    """What views use of the application, beside a few messages (`messages`)."""

    session: Session

    @property
    def tab(self) -> str:
        """The tab in view."""

    @property
    def low_bandwidth(self) -> bool:
        """Returns whether the connection to the terminal is slow."""

    # --- the lines around the view

    def own(self, text: str) -> str:
        """Returns one of our own texts, in ASCII if that was requested."""

    def say(self, message: str) -> None:
        """Shows a message in the footer until the next key."""

    def unsay(self, message: str) -> None:
        """Removes a message, unless another one has replaced it."""

    def refresh_lines(self) -> None:
        """Updates header, filter line and footer."""

    def rows_came(self) -> None:
        """Says that a view has shown what it computed, so that keys that waited for it can follow."""

    def log_error(self, error: Exception) -> None:
        """Keeps the traceback of an error that was shown in one line, for `--debug`; thread-safe."""

    # --- the line to type into

    @property
    def asking(self) -> bool:
        """Returns whether the line is open; all keys are its until it is closed."""

    def ask(self, question: Question) -> None:
        """Opens the line; every key from the one that led here on is typed into it."""

    def remark(self, text: str) -> None:
        """Says something at the right end of the line, such as how many rows match."""

    # --- what is known of a run that is being read

    def failure(self, side: Side) -> str:
        """Returns why the requested run could not be opened; empty if nothing failed."""

    def is_loading(self, side: Side) -> bool:
        """Returns whether a run is being read to become A or B."""

    # --- what must have happened before the view goes on

    def keep(self, key: str, value: object) -> None:
        """Keeps a choice for the next start."""

    def keep_columns(self, page: str, columns: Sequence[Field]) -> None:
        """Keeps which of a page's columns are shown."""

    def configure_columns(self, page: str, columns: Sequence[Field]) -> None:
        """Applies which columns of a page the settings show and hide."""

    @property
    def came_from_finding(self) -> bool:
        """Returns whether the tab in view shows rows that a finding led to."""

    @property
    def came_by_jump(self) -> bool:
        """Returns whether something of another tab led to the tab in view."""

    def here(self) -> Visit | None:
        """Returns the current place; None until there is one."""

    def leave(self, place: Visit | None = None) -> None:
        """Adds a place to the history, by default the current one, before the view goes to another."""

    # --- to other places: with `App.call_later`, once the view has done what the key asks for

    def open_rows(self, tab: str, table: str, name: str) -> None:
        """Goes to a table of a tab, and to the row of this name."""

    def show_in_timeline(self, source: str, row: int) -> None:
        """Goes to the timeline, and there to a row of one of the trace's frames."""

    def show_gap(self, device: int | None, start: int, end: int) -> None:
        """Goes to the timeline, and there to a stretch in which a GPU is idle (ns on the trace's clock)."""

    def restrict(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts every tab to a time range (ns on the trace's clock), or ends that; the header says the words."""

    def come_back(self, *, only_here: bool = False) -> bool:
        """Goes back to the finding that led to the rows in view; returns whether there was one."""

    def back(self) -> None:
        """Goes back to the previous place, as Ctrl+O does."""

    def silence(self, names: Sequence[str], reason: str) -> None:
        """Silences findings by their keys or rules, or with no reason restores them; says where that was written."""

    def went_back(self) -> None:
        """Says that Esc has led to a page that was in view before, so that the history may shrink."""

    def stop_loading(self) -> None:
        """Handles Esc that found nothing to close in the view."""


class View(Vertical, Painted, can_focus=True):
    """The content of a tab."""

    TAB: ClassVar[str]
    OF_SUMMARIES: ClassVar[bool] = False
    """Whether the view has something to show where a run has only summaries of its ranks."""
    COMPARES: bool = False
    """Whether the view also shows run B."""

    def __init__(self) -> None:
        super().__init__(id=f"view-{self.TAB}", classes="view")
        self._computing = ""
        self._jobs = 0

    @property
    def host(self) -> Host:
        """Returns the parts of the application that a view needs."""
        return cast("Host", self.app.host)  # type: ignore[attr-defined]

    @property
    def session(self) -> Session:
        """Returns the session; in the thread of a job, the session as it was when the job started."""
        return getattr(_job, "session", None) or self.host.session

    def compose(self) -> ComposeResult:
        """Lays out a line for messages, then the content."""
        yield Static(id="blank", markup=False)
        yield from self.content()

    def content(self) -> ComposeResult:
        """Returns the widgets of the view."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Starts computing."""
        self.reload()

    def reload(self) -> None:
        """Recomputes the numbers that are not cached."""
        if "a" in self.session.runs and not self.OF_SUMMARIES and self.session.runs["a"].summaries_in is not None:
            self.blank(ONLY_SUMMARIES)
        elif "a" in self.session.runs:
            self.blank("Computing …")
            self._compute("root", self.analyse)

    def _compute(self, key: str, work: Any) -> None:
        self._jobs += 1
        self._computing = f"{key}#{self._jobs}"
        session = self.host.session.frozen()

        def job() -> object:
            _job.session = session
            return work()

        jobs.start(self, self._computing, job)

    @property
    def place_text(self) -> str:
        """Returns the line of the program that is under the cursor, as the recording names it; empty without one."""
        return ""

    @property
    def awaits_rows(self) -> bool:
        """Returns whether the page that the user asked for is being computed."""
        return self._computing.startswith(("root#", "inner#"))

    @property
    def awaits_inner(self) -> bool:
        """Returns whether what is inside a row is being computed."""
        return self._computing.startswith("inner#")

    def on_job_done(self, event: jobs.JobDone[Any]) -> None:
        """Shows a result, or says why there is none."""
        event.stop()
        if event.key != self._computing:
            return
        self._computing = ""
        if event.error is not None:
            self.host.log_error(event.error)
            self.blank(
                f"This could not be computed: {type(event.error).__name__}: {printable(str(event.error))}\n"
                "It is a bug in tracetui; the other tabs still work."
            )
        elif event.result is None:
            self.host.rows_came()
            return
        elif event.key.startswith("root#"):
            self.blank("")
            self.show(event.result)
        else:
            self.blank("")
            self.show_inner(event.result)
        self.host.refresh_lines()
        self.call_after_refresh(self.take_focus)
        self.host.rows_came()

    def uses_up(self, key: str) -> bool:
        """Returns whether a key was for something that lies over the content, and does nothing else."""
        return False

    @property
    def is_in_view(self) -> bool:
        """Returns whether this tab is in view and has its widgets."""
        return self.is_mounted and self.host.tab == self.TAB

    def take_focus(self) -> None:
        """Focuses the content if this view is in view and no line is open; itself if there is no content."""
        if self.host.asking or not self.is_in_view or not self.is_attached or self.screen is not self.app.screen:
            return
        if self.has_class("-blank"):
            self.focus()
        else:
            self.focus_content()
        self.host.refresh_lines()

    def blank(self, text: str) -> None:
        """Shows a text in place of the content; an empty text shows the content again."""
        blank = self.query_one("#blank", Static)
        blank.update(self.host.own(text))
        blank.display = bool(text)
        self.set_class(bool(text), "-blank")

    def analyse(self) -> object:
        """Computes the result for `show`; runs in a thread and must not touch widgets."""
        raise NotImplementedError

    def show(self, result: Any) -> None:
        """Shows the result of `analyse`."""
        raise NotImplementedError

    def show_inner(self, result: Any) -> None:
        """Shows the result of another computation."""
        raise NotImplementedError

    def chart(self) -> ViewChart | None:
        """Returns what is in view as a chart; None where only the screen itself can be shown."""
        return None

    def focus_content(self) -> None:
        """Focuses the content."""
        raise NotImplementedError

    def footer_labels(self) -> dict[str, str]:
        """Returns other labels for commands in the footer, by id."""
        return {}

    def follow_scrolling(self, part: Widget) -> None:
        """Keeps the footer right about whether a part scrolls, which is known once the screen is laid out."""
        scrolls = False

        def laid_out(_: Screen[object]) -> None:
            nonlocal scrolls
            if scrolls != (part.display and part.max_scroll_y > 0):
                scrolls = not scrolls
                self.host.refresh_lines()

        self.screen.screen_layout_refresh_signal.subscribe(self, laid_out)

    @property
    def filter_line(self) -> str:
        """Returns the filter in force here and how many rows it keeps, or an empty text."""
        return ""

    @property
    def own_filter(self) -> bool:
        """Returns whether the page in view has a filter of its own, in place of the session's."""
        return False

    def revisit(self) -> None:
        """Applies changes made since the last visit; called when the tab comes into view again."""

    def forget_pages(self) -> None:
        """Closes all opened pages and drops their sort orders; `reload` shows the first page."""

    def sorts(self) -> dict[str, tuple[str, bool] | None]:
        """Returns the sorting of pages (column, whether the largest comes first) by page id; None is the default."""
        return {}

    def arranged(self) -> Arranged:
        """Returns the order and the own filter of each page in view."""
        return {}

    def place(self) -> object:
        """Returns the current position in this tab, for `restore`."""
        return None

    def weight(self, place: Any) -> int:
        """Returns how many table rows are kept in memory only for going back to a place."""
        return 0

    def is_at(self, place: Any) -> bool:
        """Returns whether this is the current place."""
        return place is None

    def is_zoomed(self, before: Any, after: Any) -> bool:
        """Returns whether what is shown of the same became wider or narrower between two places in this tab."""
        return False

    def restore(self, place: Any) -> None:
        """Goes back to a `place` in this tab, for the same run and scope."""

    def counterpart(self, tab: str) -> str:
        """Returns what the row under the cursor is called in another tab; empty if that has no such row."""
        return ""

    def go_to(self, name: str) -> None:
        """Puts the cursor on the row of this name."""

    def open_at(self, table: str, name: str) -> None:
        """Opens a table of this tab with the session's filter, and puts the cursor on the named row.

        Args:
            table: one of the tab's tables; empty for the first.
            name: of the row; empty for the first.
        """

    def columns_about(self) -> list[tuple[str, str]]:
        """Returns (title, meaning) of the columns, for the help page."""
        return []

    def _copy(self, text: str, what: str) -> None:
        """Copies a text to the terminal's clipboard, inside tmux also to its buffer, and says where it went."""
        self.app.copy_to_clipboard(text)
        where = "if the terminal allows it: OSC 52"
        if _in_tmux(text):
            where = "to tmux's buffer, and the clipboard if allowed"
        self.host.say(f"Copied {what} ({where})")


def _in_tmux(text: str) -> bool:
    """Whether tmux took the text."""
    if not os.environ.get("TMUX"):
        return False
    # -w: tmux passes it on to the terminal, which its usual settings refuse to programs; before 3.2 it knows no -w
    for options in (["-w"], []):
        command = ["tmux", "load-buffer", *options, "-"]
        try:
            subprocess.run(command, input=text.encode(), timeout=TMUX_SECONDS, check=True, capture_output=True)
        except subprocess.CalledProcessError:
            continue
        except (OSError, subprocess.SubprocessError):
            return False
        return True
    return False
