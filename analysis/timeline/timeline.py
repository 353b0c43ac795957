"""A trace as lanes on one axis: steps, GPUs with their streams, threads; built once, then all else is fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetui.analysis.attribution.calltree import row_ids
from tracetui.analysis.attribution.module_tree import ModuleTree, module_tree
from tracetui.analysis.base.names import matching
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.critical_path import RESOURCES
from tracetui.analysis.gpu.activities import graph_numbers
from tracetui.analysis.gpu.idle import gaps
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.gaps import ThreadCalls, calls_of_thread
from tracetui.analysis.timeline.lanes import Lane, lanes
from tracetui.analysis.timeline.rows import NONE, Curve, Ids, Row, rows_of
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Bools, Ints

Mask = Bools


@dataclass(frozen=True, slots=True)
class Place:
    """An event of a timeline."""

    lane: int
    row: int
    """Of the lane."""
    position: int
    """In the row."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """The lanes of a trace. Events refer to rows of its frames."""

    trace: Trace
    lanes: tuple[Lane, ...]
    start: int
    end: int
    """Start of the first event and end of the last, ns on the trace's clock."""
    gaps: pl.DataFrame
    """When a whole GPU is idle, and why (`analysis.gpu.idle.gaps`)."""
    launches: Ints
    """The host row that launched each device row, or -1."""
    path: pl.DataFrame | None = None
    """The critical path (`dependencies.path_lane`), once it is known; events of its lane are rows of it."""
    slack: Mapping[int, int] | None = None
    """How much longer GPU work could take (`dependencies.slack`), by device row, ns; None until it is known."""
    origin: int | None = None
    """The time that is shown as 0, where that is not this recording's own."""
    samples: pl.DataFrame | None = None
    """Samples of the GPUs (`with_curves`): start, duration, name, unit, value; rows are their lanes' events."""

    @property
    def zero(self) -> int:
        """The time that is shown as 0: the start of the recording, or else of the first event."""
        if self.origin is not None:
            return self.origin
        window = self.trace.info.window
        return min(window[0], self.start) if window is not None else self.start

    def owner(self, lane: int) -> tuple[Timeline, Lane]:
        """The timeline of one recording that a lane belongs to, and the lane there."""
        return self, self.lanes[lane]

    def local(self, place: Place) -> tuple[Timeline, Place]:
        """The timeline of one recording that an event belongs to, and its place there."""
        return self, place

    def order(self) -> tuple[int, ...]:
        """The numbers of the lanes from top to bottom: what was added stands where it belongs."""
        numbers = range(len(self.lanes))
        above = [n for n in numbers if self.lanes[n].kind == "steps"] + [
            n for n in numbers if self.lanes[n].kind == "path"
        ]
        rest = [n for n in numbers if n not in above and self.lanes[n].kind != "samples"]
        for number in (n for n in numbers if self.lanes[n].kind == "samples"):
            same = [
                at
                for at, n in enumerate(rest)
                if self.lanes[n].source in _ON_GPU and self.lanes[n].device == self.lanes[number].device
            ]
            rest.insert(same[-1] + 1 if same else 0, number)
        return (*above, *rest)

    def row(self, place: Place) -> Row:
        """The row that an event is in."""
        return self.lanes[place.lane].rows[place.row]

    def event(self, place: Place) -> int:
        """The event's row in the frame of its lane's source."""
        return int(self.row(place).events[place.position])

    def span(self, place: Place) -> tuple[int, int]:
        """When the event begins and ends; an instant lasts 1 ns."""
        row = self.row(place)
        return int(row.start[place.position]), row.end(place.position)

    def record(self, place: Place) -> dict[str, object]:
        """Everything that its frame says about an event."""
        return self.frame(self.lanes[place.lane].source).row(self.event(place), named=True)

    def frame(self, source: str) -> pl.DataFrame:
        """The frame that events of a source are rows of."""
        if source == "idle":
            return self.gaps
        if source in ("path", "samples"):
            beside: pl.DataFrame | None = getattr(self, source)
            assert beside is not None
            return beside
        frame: pl.DataFrame = getattr(self.trace, source)
        return frame

    def name(self, place: Place) -> str:
        """What an event is called."""
        return self.names(self.lanes[place.lane].source, [self.event(place)])[0]

    def names(self, source: str, events: list[int]) -> list[str]:
        """The names of some events; for a gap, its cause."""
        column = "cause" if source == "idle" else "name"
        names = self.frame(source)[column].gather(events).cast(pl.String)
        return [name or "" for name in names]

    def kinds(self, source: str, events: list[int]) -> list[str]:
        """The kind of some events, as `schema.HOST_KINDS` and `schema.DEVICE_KINDS` have them; else the source.

        Of the critical path it is what the path runs through (`critical_path.RESOURCES`).
        """
        if source not in self._kinds:
            return [source] * len(events)
        codes, names = self._kinds[source]
        return [names[code] for code in codes[events].tolist()]

    @cached_property
    def _kinds(self) -> dict[str, tuple[NDArray[np.uint8], tuple[str, ...]]]:
        """The kind of each event as a number, and what the numbers stand for."""
        kinds_of = {"host": schema.HOST_KINDS, "device": schema.DEVICE_KINDS}
        codes = {name: (self.frame(name)["kind"].to_physical().to_numpy(), kinds) for name, kinds in kinds_of.items()}
        if self.path is not None:
            codes["path"] = self.path["resource"].to_physical().to_numpy(), RESOURCES
        return codes

    def thread_calls(self, row: int) -> ThreadCalls:
        """The calls of the thread that made a call, given the call's row."""
        process, thread = self.trace.host.select("process", "thread").row(row)
        if (process, thread) not in self._thread_calls:
            self._thread_calls[process, thread] = calls_of_thread(self.trace.host, row)
        return self._thread_calls[process, thread]

    @cached_property
    def _thread_calls(self) -> dict[tuple[int | None, int | None], ThreadCalls]:
        return {}

    @cached_property
    def modules(self) -> ModuleTree:
        """The module calls of the trace."""
        return module_tree(self.trace)

    # --- from one event to another

    def find(self, source: str, event: int) -> Place | None:
        """The place of an event, given its row in a frame; null where its time is unknown."""
        start = self.frame(source)["start"][event]
        if start is None:
            return None
        for number, lane in enumerate(self.lanes):
            if lane.source == source and lane.kind not in _AGAIN and self._may_hold(lane, event):
                for depth, row in enumerate(lane.rows):
                    if (position := row.position(event, int(start))) != NONE:
                        return Place(number, depth, position)
        return None

    def gap_at(self, device: int | None, start: int, end: int) -> Place | None:
        """The longest gap of a GPU within a stretch of time; None where there is none."""
        for number, lane in enumerate(self.lanes):
            if lane.kind == "idle" and lane.device == device:
                winner = int(lane.rows[0].cells(np.array([start, end], np.int64)).winner[0])
                return Place(number, 0, winner) if winner != NONE else None
        return None

    def _may_hold(self, lane: Lane, event: int) -> bool:
        if lane.source != "host":
            return True
        process, thread = self.trace.host.select("process", "thread").row(event)
        return (process, thread) == (lane.process, lane.thread)

    def launch_of(self, place: Place) -> Place | None:
        """The call that launched a device event; None where it is not known."""
        if self.lanes[place.lane].source != "device":
            return None
        launch = int(self.launches[self.event(place)])
        return self.find("host", launch) if launch != NONE else None

    def behind(self, place: Place) -> Place | None:
        """The event that a piece of the critical path runs through; None where the host recorded none."""
        if self.lanes[place.lane].source != "path" or self.path is None:
            return None
        source, row = self.path.select("frame", "row").row(self.event(place))
        return self.find(source, row) if row is not None else None

    def work_of(self, place: Place) -> Place | None:
        """The first GPU activity that a host event, or anything below it on its thread, launched."""
        lane = self.lanes[place.lane]
        if lane.source != "host":
            return None
        rows = self.rows_launched(place)
        return self.find("device", int(rows[0])) if rows.size else None

    def rows_launched(self, place: Place) -> Ints:
        """Device rows that a host event launched, else those that anything below it on its thread did."""
        lane = self.lanes[place.lane]
        rows: Ints = np.flatnonzero(self.launches == self.event(place))
        return rows if rows.size else self.launched(lane.process, lane.thread, *self.span(place))

    def find_beside(self, place: Place, source: str, event: int) -> Place | None:
        """The place of an event of the same recording as another one, given its row in a frame."""
        return self.find(source, event)

    def launched(self, process: int | None, thread: int | None, start: int, end: int) -> Ints:
        """Device rows launched by a thread in a stretch of time, in the order of the frame."""
        called, rows = self._by_launch
        low, high = np.searchsorted(called, [start, end])
        launched = np.sort(rows[low:high])
        if not launched.size:
            return launched
        calls = self.trace.host.select("process", "thread")[self.launches[launched]]
        same = calls.select(pl.col("process").eq_missing(process) & pl.col("thread").eq_missing(thread)).to_series()
        own: Ints = launched[same.to_numpy()]
        return own

    @cached_property
    def _by_launch(self) -> tuple[Ints, Ints]:
        """When the launching calls began, ascending, and the device rows they launched."""
        rows = np.flatnonzero(self.launches != NONE)
        called = self.trace.host["start"].to_numpy()[self.launches[rows]]
        order = np.argsort(called, kind="stable")
        return called[order], rows[order]

    def same_name(self, place: Place, step: int) -> Place | None:
        """The next (`step` 1) or the previous (-1) event of the same name in the lane; None where there is none."""
        lane = self.lanes[place.lane]
        column = self.frame(lane.source)["cause" if lane.source == "idle" else "name"]
        wanted = column[self.event(place)]
        codes = column.to_physical() if column.dtype != pl.String else column
        code = codes[self.event(place)]
        if wanted is None:
            return None
        here = self.span(place)[0]
        best: tuple[int, int, Place] | None = None
        for depth, row in enumerate(lane.rows):
            for position in _onward(row, place, depth, here, step):
                low, high = position
                part = codes.gather(row.events[low:high])
                hits = (part == code).arg_true()
                if hits.len():
                    at = low + int(hits[0] if step > 0 else hits[-1])
                    order = (int(row.start[at]) * step, depth * step)
                    if best is None or order < best[:2]:
                        best = (*order, Place(place.lane, depth, at))
                    break
        return best[2] if best else None


