"""The lanes of a trace on one time axis, by keys and pointer: a window that pans and zooms, and a cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from tracetui.analysis.base import number_format
from tracetui.analysis.timeline.facts import Arrow, arrows
from tracetui.analysis.timeline.rows import NONE
from tracetui.analysis.timeline.timeline import Place, Timeline
from tracetui.app.charts.cells import Run, ruler
from tracetui.app.charts.lanes import STYLES, End, arrow_cells, lane_title, row_runs
from tracetui.app.keys import commands
from tracetui.app.text import fitting
from tracetui.app.widgets.painted import Latest, Painted
from tracetui.parsers.arrays import Ints

FOLDED = frozenset({"python", "samples"})
"""Lanes that show one row at first: call stacks and lists of metrics may be longer than the screen."""


@dataclass
class LaneList:
    """The lanes of a timeline as lines of the screen."""

    depths: tuple[int, ...] = ()
    """How many rows each lane has."""
    folded: set[int] = field(default_factory=set)
    pinned: list[int] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    lines: list[tuple[int, int]] = field(default_factory=list)
    """(lane, row of the lane) of each line."""
    order: tuple[int, ...] = ()
    """The lanes from top to bottom, as long as none is pinned."""

    @classmethod
    def of(cls, timeline: Timeline) -> LaneList:
        """All lanes; call stacks are folded."""
        lanes = cls()
        lanes.grow(timeline)
        return lanes

    def grow(self, timeline: Timeline) -> None:
        """Takes over the lanes that a timeline has more than this list."""
        before = len(self.depths)
        # with the lanes of many ranks, one row of each is more than enough for a screen
        self.folded |= {
            number
            for number, lane in enumerate(timeline.lanes)
            if (lane.kind in FOLDED or lane.rank is not None) and number >= before
        }
        self.depths = tuple(len(lane.rows) for lane in timeline.lanes)
        self.order = timeline.order()
        self._arrange()

    def _arrange(self) -> None:
        order = [*self.pinned, *(n for n in self.order or range(len(self.depths)) if n not in self.pinned)]
        self.lines = [
            (lane, depth)
            for lane in order
            if lane not in self.hidden
            for depth in range(1 if lane in self.folded else self.depths[lane])
        ]

    def line_of(self, lane: int, depth: int) -> int:
        """The line of a row, else that of its lane, else the first."""
        for wanted in ((lane, depth), (lane, 0)):
            if wanted in self.lines:
                return self.lines.index(wanted)
        return 0

    def lane_after(self, line: int, step: int) -> int:
        """The first line of the lane after that of a line (`step` 1) or before it (-1); the line itself at the ends."""
        firsts = [number for number, (_, depth) in enumerate(self.lines) if not depth]
        if step > 0:
            return next((first for first in firsts if first > line), line)
        lane_first = max((first for first in firsts if first <= line), default=0)
        return max((first for first in firsts if first < lane_first), default=line)

    def fold(self, lane: int) -> None:
        """Collapses a lane to its first row, or expands it."""
        self.folded ^= {lane}
        self._arrange()

    def pin(self, lane: int) -> None:
        """Puts a lane above those that are not pinned, or back."""
        if lane in self.pinned:
            self.pinned.remove(lane)
        else:
            self.pinned.append(lane)
        self._arrange()

    def hide(self, lane: int) -> None:
        """Hides a lane, unless it is the last one."""
        if len({shown for shown, _ in self.lines}) > 1:
            self.hidden.add(lane)
            self._arrange()

    def show_all(self) -> None:
        """Shows all hidden lanes again."""
        self.hidden.clear()
        self._arrange()

    def reveal(self, lane: int, depth: int) -> None:
        """Makes sure that a row is among the lines."""
        if (lane, depth) not in self.lines:
            self.hidden.discard(lane)
            if depth:
                self.folded.discard(lane)
            self._arrange()

    def label(self, timeline: Timeline, line: int, width: int, *, first: bool, ascii: bool) -> str:
        """Returns the label of a line: its lane's name at the lane's first visible line."""
        lane, depth = self.lines[line]
        owner = timeline.lanes[lane]
        if owner.curves and depth:
            name = fitting.printable(owner.curves[depth].name, ascii=ascii)
            return fitting.pad(fitting.fit(f"  {name}", width, ascii=ascii), width)
        if depth and not first:
            return " " * width
        sign = ""
        if self.depths[lane] > 1:
            closed, opened = ("+", "-") if ascii else ("▸", "▾")
            sign = closed if lane in self.folded else opened
        pin = "*" if lane in self.pinned else ""
        text = fitting.printable(lane_title(owner, short=width < 20), ascii=ascii)
        if owner.curves:
            text = fitting.printable(owner.curves[0].name, ascii=ascii)
        hidden = self.depths[lane] - 1
        more = f" +{hidden}" if lane in self.folded and hidden else ""
        room = width - len(sign) - len(pin) - len(more)
        return fitting.pad(f"{pin}{sign}{fitting.fit(text, room, ascii=ascii)}{more}", width)


WIDE_MARGIN, MARGIN = 26, 15
"""Columns for the lanes' names, where there is room and where there is little."""
SHORTEST_NS = 100
"""The shortest window: on a wide screen, a few ns per cell."""


