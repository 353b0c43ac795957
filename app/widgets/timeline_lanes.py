"""Which rows of which lanes are shown, and in which order: folded, pinned and hidden lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracetui.app.charts.lane_titles import lane_title
from tracetui.app.text import fitting

if TYPE_CHECKING:
    from tracetui.analysis.timeline.timeline import Timeline

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
        found = cls()
        found.grow(timeline)
        return found

    def grow(self, timeline: Timeline) -> None:
        """Takes over the lanes that a timeline has more than this list."""
        known = len(self.depths)
        # with the lanes of many ranks, one row of each is more than enough for a screen
        self.folded |= {
            number
            for number, lane in enumerate(timeline.lanes)
            if (lane.kind in FOLDED or lane.rank is not None) and number >= known
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