_AGAIN = ("copies", "collectives")
"""Kinds of lanes whose events have a place in another lane too."""
_ON_GPU = ("idle", "device")
_CHUNK = 1 << 16


def _onward(row: Row, place: Place, depth: int, here: int, step: int) -> Iterator[tuple[int, int]]:
    """Stretches of positions after, or before, an event, the nearest first."""
    if step > 0:
        begin = place.position + 1 if depth == place.row else int(
            np.searchsorted(row.start, here, side="left" if depth > place.row else "right")
        )  # fmt: skip
        for low in range(begin, row.size, _CHUNK):
            yield low, min(low + _CHUNK, row.size)
    else:
        end = place.position if depth == place.row else int(
            np.searchsorted(row.start, here, side="right" if depth < place.row else "left")
        )  # fmt: skip
        for high in range(end, 0, -_CHUNK):
            yield max(high - _CHUNK, 0), high


@latest
def timeline(trace: Trace) -> Timeline | None:
    """The lanes of a whole trace; None where nothing in it has a place in time. The last one is remembered."""
    return build(trace)


def build(trace: Trace) -> Timeline | None:
    """Does the same anew."""
    idle = gaps(select(trace))
    idle = idle.filter(pl.col("stream").is_null()).drop("stream").with_columns(
        pl.col("duration_ns").alias("duration"), pl.col("cause").cast(pl.String)
    )  # fmt: skip
    made = lanes(trace, idle, graph_numbers(trace, trace.device))
    if not made:
        return None
    start = min(int(row.start[0]) for lane in made for row in lane.rows)
    end = max(_last(row) for lane in made for row in lane.rows)
    return Timeline(trace, made, start, end, idle, row_ids(trace.device["launch"]))


