"""The lanes of a trace on one time axis, by keys and pointer: a window that pans and zooms, and a cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from tracetui.analysis.timeline.rows import NONE
from tracetui.analysis.timeline.timeline import Place, Timeline
from tracetui.app.charts.lanes import lane_title
from tracetui.app.keys import commands
from tracetui.app.widgets.timeline_picture import SHORTEST_NS, Bookmark, LaneList, TimelinePicture

if TYPE_CHECKING:
    from textual.events import Click, MouseScrollDown, MouseScrollUp


PAN = 0.25
ZOOM = 2.0
AROUND = 0.2
"""How much of the window is left around an event that is brought into it."""


class TimelineWidget(TimelinePicture, can_focus=True):
    """The picture with its keys."""

    BINDINGS = commands.bindings("lanes")

    class Activated(Message):
        """An event was double-clicked."""

    @dataclass
    class Said(Message):
        """A key did something that may not be seen, or nothing."""

        text: str

    # --- what is shown

    def load(self, timeline: Timeline) -> None:
        """Shows a trace from start to end, with the cursor on its longest row of GPU work."""
        self.timeline = timeline
        self.lanes = LaneList.of(timeline)
        self.cursor = self.top = 0
        self.selected = None
        self.marks = (None, None)
        self.bookmarks = []
        self.start, self.end = self._whole()
        kinds = [timeline.lanes[lane].kind for lane, _ in self.lanes.lines]
        work = next((kinds.index(kind) for kind in ("collectives", "stream") if kind in kinds), 0)
        self.time = self.start
        self._select_near(work)

    def update(self, timeline: Timeline) -> None:
        """Shows the same lanes and more behind them; window, cursor and marks stay."""
        line = self.lanes.lines[self.cursor] if self.lanes.lines else None
        self.timeline = timeline
        self.lanes.grow(timeline)
        if line is not None:
            self._stand_on(*line)

    def _whole(self) -> tuple[int, int]:
        assert self.timeline is not None
        return self.timeline.start, max(self.timeline.end, self.timeline.start + SHORTEST_NS)

    # --- the window

    def show_window(self, start: int, end: int) -> None:
        """Shows a stretch of time, moved and cut so that some of the trace stays in sight."""
        if self.timeline is None:
            return
        low, high = self._whole()
        span = min(max(end - start, SHORTEST_NS), max(high - low, SHORTEST_NS))
        start = min(max(start, low), high - span)
        self.start, self.end = start, start + span
        self.changed()

    def action_pan(self, share: float) -> None:
        """Moves by a share of the window."""
        step, before = int((self.end - self.start) * PAN * share), self.start
        self.show_window(self.start + step, self.end + step)
        if self.timeline is not None and self.start == before:
            whole = self.end - self.start >= self._whole()[1] - self._whole()[0]
            zooms = f"The whole recording is in sight: {commands.key('timeline.in')} zooms in"
            self.post_message(self.Said(zooms if whole else f"The recording {'ends' if step > 0 else 'begins'} here"))

    def action_zoom(self, times: float) -> None:
        """Shows a shorter or a longer stretch around the cursor, or around the middle where the cursor is not in it."""
        span = self.end - self.start
        at = self.time if self.start <= self.time < self.end else self.start + span // 2
        wanted = int(span / ZOOM**times)
        # the time at the cursor stays in place
        start = at - (at - self.start) * wanted // span
        self.show_window(start, start + wanted)

    def action_fit(self) -> None:
        """Shows the whole recording."""
        if self.timeline is not None:
            self.show_window(*self._whole())

    def action_fit_event(self) -> None:
        """Shows the selected event, and a little around it."""
        if self.timeline is not None and self.selected is not None:
            start, end = self.timeline.span(self.selected)
            room = int((end - start) * AROUND) + 1
            self.show_window(start - room, end + room)

    def bring_in(self, start: int, end: int) -> None:
        """Moves the window just enough to show the start of a time range, and all of it if it fits."""
        span = self.end - self.start
        if self.start <= start and (end <= self.end or start < self.start + span // 2):
            self.changed()
        elif end - start < span:
            self.show_window((start + end - span) // 2, (start + end + span) // 2)
        else:
            self.show_window(start - int(span * AROUND), start - int(span * AROUND) + span)

    def go_to_time(self, time: int) -> None:
        """Puts a time in the middle, and the cursor on what is there."""
        span = self.end - self.start
        self.time = time
        self.selected = None
        self.show_window(time - span // 2, time + span - span // 2)
        self._select_near(self.cursor)

    # --- the cursor

    def select(self, place: Place) -> None:
        """Puts the cursor on an event, expands its lane, and scrolls to it."""
        assert self.timeline is not None
        self.selected = place
        self.lanes.reveal(place.lane, place.row)
        self.cursor = self.lanes.line_of(place.lane, place.row)
        start, end = self.timeline.span(place)
        self.time = start
        self.keep_in_sight()
        self.bring_in(start, end)

    def _select_near(self, line: int) -> None:
        """The event of a line that is closest to the cursor's time, without moving the window."""
        if self.timeline is None or not self.lanes.lines:
            return
        self.cursor = min(max(line, 0), len(self.lanes.lines) - 1)
        lane, depth = self.lanes.lines[self.cursor]
        row = self.timeline.lanes[lane].rows[depth]
        position = row.nearest(self.time)
        place = Place(lane, depth, position) if position != NONE else None
        if place is not None:
            start, end = self.timeline.span(place)
            if not (start < self.end and end > self.start):
                # visible events are preferred to events out of view
                inside = row.nearest((self.start + self.end) // 2)
                other = Place(lane, depth, inside)
                begin, finish = self.timeline.span(other)
                place = other if begin < self.end and finish > self.start else place
        self.selected = place
        self.keep_in_sight()
        self.changed()

    def action_row(self, step: int) -> None:
        """Up or down by rows."""
        if self.lanes.lines:
            self._select_near(self.cursor + step)

    def action_lane(self, step: int) -> None:
        """To the first row of the lane after or before."""
        if self.lanes.lines:
            self._select_near(self.lanes.lane_after(self.cursor, step))

    def action_event(self, step: int) -> None:
        """To the event after or before in the row."""
        if self.timeline is None or self.selected is None:
            return
        row = self.timeline.row(self.selected)
        position = self.selected.position + step
        if 0 <= position < row.size:
            self.select(Place(self.selected.lane, self.selected.row, position))

    @property
    def _here(self) -> int:
        """Returns the start of the selected event, else the current time on the axis."""
        chosen = self.selected is not None and self.timeline is not None
        return self.timeline.span(self.selected)[0] if chosen else self.time  # type: ignore[union-attr,arg-type]

    def bookmark(self) -> bool:
        """Sets a bookmark at the cursor, or removes the one there; returns whether there is one now."""
        others = [mark for mark in self.bookmarks if mark.time != self._here]
        is_new = len(others) == len(self.bookmarks)
        added = [Bookmark(self._here, self.selected)] if is_new else []
        self.bookmarks = sorted([*others, *added], key=lambda mark: mark.time)
        self.changed(moved=False)
        return is_new

    def next_bookmark(self) -> tuple[int, Bookmark] | None:
        """Returns the first bookmark after the cursor, else the first of all, with its index; None if none is set."""
        if not self.bookmarks:
            return None
        later = [number for number, mark in enumerate(self.bookmarks) if mark.time > self._here]
        number = later[0] if later else 0
        return number, self.bookmarks[number]

    def action_fold(self) -> None:
        """Expands or collapses the lane under the cursor."""
        if self.timeline is not None and self.lanes.lines:
            lane, _ = self.lanes.lines[self.cursor]
            self.lanes.fold(lane)
            self._select_near(self.lanes.line_of(lane, 0))

    def action_arrows(self) -> None:
        """Shows or hides the arrows of the selected event."""
        self.shows_arrows = not self.shows_arrows
        self.changed()
        self.post_message(self.Said(f"Arrows of the selected event: {'shown' if self.shows_arrows else 'hidden'}"))

    def action_pin(self) -> None:
        """Pins the lane to the top, or takes it back to its place."""
        if self.timeline is not None and self.lanes.lines:
            lane, depth = self.lanes.lines[self.cursor]
            self.lanes.pin(lane)
            self._stand_on(lane, depth)

    def action_hide(self) -> None:
        """Hides the lane, unless it is the last one."""
        if self.timeline is not None and self.lanes.lines:
            lane, _ = self.lanes.lines[self.cursor]
            after = self.lanes.lines[self.lanes.lane_after(self.cursor, 1)]
            self.lanes.hide(lane)
            self._select_near(self.lanes.line_of(*after) if after[0] != lane else self.cursor - 1)

    def action_show_all(self) -> None:
        """Shows hidden lanes again."""
        if self.lanes.lines:
            lane, depth = self.lanes.lines[self.cursor]
            self.lanes.show_all()
            self._stand_on(lane, depth)

    def _stand_on(self, lane: int, depth: int) -> None:
        self.cursor = self.lanes.line_of(lane, depth)
        self.keep_in_sight()
        self.changed()

    # --- pointer

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Moves down by a row; with Ctrl, zooms out."""
        event.stop()
        if event.ctrl:
            self.action_zoom(-1)
        else:
            self.action_row(1)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Moves up by a row; with Ctrl, zooms in."""
        event.stop()
        if event.ctrl:
            self.action_zoom(1)
        else:
            self.action_row(-1)

    def on_click(self, event: Click) -> None:
        """Selects what is under the pointer; twice goes to its row in the tables."""
        if event.x >= self.margin:
            self.time = int(self.edges()[min(event.x - self.margin, self.columns - 1)])
        if event.y:
            self._select_near(self.top + event.y - 1)
        else:
            self.changed()
        if event.chain == 2:
            self.post_message(self.Activated())

    @property
    def title(self) -> str:
        """What the lane under the cursor is."""
        if self.timeline is None or not self.lanes.lines:
            return ""
        return lane_title(self.timeline.lanes[self.lanes.lines[self.cursor][0]])
