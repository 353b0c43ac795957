"""Timeline: what ran when, on every thread and stream, and which call launched it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.timeline.timeline import Place, Timeline, timeline
from tracetui.app.charts.lanes import LEGEND
from tracetui.app.keys import commands
from tracetui.app.text.tool_words import WORDS
from tracetui.app.views.common.messages import NothingToClose, ShowRows
from tracetui.app.views.lanes.describing import Described
from tracetui.app.views.lanes.marking import Marking
from tracetui.app.views.lanes.program import with_program
from tracetui.app.widgets.detail_pane import DetailPane
from tracetui.app.widgets.lines import Line
from tracetui.app.widgets.prompt import Prompt
from tracetui.app.widgets.timeline import TimelineWidget

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult

    from tracetui.parsers import Trace


class TimelineView(Described, Marking):
    """The picture; below it what is selected."""

    BINDINGS = commands.bindings("timeline")

    def __init__(self) -> None:
        super().__init__()
        self._wanted: Callable[[], None] | None = None
        """How to go to a place, once the lanes are there."""
        self._trace: Trace | None = None
        self._left_at: tuple[int, int, Place | None] | None = None
        """The place to go back to, once its trace is built."""

    def content(self) -> ComposeResult:
        """Title, picture, what is selected, details, prompt."""
        yield Line(id="title")
        yield TimelineWidget(id="lanes")
        yield Line(id="selected")
        yield Line(id="context")
        yield DetailPane(id="detail")
        yield Prompt(id="prompt")

    def on_mount(self) -> None:
        """Takes over the choice of characters; Textual calls the handler of `View` next."""
        self.picture.ascii = self.session.ascii
        for line in self.query(Line):
            line.ascii = self.session.ascii

    def reload(self) -> None:
        """Builds the lanes; another scope does not change them."""
        if "a" in self.session.runs and (self._trace is not self.session.trace() or self._built is None):
            super().reload()

    def analyse(self) -> tuple[Trace, Timeline | None]:
        """Computes the lanes of the whole trace in view, regardless of the scope."""
        trace = self.session.trace()
        return trace, timeline(trace) if trace.has_timeline else None

    def show(self, result: tuple[Trace, Timeline | None]) -> None:
        """Shows the whole recording."""
        self._trace, self._built = result
        self.end_search()
        if self._built is None:
            self.blank(WORDS[self._trace.info.kind].no_timeline)
            return
        self.picture.load(self._built)
        if self.session.scope.window is not None:  # marked when this run was last in view
            self.picture.marks = self.session.scope.window
            self.picture.changed(moved=False)
        self._compute("program", lambda: self._beside(result))
        left_at, self._left_at = self._left_at, None
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted()
        elif left_at is not None:
            self.restore(left_at)

    def _beside(self, found: tuple[Trace, Timeline | None]) -> Timeline | None:
        """What takes longer than the lanes: the critical path. The picture is there without it."""
        try:
            return with_program(self.session, *found)
        except Exception as error:
            self.host.log_error(error)
            return None

    def show_inner(self, result: Timeline) -> None:
        """Adds lanes to those in view."""
        if self._built is not None and result.trace is self._built.trace:
            self._built = result
            self.picture.update(result)

    def focus_content(self) -> None:
        """Focuses the picture, unless the user is typing in a line."""
        if not self.prompt.purpose:
            self.picture.focus()

    def seek(self, source: str, row: int) -> None:
        """Selects a row of one of the trace's frames, and zooms to where it can be seen among its neighbours."""
        if not self._is_ready:
            self._wanted = lambda: self.seek(source, row)
            return
        assert self._built is not None
        place = self._built.find(source, row)
        if place is None:
            self.host.say("This has no place in the timeline")
            return
        self.go(place)

    def seek_gap(self, device: int | None, start: int, end: int) -> None:
        """Selects the gap of a GPU that holds a stretch, and shows it with as much around it on both sides."""
        if not self._is_ready:
            self._wanted = lambda: self.seek_gap(device, start, end)
            return
        assert self._built is not None
        place = self._built.gap_at(device, start, end)
        if place is not None:
            self.picture.select(place)
        self.picture.show_window(start - (end - start) // 2, end + (end - start) // 2)

    @property
    def _is_ready(self) -> bool:
        return self._built is not None and self.is_mounted and self._trace is self.session.trace()

    def on_timeline_widget_activated(self, event: TimelineWidget.Activated) -> None:
        """A double click is Enter."""
        event.stop()
        self.action_rows()

    def action_area(self) -> None:
        """Opens the list of what ran in the marked range, by lane."""
        if self._built is not None:
            self.post_message(ShowRows("host", "lanes", self.picture.title))

    def action_back(self) -> None:
        """Closes the details, else ends the restriction to the marked range."""
        if self.detail.display:
            self.action_details()
        elif self.end_search():
            self._describe()
        elif self.picture.marks != (None, None) and self.session.scope.window is None:
            self.forget_marks()
        else:
            self.post_message(NothingToClose())
        self.host.refresh_lines()

    # --- around it

    def footer_hints(self) -> list[tuple[str, str]] | None:
        """While a line is being typed, what its keys do."""
        return [("Enter", "go"), ("Esc", "cancel")] if self.prompt.purpose else None

    def footer_labels(self) -> dict[str, str]:
        """Returns the labels; without a timeline, no key does anything."""
        if self.has_class("-blank"):
            return {c.id: "" for c in commands.COMMANDS if c.where in ("timeline", "lanes")}
        if self.detail.display:
            return {"timeline.back": "close"}
        if self.searched:
            return {"timeline.back": "end search", "timeline.next_same": "next hit"}
        return (
            {"timeline.back": "end range", "timeline.save": "save it"} if self.session.scope.window is not None else {}
        )

    @property
    def _is_current(self) -> bool:
        """Returns whether the picture is of the trace in view, and not of an earlier one."""
        return self._built is not None and self._trace is self.session.trace()

    def place(self) -> tuple[int, int, Place | None] | None:
        """Returns the visible time range and the selected event."""
        picture = self.picture
        return (picture.start, picture.end, picture.selected) if self._is_current else None

    def is_at(self, place: tuple[int, int, Place | None] | None) -> bool:
        """Whether this stretch is in sight, with this event selected."""
        return place is None or place == self.place()

    def restore(self, place: tuple[int, int, Place | None] | None) -> None:
        """Goes back to a stretch, and to the event that was selected there."""
        if not self._is_current:
            self._left_at = place
        elif place is not None:
            self.picture.start, self.picture.end, selected = place
            if selected is not None:
                self.picture.select(selected)
            self.picture.changed()

    def go_to(self, name: str) -> None:
        """Does nothing: events can't be found by name alone."""

    def on_resize(self) -> None:
        """Cuts the lines anew."""
        self._describe()

    def columns_about(self) -> list[tuple[str, str]]:
        """What the signs mean."""
        return list(LEGEND)