class Bookmark(NamedTuple):
    """A time to come back to."""

    time: int
    place: Place | None
    """The event that was selected there."""


class TimelinePicture(Painted):
    """The picture. Rows of lanes below a ruler; the selected event is marked."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"timeline--{key}" for key in STYLES}

    class Moved(Latest):
        """Another event is selected, or the window has changed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.timeline: Timeline | None = None
        self.lanes = LaneList()
        self.start, self.end = 0, 1
        """The window, ns on the trace's clock."""
        self.cursor = 0
        """Line of the lane list."""
        self.selected: Place | None = None
        self.time = 0
        """The current time on the axis: the start of the selected event, or the time that the user went to."""
        self.top = 0
        self.marks: tuple[int | None, int | None] = (None, None)
        self.bookmarks: list[Bookmark] = []
        """By time."""
        self.ascii = False
        self.shows_arrows = True
        self._drawn: dict[tuple[int, int, int], list[Run]] = {}
        """Rows of the window in view, by lane, row and selected event."""
        self._drawn_of: object = None
        self._edges = np.zeros(0, np.int64)
        self._arrows: tuple[object, tuple[Arrow, ...]] = (None, ())
        """Of which event of which timeline, and its arrows."""
        self._over: dict[int, dict[int, str]] = {}
        """What the arrows put over the rows: characters by line of the screen and column of the axis."""
        self._painted: tuple[object, ...] = ()
        self._painted_cursor = 0
        self._styles: dict[str, Style] = {}

    # --- what is shown

    @property
    def margin(self) -> int:
        """Columns for the lanes' names."""
        return WIDE_MARGIN if self.size.width >= 110 else MARGIN

    @property
    def columns(self) -> int:
        """Cells of the axis."""
        return max(self.size.width - self.margin, 1)

    @property
    def page_rows(self) -> int:
        """Rows in sight at once."""
        return max(self.size.height - 1, 1)

    def edges(self) -> Ints:
        """Where the cells begin, and where the last one ends."""
        # in whole ns: floats would lose digits of a clock that counts from 1970, and span times columns may overflow
        whole, rest = divmod(self.end - self.start, self.columns)
        number = np.arange(self.columns + 1, dtype=np.int64)
        return self.start + number * whole + number * rest // self.columns

    def column_of(self, time: int) -> int:
        """The cell that holds a time; may lie outside the window."""
        return int((time - self.start) * self.columns // max(self.end - self.start, 1))

    # --- painting

    def changed(self, *, moved: bool = True) -> None:
        """Paints what has changed: the ruler and two rows, where only the cursor has moved."""
        marks = (*self.marks, *self.bookmarks)
        state = (self.timeline, self.start, self.end, self.top, self.lanes.lines, self.size, marks)
        # lists of lines are never changed, but replaced
        same = len(state) == len(self._painted) and all(
            new is old if isinstance(new, list) else new == old for new, old in zip(state, self._painted, strict=True)
        )
        before, self._over = self._over, self._overlay()
        if same:
            width = self.size.width
            lines = {self._painted_cursor - self.top + 1, self.cursor - self.top + 1, 0}
            lines |= {line for line in {*before, *self._over} if before.get(line) != self._over.get(line)}
            self.refresh(*(Region(0, line, width, 1) for line in lines))
        else:
            self.refresh()
        self._painted, self._painted_cursor = state, self.cursor
        if moved:
            self.post_message(self.Moved())

    def on_resize(self, event: Resize) -> None:
        """Bins anew."""
        self.keep_in_sight()
        self.changed()

    def keep_in_sight(self) -> None:
        """Scrolls until the cursor's line is in sight."""
        if not self.size.height:
            return
        rows = self.page_rows
        if self.cursor < self.top:
            self.top = self.cursor
        elif self.cursor >= self.top + rows:
            self.top = self.cursor - rows + 1
        self.top = min(max(self.top, 0), max(len(self.lanes.lines) - rows, 0))

    def _overlay(self) -> dict[int, dict[int, str]]:
        """What the arrows of the selected event put over the rows in sight."""
        timeline, selected = self.timeline, self.selected
        if timeline is None or selected is None or not self.shows_arrows or not self.size.height:
            return {}
        if self._arrows[0] != (id(timeline), selected):
            self._arrows = (id(timeline), selected), arrows(timeline, selected)
        over: dict[int, dict[int, str]] = {}
        begin, end = timeline.span(selected)
        is_seen = (end - begin) * self.columns >= self.end - self.start
        for arrow in self._arrows[1]:
            ends = [
                End(self.lanes.lines.index((place.lane, place.row)) - self.top + 1, self.column_of(time))
                for place, time in ((arrow.tail, arrow.tail_time), (arrow.head, arrow.head_time))
                if (place.lane, place.row) in self.lanes.lines
            ]
            if len(ends) == 2:
                tail, head = ends
                if tail.column == head.column and not is_seen:
                    continue  # from so far away it would only hide what else is in these cells
                for (y, x), sign in arrow_cells(tail, head, self.page_rows, self.columns, ascii=self.ascii).items():
                    over.setdefault(y, {})[x] = sign
        return over

    @property
    def out_of_sight(self) -> list[str]:
        """Where the ends of the selected event's arrows are that are not in sight: in time, or in which lane."""
        if self.timeline is None or not self.shows_arrows:
            return []
        told = []
        for arrow in self._arrows[1]:
            ends = (arrow.tail, arrow.tail_time), (arrow.head, arrow.head_time)
            leads = arrow.tail == self.selected
            place, time = ends[leads]
            what = (("launched", "its work") if arrow.kind == "launch" else ("its forward", "its backward"))[leads]
            line = self.lanes.line_of(place.lane, place.row) - self.top
            if not self.start <= time < self.end:
                sign = ("<>" if self.ascii else "◀▶")[time >= self.end]
                far = number_format.format_ns(arrow.head_time - arrow.tail_time, ascii=self.ascii)
                told.append(f"{sign} {what} {far} {'later' if leads else 'earlier'}")
            elif not 0 <= line < self.page_rows:
                told.append(f"{what} {'above' if line < 0 else 'below'}: {lane_title(self.timeline.lanes[place.lane])}")
        return told

    def notify_style_update(self) -> None:
        """Colours have changed."""
        self._styles.clear()
        super().notify_style_update()

    def _style(self, key: str) -> Style:
        if key not in self._styles:
            self._styles[key] = self.get_component_rich_style(f"timeline--{key}") if key else self.rich_style
        return self._styles[key]

    def render_line(self, y: int) -> Strip:
        """The ruler, or one row."""
        width = self.size.width
        timeline = self.timeline
        if timeline is None:
            return Strip.blank(width, self._style(""))
        if y == 0:
            return self._ruler()
        line = self.top + y - 1
        if line >= len(self.lanes.lines):
            return Strip.blank(width, self._style(""))
        lane, depth = self.lanes.lines[line]
        here = line == self.cursor
        title = self.lanes.label(timeline, line, self.margin - 2, first=y == 1, ascii=self.ascii)
        runs = self._runs(lane, depth)
        segments = [Segment((">" if here else " ") + title + " ", self._style("cursor" if here else "label"))]
        segments += [Segment(run.text, self._style(run.style)) for run in runs]
        strip = Strip(segments).adjust_cell_length(width, self._style(""))
        return self._laid_over(strip, self._over[y]) if y in self._over else strip

    def _laid_over(self, strip: Strip, over: Mapping[int, str]) -> Strip:
        """Returns a row with the cells of arrows over it."""
        parts, at, style = [], 0, self._style("arrow")
        for column in sorted(over):
            here = column + self.margin
            parts += [strip.crop(at, here), Strip([Segment(over[column], style)])]
            at = here + 1
        return Strip.join([*parts, strip.crop(at)])

    def _runs(self, lane: int, depth: int) -> list[Run]:
        window = (self.timeline, self.start, self.end, self.columns, self.ascii)
        if window != self._drawn_of:
            self._drawn.clear()
            self._drawn_of = window
            self._edges = self.edges()
        here = self.selected is not None and (self.selected.lane, self.selected.row) == (lane, depth)
        key = (lane, depth, self.selected.position if here and self.selected is not None else NONE)
        if key not in self._drawn:
            assert self.timeline is not None
            self._drawn[key] = row_runs(self.timeline, lane, depth, self._edges, key[2], ascii=self.ascii)
        return self._drawn[key]

    def _ruler(self) -> Strip:
        assert self.timeline is not None
        zero, columns = self.timeline.zero, self.columns
        text = ruler(self.start - zero, self.end - zero, columns, signs=self._signs(), ascii=self.ascii)
        left = fitting.pad(fitting.fit(f" {self._scale()}", self.margin, ascii=self.ascii), self.margin)
        axis = self._style("axis")
        return Strip([Segment(left + text, axis)]).adjust_cell_length(self.size.width, axis)

    def _signs(self) -> dict[int, str]:
        """Returns the signs on the ruler: the cursor, or the direction of an event out of view, and the marks."""
        kept = {self.column_of(time): "B" for time, _ in self.bookmarks if self.start <= time < self.end}
        at = self.column_of(self.time)
        sign = "v" if self.ascii else "▼"
        if self.selected is not None and self.timeline is not None:
            start, end = self.timeline.span(self.selected)
            if end <= self.start:
                at, sign = 0, "<" if self.ascii else "◀"
            elif start >= self.end:
                at, sign = self.columns - 1, ">" if self.ascii else "▶"
            elif start < self.start:
                at = 0
        signs = {**kept, at: sign}
        for time, mark in zip(self.marks, "[]", strict=True):
            if time is not None and self.start <= time <= self.end:
                signs[min(self.column_of(time), self.columns - 1)] = mark
        return {column: sign for column, sign in signs.items() if 0 <= column < self.columns}

    def _scale(self) -> str:
        return f"{number_format.format_ns((self.end - self.start) / self.columns, ascii=self.ascii)}/cell"


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
        self.time = self._here

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
