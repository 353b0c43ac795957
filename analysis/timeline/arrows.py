"""What leads to an event and from it: launches to their GPU work, forward to backward operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tracetui.analysis.timeline.rows import NONE

if TYPE_CHECKING:
    from tracetui.analysis.timeline.timeline import Place, Timeline

MOST = 4
"""So many arrows start at one event; more would hide each other."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one event to a later one."""

    tail: Place
    tail_time: int
    """Where on the event it starts, ns on the trace's clock."""
    head: Place
    head_time: int
    """The start of the event that it leads to."""
    kind: Literal["launch", "flow"]


def arrows(timeline: Timeline, place: Place) -> tuple[Arrow, ...]:
    """The arrows of one event; none for gaps, steps and what has no link.

    GPU work has one from its launch. A call has one to the first work that it launched on each stream, as an operator
    has for the calls below it. A forward operator has one to the first of its backward operators, and that one back.
    """
    source = timeline.lanes[place.lane].source
    if source == "device":
        launch = timeline.launch_of(place)
        return (_arrow(timeline, launch, place),) if launch is not None else ()
    if source != "host":
        return ()
    return (*_launches(timeline, place), *_flows(timeline, place))[:MOST]


def _arrow(timeline: Timeline, tail: Place, head: Place) -> Arrow:
    return Arrow(tail, timeline.span(tail)[0], head, timeline.span(head)[0], "launch")


def _launches(timeline: Timeline, place: Place) -> list[Arrow]:
    of, here = timeline.local(place)
    rows = of.rows_launched(here)
    if not rows.size:
        return []
    keys = of.trace.device.select("device", "stream")[rows]
    first = keys.with_row_index("at").unique(["device", "stream"], keep="first", maintain_order=True)["at"]
    found = []
    for row in rows[first.to_numpy()][:MOST].tolist():
        head = timeline.find_beside(place, "device", row)
        launch = int(of.launches[row])
        if head is not None and launch != NONE:
            called = int(of.trace.host["start"][launch])
            found.append(Arrow(place, called, head, timeline.span(head)[0], "launch"))
    return found


def _flows(timeline: Timeline, place: Place) -> list[Arrow]:
    of, here = timeline.local(place)
    event, forward = of.event(here), of.trace.host["forward"]
    found: list[Arrow] = []
    if forward.null_count() == forward.len():
        return found
    if (start := forward[event]) is not None and (tail := timeline.find_beside(place, "host", int(start))) is not None:
        found.append(Arrow(tail, timeline.span(tail)[0], place, timeline.span(place)[0], "flow"))
    later = np.flatnonzero((forward == event).fill_null(value=False).to_numpy())
    if later.size and (head := timeline.find_beside(place, "host", int(later[0]))) is not None:
        found.append(Arrow(place, timeline.span(place)[0], head, timeline.span(head)[0], "flow"))
    return found
