"""The lanes of several ranks on one axis: each rank has a timeline of its own, whose times are on a common clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tracetui.analysis.timeline.lanes import Lane
from tracetui.analysis.timeline.rows import rows_of
from tracetui.analysis.timeline.timeline import Place, Timeline

ORDER = ("steps", "collectives", "stream", "copies", "gpu ranges", "syncs", "idle")
"""The kinds of lanes that stand first, each of all ranks under one another; then the lanes of threads, rank by rank."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a rank begins a collective."""

    rank: int
    begin: int
    """ns on the common clock."""


@dataclass(frozen=True, eq=False)
class RanksTimeline(Timeline):
    """The lanes of several ranks; each event belongs to the timeline of its rank."""

    parts: tuple[Timeline, ...] = ()
    of: tuple[tuple[int, int], ...] = ()
    """(part, number of the lane there) of each lane."""
    calls: pl.DataFrame | None = None
    """Matched collectives: rank, instance, begin and end on the common clock."""
    residual_ns: float | None = None
    """What the fitted clocks leave: nothing finer can be said of moments on different ranks; None if not known."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks shown, ascending."""
        return tuple(sorted({lane.rank for lane in self.lanes if lane.rank is not None}))

    def owner(self, lane: int) -> tuple[Timeline, Lane]:
        """The timeline of the rank that a lane belongs to, and the lane there."""
        part, number = self.of[lane]
        return self.parts[part], self.parts[part].lanes[number]

    def local(self, place: Place) -> tuple[Timeline, Place]:
        """The timeline of the rank that an event belongs to, and its place there."""
        part, number = self.of[place.lane]
        return self.parts[part], replace(place, lane=number)

    def order(self) -> tuple[int, ...]:
        """The numbers of the lanes from top to bottom: those of one kind under one another."""
        kinds = {kind: place for place, kind in enumerate(ORDER)}
        return tuple(sorted(range(len(self.lanes)), key=lambda n: (kinds.get(self.lanes[n].kind, len(ORDER)), n)))

    def name(self, place: Place) -> str:
        """What an event is called."""
        of, here = self.local(place)
        return of.name(here)

    def record(self, place: Place) -> dict[str, object]:
        """Everything that its frame says about an event."""
        of, here = self.local(place)
        return of.record(here)

    def launch_of(self, place: Place) -> Place | None:
        """The call that launched a device event; None where it is not known."""
        of, here = self.local(place)
        return self._back(place, of.launch_of(here))

    def work_of(self, place: Place) -> Place | None:
        """The first GPU activity that a host event launched."""
        of, here = self.local(place)
        return self._back(place, of.work_of(here))

    def behind(self, place: Place) -> Place | None:
        """The event that a piece of the critical path runs through."""
        of, here = self.local(place)
        return self._back(place, of.behind(here))

    def find_beside(self, place: Place, source: str, event: int) -> Place | None:
        """The place of an event of the same rank as another one, given its row in a frame."""
        of, _ = self.local(place)
        return self._back(place, of.find(source, event))

    def same_name(self, place: Place, step: int) -> Place | None:
        """The next or the previous event of the same name in the lane."""
        of, here = self.local(place)
        return self._back(place, of.same_name(here, step))

    def _back(self, place: Place, found: Place | None) -> Place | None:
        """A place of the rank of another event, among the lanes of all ranks."""
        if found is None:
            return None
        return replace(found, lane=self.of.index((self.of[place.lane][0], found.lane)))

    def arrivals(self, place: Place) -> tuple[Arrival, ...]:
        """When each rank begins the collective that an event is, in the order of ranks; empty for other events."""
        rank, (start, _) = self.lanes[place.lane].rank, self.span(place)
        if self.calls is None or self.lanes[place.lane].kind not in ("collectives", "stream"):
            return ()
        # both times were moved to the common clock, each rounded by itself
        mine = self.calls.filter((pl.col("rank") == rank) & ((pl.col("begin") - start).abs() <= 1))
        if not mine.height:
            return ()
        every = self.calls.filter(pl.col("instance") == mine["instance"][0]).sort("rank")
        return tuple(Arrival(*row) for row in every.select("rank", "begin").iter_rows())


def of_ranks(
    parts: Sequence[tuple[int, Timeline]], calls: pl.DataFrame | None = None, residual_ns: float | None = None
) -> RanksTimeline:
    """Puts the lanes of ranks together.

    Args:
        parts: the rank and the timeline of each, whose times are on one clock.
        calls: as of `RanksTimeline`.
        residual_ns: as of `RanksTimeline`.
    """
    zero = min(part.zero for _, part in parts)
    timelines = tuple(replace(_with_collectives(part), origin=zero) for _, part in parts)
    lanes, of = [], []
    for number, ((rank, _), part) in enumerate(zip(parts, timelines, strict=True)):
        for at, lane in enumerate(part.lanes):
            lanes.append(replace(lane, rank=rank))
            of.append((number, at))
    first = timelines[0]
    return RanksTimeline(
        first.trace,
        tuple(lanes),
        min(part.start for part in timelines),
        max(part.end for part in timelines),
        first.gaps,
        first.launches,
        origin=zero,
        parts=timelines,
        of=tuple(of),
        calls=calls,
        residual_ns=residual_ns,
    )


def _with_collectives(part: Timeline) -> Timeline:
    """The timeline with a lane of its collectives: their kernels, or on CPUs the ranges of the host."""
    calls = part.trace.collectives
    if not calls.height:
        return part
    source = "device" if calls["device"].is_not_null().any() else "host"
    rows = calls[source].drop_nulls().unique().sort().to_numpy()
    frame = part.frame(source)[rows]
    known = frame["start"].is_not_null().to_numpy()
    rows, start = rows[known], frame["start"].drop_nulls().to_numpy()
    end = start + frame["duration"].fill_null(0).to_numpy()[known]
    order = np.lexsort((-end, start))
    packed, _ = rows_of(rows[order].astype(np.uint32), start[order], end[order])
    return replace(part, lanes=(*part.lanes, Lane("collectives", source, tuple(packed)))) if rows.size else part
