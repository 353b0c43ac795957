"""What every tab is: a part of the screen that computes its numbers when first looked at."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.containers import Vertical
from textual.widgets import Static

from tracetui.app.session import jobs
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from tracetui.app.session.session import Session
    from tracetui.app.views.common.host import Host, Hosting


_job = threading.local()
"""In the thread of a view's job: the session as it was when the job began."""


class View(Vertical, can_focus=True):
    """A tab's content."""

    TAB: ClassVar[str]
    COMPARES: bool = False
    """Whether it shows run B too."""

    def __init__(self) -> None:
        super().__init__(id=f"view-{self.TAB}", classes="view")
        self._computing = ""
        self._jobs = 0

    @property
    def host(self) -> Host:
        """The application, as far as a view needs it."""
        return cast("Hosting", self.app).host

    @property
    def session(self) -> Session:
        """What is open; in the thread of a job what was open when it began, whichever run is in view by now."""
        return getattr(_job, "session", None) or self.host.session

    def compose(self) -> ComposeResult:
        """A line for what can't be shown yet, then the content."""
        yield Static(id="blank", markup=False)
        yield from self.content()

    def content(self) -> ComposeResult:
        """The widgets of the view."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Starts computing."""
        self.reload()

    def reload(self) -> None:
        """Computes the numbers anew, as far as they are not cached."""
        if "a" in self.session.runs:
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

    def on_job_done(self, event: jobs.JobDone[Any]) -> None:
        """Shows a result, or says in a line why there is none."""
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
            return
        elif event.key.startswith("root#"):
            self.blank("")
            self.show(event.result)
        else:
            self.blank("")
            self.show_inner(event.result)
        self.host.refresh_lines()
        self.call_after_refresh(self.take_focus)

    @property
    def is_in_view(self) -> bool:
        """Whether this tab is the one in sight, and has its widgets."""
        return self.is_mounted and self.host.tab == self.TAB

    def take_focus(self) -> None:
        """Gives the keys to the content if this view is in sight; where there is none, takes them itself."""
        if not self.is_in_view or not self.is_attached or self.screen is not self.app.screen:
            return
        if self.has_class("-blank"):
            self.focus()
        else:
            self.focus_content()
        self.host.refresh_lines()

    def blank(self, text: str) -> None:
        """Puts a text in place of the content; an empty one brings the content back."""
        blank = self.query_one("#blank", Static)
        blank.update(self.host.own(text))
        blank.display = bool(text)
        self.set_class(bool(text), "-blank")

    def analyse(self) -> object:
        """The result that `show` shows; runs in a thread and must not touch widgets."""
        raise NotImplementedError

    def show(self, result: Any) -> None:
        """Shows the result of `analyse`."""
        raise NotImplementedError

    def show_inner(self, result: Any) -> None:
        """Shows the result of another computation."""
        raise NotImplementedError

    def focus_content(self) -> None:
        """Gives the keys to the content."""
        raise NotImplementedError

    def footer_labels(self) -> dict[str, str]:
        """Other words for commands in the footer, by id."""
        return {}

    def footer_hints(self) -> list[tuple[str, str]] | None:
        """Keys that take the whole footer for a while."""
        return None

    @property
    def filter_line(self) -> str:
        """The filter in force here with what it keeps, or nothing."""
        return ""

    @property
    def own_filter(self) -> bool:
        """Whether the page in view has a filter of its own, so that the session's does not hold there."""
        return False

    def revisit(self) -> None:
        """Called when the tab comes into view again: takes over what changed meanwhile."""

    def forget_pages(self) -> None:
        """Lets the pages go that were opened, with their order; `reload` brings the first one."""

    def sorts(self) -> dict[str, tuple[str, bool] | None]:
        """How pages are sorted (column, whether the largest comes first), by page id; null for their own order."""
        return {}

    def place(self) -> object:
        """Where one is in this tab, for `restore`."""
        return None

    def weight(self, place: Any) -> int:
        """How many rows of tables are kept in memory only for going back to a place."""
        return 0

    def is_at(self, place: Any) -> bool:
        """Whether this is the place in sight."""
        return place is None

    def restore(self, place: Any) -> None:
        """Goes back to a `place` of this tab, of the same run and the same scope."""

    def go_to(self, name: str) -> None:
        """Puts the cursor on the row of this name."""

    def open_at(self, table: str, name: str) -> None:
        """Opens a table of this tab with the session's filter, and puts the cursor on the row of this name.

        Args:
            table: one of the tab's tables; empty for the first.
            name: of the row; empty for the first.
        """

    def columns_about(self) -> list[tuple[str, str]]:
        """(title, meaning) of the columns, for the help page."""
        return []