def with_path(shown: Timeline, path: pl.DataFrame, slack: Mapping[int, int]) -> Timeline:
    """The timeline with the critical path as its last lane; the places of other events stay.

    Args:
        shown: the timeline.
        path: as of `dependencies.path_lane`.
        slack: as of `dependencies.slack`.
    """
    start = path["start"].to_numpy()
    events = np.arange(path.height, dtype=np.uint32)
    rows, _ = rows_of(events, start, start + path["duration"].to_numpy())
    added = (Lane("path", "path", tuple(rows), usual="kernel"),) if path.height else ()
    return replace(shown, lanes=(*shown.lanes, *added), path=path, slack=slack)


def _last(row: Row) -> int:
    return int(row.reach[-1]) if row.reach is not None else row.end(row.size - 1)


def with_curves(shown: Timeline, curves: Sequence[Curve]) -> Timeline:
    """The timeline with a lane of curves for each GPU behind its other lanes; the places of other events stay.

    Args:
        shown: the timeline.
        curves: in the order of their rows; those of fewer than two samples are left out.
    """
    kept = [curve for curve in curves if curve.time.size > 1]
    frames, lanes, first = [], list(shown.lanes), 0
    for device in dict.fromkeys(curve.device for curve in kept):
        own = [curve for curve in kept if curve.device == device]
        rows = []
        for curve in own:
            begun, count = curve.time[:-1], curve.time.size - 1
            rows.append(Row.of(np.arange(first, first + count, dtype=np.uint32), begun, curve.time[1:]))
            frames.append(
                pl.DataFrame({"start": begun, "duration": np.diff(curve.time), "value": curve.value[1:]}).with_columns(
                    name=pl.lit(curve.name, pl.Categorical), unit=pl.lit(curve.unit, pl.Categorical)
                )
            )
            first += count
        lanes.append(Lane("samples", "samples", tuple(rows), device, curves=tuple(own)))
    if not frames:
        return shown
    start = min([shown.start, *(int(curve.time[0]) for curve in kept)])
    end = max([shown.end, *(int(curve.time[-1]) for curve in kept)])
    return replace(shown, lanes=tuple(lanes), samples=pl.concat(frames), start=start, end=end)


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
        return sum(positions.size for _, _, positions in self.rows)

    def index(self, place: Place) -> int | None:
        """Which of the hits an event is, counted from 0; None where it is none."""
        start = int(self.timeline.row(place).start[place.position])
        before, is_hit = 0, False
        for lane, depth, positions in self.rows:
            here = (lane, depth) == (place.lane, place.row)
            row = self.timeline.lanes[lane].rows[depth]
            # of those that begin at the same time, rows above come first
            above = (lane, depth) < (place.lane, place.row)
            later = int(np.searchsorted(row.start, start, side="right" if above else "left"))
            position = place.position if here else later
            at = int(np.searchsorted(positions, position))
            before += at
            is_hit = is_hit or (here and at < positions.size and int(positions[at]) == place.position)
        return before if is_hit else None

    def next(self, time: int, after: Place | None, step: int = 1) -> Place | None:
        """The next hit (`step` 1) or the one before (-1); from the last one to the first, and back.

        Args:
            time: from which on, ns on the trace's clock, where no event is selected.
            after: the event that is left; None for none, and then a hit that begins at the time counts.
            step: 1 or -1.
        """
        if after is not None:
            time = int(self.timeline.row(after).start[after.position])
        best: tuple[bool, int, int, int] | None = None
        place: Place | None = None
        for lane, depth, positions in self.rows:
            row = self.timeline.lanes[lane].rows[depth]
            if after is None:
                low = int(np.searchsorted(row.start, time, side="left"))
            elif (lane, depth) == (after.lane, after.row):
                low = after.position + (step > 0)
            else:
                later = (lane, depth) > (after.lane, after.row)
                low = int(np.searchsorted(row.start, time, side="left" if later else "right"))
            at = int(np.searchsorted(positions, low)) - (step < 0)
            wraps = not 0 <= at < positions.size
            position = int(positions[(0 if step > 0 else -1) if wraps else at])
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
        if (names_of := (id(owner), lane.source)) not in hits_of:
            hits_of[names_of] = matching(owner.frame(lane.source)["name"], lambda name: wanted in name.lower())
        for depth, row in enumerate(lane.rows):
            positions = np.flatnonzero(hits_of[names_of][row.events]).astype(np.uint32)
            if positions.size:
                rows.append((number, depth, positions))
    return Hits(timeline, part, tuple(rows))
