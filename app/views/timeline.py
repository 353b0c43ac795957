"""Timeline: what ran when, on every thread and stream, and which call launched it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.memops import operation_name
from tracetui.analysis.timeline.facts import facts
from tracetui.analysis.timeline.timeline import Place, Timeline, timeline
from tracetui.app.charts.lanes import LEGEND, stretch
from tracetui.app.keys import commands
from tracetui.app.text.fitting import printable
from tracetui.app.text.times import parse_time
from tracetui.app.text.tool_words import WORDS
from tracetui.app.views.common.base import View
from tracetui.app.views.common.messages import NothingToClose, RangeMarked, ShowRows
from tracetui.app.views.texts.timeline_text import facts_text, selected_lines
from tracetui.app.widgets.detail_pane import DetailPane
from tracetui.app.widgets.lines import Line
from tracetui.app.widgets.prompt import Question
from tracetui.app.widgets.timeline import TimelineWidget

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from tracetui.parsers import Trace

_STEP = re.compile(r"(?<=^ProfilerStep)#\d+$")
_API = frozenset({"runtime", "driver"})


class TimelineView(View):
    """The picture; below it what is selected."""

    TAB = "timeline"
    BINDINGS = commands.bindings("timeline")

    def __init__(self) -> None:
        super().__init__()
        self._built: Timeline | None = None
        self._wanted: tuple[str, int] | None = None
        self._trace: Trace | None = None
        self._left_at: tuple[int, int, Place | None] | None = None
        """The place to go back to, once its trace is built."""

    def content(self) -> ComposeResult:
        """Title, picture, what is selected, details."""
        yield Line(id="title")
        yield TimelineWidget(id="lanes")
        yield Line(id="selected")
        yield Line(id="context")
        yield DetailPane(id="detail")

    def on_mount(self) -> None:
        """Takes over the choice of characters; Textual calls the handler of `View` next."""
        self.picture.ascii = self.session.ascii
        for line in self.query(Line):
            line.ascii = self.session.ascii

    @property
    def picture(self) -> TimelineWidget:
        """The lanes."""
        return self.query_one(TimelineWidget)

    @property
    def detail(self) -> DetailPane:
        """Everything about the selected event."""
        return self.query_one(DetailPane)

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
        if self._built is None:
            self.blank(WORDS[self._trace.info.kind].no_timeline)
            return
        self.picture.load(self._built)
        if self.session.scope.window is not None:  # marked when this run was last in view
            self.picture.marks = self.session.scope.window
            self.picture.changed(moved=False)
        left_at, self._left_at = self._left_at, None
        if self._wanted is not None:
            self.seek(*self._wanted)
        elif left_at is not None:
            self.restore(left_at)

    def focus_content(self) -> None:
        """Focuses the picture."""
        self.picture.focus()

    def seek(self, source: str, row: int) -> None:
        """Selects a row of one of the trace's frames, and zooms to where it can be seen among its neighbours."""
        self._wanted = (source, row)
        if self._built is None or not self.is_mounted:
            return
        self._wanted = None
        place = self._built.find(source, row)
        if place is None:
            self.host.say("This has no place in the timeline")
            return
        self._go(place)

    def _go(self, place: Place) -> None:
        """Selects an event; where it would be too small to be seen, zooms in."""
        assert self._built is not None
        start, end = self._built.span(place)
        picture = self.picture
        cells = (end - start) * picture.columns // max(picture.end - picture.start, 1)
        if not cells:
            span = (end - start) * 12
            picture.start, picture.end = (start + end - span) // 2, (start + end + span) // 2
        picture.select(place)

    # --- what is selected, in two lines

    def on_timeline_widget_moved(self, event: TimelineWidget.Moved) -> None:
        """Follows the cursor."""
        event.stop()
        self._describe()

    def on_timeline_widget_activated(self, event: TimelineWidget.Activated) -> None:
        """A double click is Enter."""
        event.stop()
        self.action_rows()

    def _describe(self) -> None:
        built, picture = self._built, self.picture
        if built is None:
            return
        own, ascii = self.host.own, self.session.ascii
        left = Text(f" {printable(picture.title, ascii=ascii)}", "bold")
        shown = self._stretch(picture.start, picture.end)
        whole = picture.start <= built.start and picture.end >= built.end
        left.append(own(f"  {shown}{' · all' if whole else ' of'} {format_ns(built.end - built.start)}"), "not bold")
        if picture.lanes.hidden:
            left.append(f"  {len(picture.lanes.hidden)} hidden (X)", "not bold")
        self.query_one("#title", Line).show(left, self._count())
        first, second = selected_lines(built, picture.selected, self.size.width, ascii=ascii)
        self.query_one("#selected", Line).show(own(f" {first}"))
        self.query_one("#context", Line).show(own(f" {second}"))
        if self.detail.display:
            self._show_detail()

    def _count(self) -> str:
        place, built = self.picture.selected, self._built
        return f"{place.position + 1:,}/{built.row(place).size:,} " if place is not None and built is not None else ""

    def _stretch(self, start: int, end: int) -> str:
        assert self._built is not None
        return stretch(start - self._built.zero, end - self._built.zero, ascii=self.session.ascii)

    def action_details(self) -> None:
        """Shows or hides everything about the selected event."""
        self.detail.display = not self.detail.display
        if self.detail.display:
            self.call_after_refresh(self._show_detail)
        self.host.refresh_lines()

    def _show_detail(self) -> None:
        self.detail.show_text(Text("\n".join(self._detail_lines())))

    def _detail_lines(self) -> list[str]:
        built, place = self._built, self.picture.selected
        if built is None or place is None:
            return ["Nothing is selected."]
        width = (self.detail.size.width or self.size.width) - 2
        return facts_text(facts(built, place), built.zero, width, ascii=self.session.ascii)

    def action_scroll_detail(self, lines: int) -> None:
        """Scrolls the details."""
        if not self.detail.display:
            self.host.say(f"The details are closed: {commands.key('timeline.details')} opens them")
        self.detail.scroll_relative(y=lines, animate=False)

    def action_copy(self) -> None:
        """Copies everything about the selected event."""
        self.app.copy_to_clipboard("\n".join(self._detail_lines()))
        self.host.say("Copied the details")

    # --- from one event to another

    def action_same(self, step: int) -> None:
        """To the next or the previous event of the same name in the lane."""
        built, place = self._built, self.picture.selected
        if built is None or place is None:
            return
        found = built.same_name(place, step)
        if found is None:
            self.host.say(f"No {'later' if step > 0 else 'earlier'} event of this name in this lane")
        else:
            self.picture.select(found)

    def action_follow(self) -> None:
        """From GPU work to the call that launched it, and from a host event to the first work it launched."""
        built, place = self._built, self.picture.selected
        if built is None or place is None:
            return
        source = built.lanes[place.lane].source
        found = built.launch_of(place) if source == "device" else built.work_of(place) if source == "host" else None
        if found is not None:
            self._go(found)
        elif source == "device":
            self.host.say("The call that launched this is not in the trace")
        else:
            self.host.say(
                "This launched no GPU work" if source == "host" else "Only calls and GPU work have launches to follow"
            )

    def action_rows(self) -> None:
        """To the selected event's row in the tables."""
        built, place = self._built, self.picture.selected
        if built is None or place is None:
            return
        lane = built.lanes[place.lane]
        name = built.name(place)
        kind = built.kinds(lane.source, [built.event(place)])[0]
        tab, table = "", ""
        if kind in ("memcpy", "memset"):
            tab, table, name = "kernels", "copies", operation_name(name)
        elif kind in ("kernel", "graph"):
            tab, table = "kernels", "kernels"
        elif kind in _API:
            tab, table = "host", "API calls"
        elif kind in ("annotation", "dataloader", "steps"):
            tab, table, name = "host", "ranges", _STEP.sub("", name)
        elif lane.source == "host":
            tab, table = "host", "functions"
        if not tab:
            self.action_details()
            return
        self.post_message(ShowRows(tab, table, name))

    def action_time(self) -> None:
        """Asks for a time to go to."""
        if self._built is not None:
            self.host.ask(Question("time", "go to (12.5ms, 1.2s, +3ms, -400us):", self._to_time))

    def action_find(self) -> None:
        """Asks for a part of a name."""
        if self._built is not None:
            self.host.ask(Question("find", "find:", self._to_name))

    def _to_time(self, text: str) -> bool:
        """Goes to a time; returns whether the line closes."""
        built, picture = self._built, self.picture
        if built is None:
            return True
        time = parse_time(text, picture.time, built.zero)
        if time is None:
            self.host.remark("a number and ns, us, ms or s")
        elif not built.start <= time <= built.end:
            self.host.remark(f"the recording is {self._stretch(built.start, built.end)}")
        else:
            picture.go_to_time(time)
            return True
        return False

    def _to_name(self, text: str) -> bool:
        """Goes to the next event with such a name; returns whether the line closes."""
        built, picture = self._built, self.picture
        if built is None or not text.strip():
            return True
        shown = [number for number, _ in picture.lanes.lines]
        found = built.find_name(text.strip(), picture.time, picture.selected, list(dict.fromkeys(shown)))
        if found is None:
            self.host.remark("not in the lanes shown")
            return False
        self._go(found)
        return True

    def action_bookmark(self) -> None:
        """Sets a bookmark at the cursor, or removes it."""
        if self._built is None:
            return
        is_set = self.picture.bookmark()
        count, key = len(self.picture.bookmarks), commands.key("timeline.to_bookmark")
        set_now = f"Bookmark set ({count} in all): {key} goes from one to the next" if is_set else ""
        self.host.say(set_now or f"Bookmark removed ({count} left)")

    def action_to_bookmark(self) -> None:
        """Goes to the next bookmark, and from the last one to the first."""
        if self._built is None:
            return
        found = self.picture.next_bookmark()
        if found is None:
            self.host.say(f"No bookmark is set: {commands.key('timeline.bookmark')} sets one at the cursor")
            return
        number, mark = found
        if mark.place is not None:
            self._go(mark.place)
        else:
            self.picture.go_to_time(mark.time)
        self.host.say(f"Bookmark {number + 1} of {len(self.picture.bookmarks)}")

    # --- the marked range

    def action_mark(self, end: str) -> None:
        """Marks the start or end of a range, at the selected event's start or end; both together restrict all tabs."""
        built, picture = self._built, self.picture
        if built is None:
            return
        span = built.span(picture.selected) if picture.selected is not None else (picture.time, picture.time)
        begin, finish = picture.marks
        if end == "begin":
            begin = span[0]
            finish = finish if finish is not None and finish > begin else None
        else:
            finish = span[1]
            begin = begin if begin is not None and begin < finish else None
        picture.marks = begin, finish
        picture.changed(moved=False)
        if begin is None or finish is None:
            self.post_message(RangeMarked(None))
            self.host.say(
                f"{'Begin' if finish is None else 'End'} marked: {']' if finish is None else '['} marks the other end"
            )
        else:
            self.post_message(RangeMarked((begin, finish), f"range {self._stretch(begin, finish)}"))

    def forget_marks(self) -> None:
        """Removes the marks, because the range is no longer in force."""
        self.picture.marks = None, None
        self.picture.changed(moved=False)

    def action_back(self) -> None:
        """Closes the details, else ends the restriction to the marked range."""
        if self.detail.display:
            self.action_details()
        elif self.picture.marks != (None, None) and self.session.scope.window is None:
            self.forget_marks()
        else:
            self.post_message(NothingToClose())
        self.host.refresh_lines()

    # --- around it

    def footer_labels(self) -> dict[str, str]:
        """Returns the labels; without a timeline, no key does anything."""
        if self.has_class("-blank"):
            return {c.id: "" for c in commands.COMMANDS if c.where in ("timeline", "lanes")}
        if self.detail.display:
            return {"timeline.back": "close"}
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
