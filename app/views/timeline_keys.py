"""Timeline: the keys that lead to other events, times and hits of a search, and those that mark a range."""

from __future__ import annotations

import re

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.memops import operation_name
from tracetui.analysis.timeline.ranks_timeline import RanksTimeline
from tracetui.analysis.timeline.timeline import Hits, Place, Timeline, search
from tracetui.app.charts.scale import stretch
from tracetui.app.keys import commands
from tracetui.app.text.times import parse_time
from tracetui.app.text.words import RESOURCE_LABELS
from tracetui.app.views.common.base import View
from tracetui.app.widgets.detail_pane import DetailPane
from tracetui.app.widgets.prompt import Question
from tracetui.app.widgets.timeline import TimelineWidget

_STEP = re.compile(r"(?<=^ProfilerStep)#\d+$")
_API = frozenset({"runtime", "driver"})


class LanesView(View):
    """The lanes, and the keys that lead to other events or mark a range."""

    TAB = "timeline"

    def __init__(self) -> None:
        super().__init__()
        self._built: Timeline | None = None
        self._hits: Hits | None = None
        """What was searched for, until Esc."""

    @property
    def picture(self) -> TimelineWidget:
        """The lanes."""
        return self.query_one(TimelineWidget)

    @property
    def detail(self) -> DetailPane:
        """Everything about the selected event."""
        return self.query_one(DetailPane)

    def go(self, place: Place) -> None:
        """Selects an event; where it would be too small to be seen, zooms in."""
        assert self._built is not None
        start, end = self._built.span(place)
        picture = self.picture
        cells = (end - start) * picture.columns // max(picture.end - picture.start, 1)
        if not cells:
            span = (end - start) * 12
            picture.start, picture.end = (start + end - span) // 2, (start + end + span) // 2
        picture.select(place)

    def _stretch(self, start: int, end: int) -> str:
        assert self._built is not None
        return stretch(start - self._built.zero, end - self._built.zero, ascii=self.session.ascii)

    def action_details(self) -> None:
        """Shows or hides everything about the selected event."""
        raise NotImplementedError

    # --- both ends of a range

    def action_mark(self, end: str) -> None:
        """Marks the start or end of a range; both together restrict all tabs.

        It is the start or end of the selected event, or the cursor's time where that event is out of sight.
        """
        built, picture = self._built, self.picture
        if built is None:
            return
        if isinstance(built, RanksTimeline):
            key = commands.key("timeline.ranks")
            self.host.say(f"A range is marked in the lanes of one rank: {key} and Enter show them")
            return
        span = built.span(picture.selected) if picture.selected is not None else (picture.time, picture.time)
        if span[1] < picture.start or span[0] > picture.end:
            span = (picture.time, picture.time)
        begin, finish = picture.marks
        if end == "begin":
            begin = span[0]
            finish = finish if finish is not None and finish > begin else None
        else:
            finish = span[1]
            begin = begin if begin is not None and begin < finish else None
        picture.marks = begin, finish
        picture.changed(moved=False)
        self.host.refresh_lines()
        if begin is None or finish is None:
            self.app.call_later(self.host.restrict, None)
            marked, key = ("Begin", "]") if finish is None else ("End", "[")
            at = format_ns(span[end != "begin"] - built.zero)
            self.host.say(f"{marked} marked at {at}: {key} marks the other end")
        else:
            self.app.call_later(self.host.restrict, (begin, finish), f"range {self._stretch(begin, finish)}")
            area, back = commands.key("timeline.area"), commands.key("timeline.back")
            said = f"All tabs are of the marked {format_ns(finish - begin)}: {area} lists what ran, {back} ends it"
            self.app.call_later(self.host.say, said)

    def show_marks(self, window: tuple[int, int] | None) -> None:
        """Marks the range that is in force; without one, nothing."""
        self.picture.marks = window or (None, None)
        self.picture.changed(moved=False)

    # --- other events

    def action_same(self, step: int) -> None:
        """To the next or the previous hit of the search; without one, event of the same name in the lane."""
        built, place = self._built, self.picture.selected
        if self._hits is not None:
            self.action_hit(step)
            return
        if built is None or place is None:
            return
        target = built.same_name(place, step)
        if target is None:
            self.host.say(f"No {'later' if step > 0 else 'earlier'} event of this name in this lane")
        else:
            self.picture.select(target)

    def action_hit(self, step: int) -> None:
        """To the next or the previous hit of the search, in any lane; from the last to the first."""
        hits, picture = self._hits, self.picture
        if hits is None:
            return
        hit = hits.next(picture.time, picture.selected, step)
        if hit is not None:
            time = picture.time
            self.go(hit)
            if (picture.time - time) * step < 0:
                self.host.say("Search goes on at the " + ("beginning" if step > 0 else "end"))

    def end_search(self) -> bool:
        """Forgets what was searched for; returns whether there was something."""
        was, self._hits = self._hits is not None, None
        return was

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """N has its own meaning while there are hits."""
        return self._hits is not None if action == "hit" else super().check_action(action, parameters)

    @property
    def searched(self) -> str:
        """Which of the hits is selected: ``3 of 120``; empty without a search."""
        hits, place = self._hits, self.picture.selected
        if hits is None:
            return ""
        at = hits.index(place) if place is not None else None
        return f"{'-' if at is None else f'{at + 1:,}'}/{hits.size:,} {hits.part!r}"

    def action_follow(self) -> None:
        """From GPU work to the call that launched it, and from a host event to the first work it launched."""
        built, place = self._built, self.picture.selected
        if built is None or place is None:
            return
        source = built.lanes[place.lane].source
        follow = {"device": built.launch_of, "host": built.work_of, "path": built.behind}.get(source)
        target = None if follow is None else follow(place)
        if target is not None:
            self.go(target)
        elif source == "device" and _is_range(built, place):
            self.host.say("No call launches a range: it stands around the GPU work below it")
        elif source == "device":
            self.host.say("The call that launched this is not in the trace")
        else:
            self.host.say(
                {"host": "This launched no GPU work", "path": "The host recorded nothing here"}.get(
                    source, "Only calls, GPU work and the critical path lead to other events"
                )
            )

    def action_rows(self) -> None:
        """To the selected event's row in the tables."""
        built, place = self._built, self.picture.selected
        if built is None or place is None:
            return
        built, place = built.local(place)
        if (rank := built.trace.info.rank) != self.session.trace().info.rank:
            self.host.say(f"The tables are of rank {self.session.trace().info.rank}, and this is of rank {rank}")
            return
        lane = built.lanes[place.lane]
        name = built.name(place)
        kind = built.kinds(lane.source, [built.event(place)])[0]
        tab, table = "", ""
        if lane.source == "path":
            tab, table, name = "host", "critical path", RESOURCE_LABELS[kind]
        elif kind in ("memcpy", "memset"):
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
        self.app.call_later(self.host.open_rows, tab, table, name)

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
        """Goes to the next event with such a name, in any lane; returns whether the line closes."""
        built, picture = self._built, self.picture
        if built is None or not text.strip():
            return True
        hits = search(built, text.strip(), [number for number, _ in picture.lanes.lines])
        # the selected event does not count; it is where the search starts
        hit = hits.next(picture.time, picture.selected)
        if hit is None:
            self.host.remark("not in the lanes shown")
            return False
        self._hits = hits
        self.go(hit)
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
            self.go(mark.place)
        else:
            self.picture.go_to_time(mark.time)
        self.host.say(f"Bookmark {number + 1} of {len(self.picture.bookmarks)}")


def _is_range(built: Timeline | RanksTimeline, place: Place) -> bool:
    """Whether an event of a GPU is a range, which stands around what was launched."""
    one, there = built.local(place)
    return one.kinds(one.lanes[there.lane].source, [one.event(there)])[0] == "annotation"
