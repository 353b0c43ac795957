"""Search in a timeline: every event whose name contains a text, from one hit to the next across all lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base.names import matching
from tracetui.analysis.timeline.timeline import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tracetui.analysis.timeline.rows import Ids
    from tracetui.analysis.timeline.timeline import Timeline

    Mask = NDArray[np.bool_]

UNSEARCHED = ("idle", "path", "samples")
"""Sources of lanes whose names are our own words, or those of events of other lanes."""


@dataclass(frozen=True, eq=False)
class Hits:
    """The events found, in the order of their beginning; those that begin together by lane and row."""

    timeline: Timeline
    part: str
    """What their names contain, in any case."""
    rows: tuple[tuple[int, int, Ids], ...]
    """(lane, row of the lane, positions in it, ascending) of each row with hits."""

    @property
    def size(self) -> int:
        """How many there are."""
        return sum(found.size for _, _, found in self.rows)

    def index(self, place: Place) -> int | None:
        """Which of the hits an event is, counted from 0; null where it is none."""
        start = int(self.timeline.row(place).start[place.position])
        before, is_hit = 0, False
        for lane, depth, found in self.rows:
            here = (lane, depth) == (place.lane, place.row)
            row = self.timeline.lanes[lane].rows[depth]
            # of those that begin at the same time, rows above come first
            above = (lane, depth) < (place.lane, place.row)
            later = int(np.searchsorted(row.start, start, side="right" if above else "left"))
            position = place.position if here else later
            at = int(np.searchsorted(found, position))
            before += at
            is_hit = is_hit or (here and at < found.size and int(found[at]) == place.position)
        return before if is_hit else None

    def next(self, time: int, after: Place | None, step: int = 1) -> Place | None:
        """The next hit (`step` 1) or the one before (-1); from the last one to the first, and back.

        Args:
            time: from which on, ns on the trace's clock, where no event is selected.
            after: the event that is left; null for none, and then a hit that begins at the time counts.
            step: 1 or -1.
        """
        if after is not None:
            time = int(self.timeline.row(after).start[after.position])
        best: tuple[bool, int, int, int] | None = None
        place: Place | None = None
        for lane, depth, found in self.rows:
            row = self.timeline.lanes[lane].rows[depth]
            if after is None:
                low = int(np.searchsorted(row.start, time, side="left"))
            elif (lane, depth) == (after.lane, after.row):
                low = after.position + (step > 0)
            else:
                later = (lane, depth) > (after.lane, after.row)
                low = int(np.searchsorted(row.start, time, side="left" if later else "right"))
            at = int(np.searchsorted(found, low)) - (step < 0)
            wraps = not 0 <= at < found.size
            position = int(found[(0 if step > 0 else -1) if wraps else at])
            order = (wraps, int(row.start[position]) * step, lane * step, depth * step)
            if best is None or order < best:
                best, place = order, Place(lane, depth, position)
        return place


def search(timeline: Timeline, part: str, lanes: Sequence[int]) -> Hits:
    """Every event of these lanes whose name contains `part`, in any case.

    Args:
        timeline: where to look.
        part: of the name.
        lanes: numbers of the lanes to look in.
    """
    hits_of: dict[tuple[int, str], Mask] = {}
    wanted = part.lower()
    rows = []
    for number in sorted(set(lanes)):
        owner, lane = timeline.owner(number)
        if lane.source in UNSEARCHED:
            continue
        if (known := (id(owner), lane.source)) not in hits_of:
            hits_of[known] = matching(owner.frame(lane.source)["name"], lambda name: wanted in name.lower())
        for depth, row in enumerate(lane.rows):
            found = np.flatnonzero(hits_of[known][row.events]).astype(np.uint32)
            if found.size:
                rows.append((number, depth, found))
    return Hits(timeline, part, tuple(rows))
