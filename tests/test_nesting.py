"""Parents and cut ends beside a plain stack and searches through all events, one event at a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tracetui.parsers import nesting
from tracetui.parsers.nesting import LaneClock, enclosing, latest_open, nearest, nest, order, with_ancestors

if TYPE_CHECKING:
    from tracetui.parsers.nesting import Ints, Nesting


LANES = 3
FAR = 2**61
"""Times so far apart that a lane and a time do not fit one whole number side by side."""


@dataclass(frozen=True)
class Event:
    lane: int
    start: int
    duration: int

    @property
    def end(self) -> int:
        return self.start + self.duration


@st.composite
def some_events(draw: st.DrawFn) -> list[Event]:
    """Events anyhow; in half of the cases some of them lie very far out, as in damaged files."""
    far = draw(st.booleans())
    shifts = st.sampled_from((0, 0, FAR, -FAR)) if far else st.just(0)
    begins = st.integers(-3, 12)
    parts = st.tuples(st.integers(0, LANES - 1), begins, st.integers(0, 12), shifts)
    return [Event(lane, start + shift, duration) for lane, start, duration, shift in draw(st.lists(parts, max_size=14))]


EVENTS = some_events()
ORDERED = EVENTS.map(lambda events: [events[row] for row in plain_order(events)])
LOOKS = st.lists(
    st.tuples(st.integers(-1, LANES - 1), st.one_of(st.integers(-6, 28), st.sampled_from((FAR + 3, -FAR, 3 - FAR)))),
    max_size=12,
)
"""Places to look at: a lane, or none, and a time."""


def arrays(events: list[Event]) -> tuple[Ints, Ints, Ints, LaneClock]:
    lane, start, duration = (
        np.array([getattr(event, name) for event in events], np.int64) for name in ("lane", "start", "duration")
    )
    return lane, start, duration, LaneClock(LANES, start, start + duration)


def plain_order(events: list[Event]) -> list[int]:
    """By lane, start, then the longer first; equal ones as they stood."""
    return sorted(range(len(events)), key=lambda row: (events[row].lane, events[row].start, -events[row].duration, row))


def plain_nesting(events: list[Event]) -> tuple[list[int], list[int]]:
    """The parent of each event is the last one before it that is under way at its start; it ends no later than that."""
    parents: list[int] = []
    ends: list[int] = []
    for row, event in enumerate(events):
        under_way = [at for at in range(row) if events[at].lane == event.lane and ends[at] > event.start]
        parents.append(max(under_way, default=-1))
        ends.append(min([event.end, *(ends[at] for at in under_way[-1:])]))
    return parents, ends


def plain_enclosing(events: list[Event]) -> list[int]:
    """For each event the last one before it that holds all of it."""
    return [
        max((at for at in range(row) if events[at].lane == event.lane and events[at].end >= event.end), default=-1)
        for row, event in enumerate(events)
    ]


def ancestors(parents: list[int], row: int) -> list[int]:
    """The row, its parent, its parent's parent, …"""
    found = []
    while row >= 0:
        found.append(row)
        row = parents[row]
    return found


def holds_looks(tree: Nesting, events: list[Event], ends: list[int], looks: list[tuple[int, int]]) -> None:
    """The innermost event at a time is the last begun of those under way then."""
    lane, time = (np.array([look[at] for look in looks], np.int64) for at in (0, 1))
    given_time = time.tolist()
    expected = [
        max((r for r, e in enumerate(events) if e.lane == at and e.start <= when < ends[r]), default=-1)
        for at, when in looks
    ]
    for high in (nesting._HIGH, 0, 1):  # climbed row by row, and in leaps
        with patch.object(nesting, "_HIGH", high):
            assert tree.innermost_at(lane, time).tolist() == expected
    assert time.tolist() == given_time


@given(EVENTS, LOOKS)
def test_keys_order_like_lanes_and_times(events: list[Event], looks: list[tuple[int, int]]) -> None:
    clock = arrays(events)[-1]
    known = {(event.lane, when) for event in events for when in (event.start, event.end)}
    asked = sorted({*known, *((at, when) for at, when in looks if at >= 0)})
    lanes, times = (np.array([pair[at] for pair in asked], np.int64) for at in (0, 1))
    keys = clock.key(lanes, times).tolist()
    floors, ceilings = clock.floor(lanes).tolist(), clock.floor(lanes + 1).tolist()
    assert keys == sorted(keys)
    assert all(floor <= key < ceiling for floor, key, ceiling in zip(floors, keys, ceilings, strict=True))
    exact = [key for key, pair in zip(keys, asked, strict=True) if pair in known]
    assert len(set(exact)) == len(exact)
    if events:
        earliest = min(event.start for event in events)
        first = clock.key(lanes, np.full(lanes.size, earliest)).tolist()
        assert all(key < low for key, low, (_, when) in zip(keys, first, asked, strict=True) if when < earliest)


@given(st.integers(-20, 20), st.integers(0, 12), st.integers(1, LANES))
def test_times_outside_the_known_ones_move_no_known_one(first: int, length: int, lanes: int) -> None:
    """Asked for in one go with times before and after, the known times of a lane still have a key each, in order."""
    known = np.arange(first, first + length + 1)
    clock = LaneClock(lanes, known)
    for lane in range(lanes):
        keys = clock.key(np.full(length + 9, lane), np.arange(first - 4, first + length + 5)).tolist()
        inside = keys[4 : length + 5]
        assert inside == sorted(set(inside))
        assert max(keys[:4]) < inside[0]
        assert inside[-1] <= min(keys[length + 5 :])
        assert clock.floor(np.array([lane]))[0] <= keys[0]
        assert keys[-1] < clock.floor(np.array([lane + 1]))[0]


@example([-(2**62), 2**62], 1)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=6), st.sampled_from((1, 2, 1000)))
def test_no_span_of_time_is_too_long(times: list[int], lanes: int) -> None:
    clock = LaneClock(lanes, np.array(times, np.int64))
    asked = sorted(set(times))
    lane = np.array(sorted({0, lanes - 1}), np.int64)
    keys = clock.key(lane.repeat(len(asked)), np.array(asked * lane.size, np.int64)).tolist()
    assert keys == sorted(set(keys))


@given(EVENTS)
def test_order_is_by_lane_start_and_the_longer_first(events: list[Event]) -> None:
    assert order(*arrays(events)).tolist() == plain_order(events)


@given(ORDERED, LOOKS)
def test_parents_ends_and_depths(events: list[Event], looks: list[tuple[int, int]]) -> None:
    lane, start, duration, clock = arrays(events)
    tree = nest(lane, start, duration, clock)
    parents, ends = plain_nesting(events)
    assert tree.parent.tolist() == parents
    assert tree.end.tolist() == ends
    assert tree.depth.tolist() == [len(ancestors(parents, row)) - 1 for row in range(len(events))]
    assert tree.cut.tolist() == [row for row, event in enumerate(events) if ends[row] < event.end]
    assert tree.key.tolist() == clock.key(lane, start).tolist()
    holds_looks(tree, events, ends, looks)


@given(ORDERED, LOOKS)
def test_the_last_begun_that_holds_all_of_an_event(events: list[Event], looks: list[tuple[int, int]]) -> None:
    lane, start, duration, clock = arrays(events)
    tree = enclosing(lane, start, start + duration, clock)
    parents = plain_enclosing(events)
    assert tree.parent.tolist() == parents
    assert tree.end.tolist() == [event.end for event in events]
    assert tree.depth.tolist() == [len(ancestors(parents, row)) - 1 for row in range(len(events))]
    assert tree.cut.tolist() == []
    holds_looks(tree, events, [event.end for event in events], looks)
    asked = np.array(looks, np.int64).reshape(-1, 2)
    turned = latest_open(lane[::-1], start[::-1], duration[::-1], *asked.T)
    found = tree.innermost_at(*asked.T).tolist()
    assert [(events[::-1][row] if row >= 0 else None) for row in turned.tolist()] == [
        (events[row] if row >= 0 else None) for row in found
    ]


@given(ORDERED, st.data())
def test_nearest_is_the_first_wanted_ancestor(events: list[Event], data: st.DataObject) -> None:
    parents, _ = plain_nesting(events)
    wanted = data.draw(st.lists(st.booleans(), min_size=len(events), max_size=len(events)))
    rows = data.draw(st.lists(st.integers(-1, len(events) - 1), max_size=12))
    given_rows = np.array(rows, np.int64)
    found = nearest(np.array(parents, np.int64), np.array(wanted, np.bool_), given_rows)
    assert found.tolist() == [next((at for at in ancestors(parents, row) if wanted[at]), -1) for row in rows]
    assert given_rows.tolist() == rows
    above = {at for row in np.flatnonzero(wanted).tolist() for at in ancestors(parents, row)}
    assert set(np.flatnonzero(with_ancestors(np.array(parents, np.int64), np.array(wanted, np.bool_)))) == above


def test_ancestors_far_above_are_found_in_linear_time() -> None:
    size = 200_000
    chain = np.arange(-1, size - 1)
    rows, nothing = np.arange(0, size, 10), np.zeros(size, np.int64)
    begun = time.process_time()
    assert (nearest(chain, chain < 0, rows) == 0).all()
    assert with_ancestors(chain, chain == size - 2).all()
    # each ends one earlier than what is around it, and all but the outermost before the time that is asked
    durations = np.append(3 * size, np.arange(2 * size - 3, size - 2, -1)) - np.arange(size)
    assert (latest_open(nothing, np.arange(size), durations, nothing, nothing + 2 * size) == 0).all()
    assert time.process_time() - begun < 2


def test_hundreds_of_events() -> None:
    for seed in range(10):
        random = np.random.default_rng(seed)
        size, span = int(random.integers(1, 300)), int(random.choice([10, 100, 10**6]))
        starts, durations = random.integers(-span, span, size), random.integers(0, max(span // 5, 2), size)
        rows = map(Event, random.integers(0, LANES, size).tolist(), starts.tolist(), durations.tolist())
        events = sorted(rows, key=lambda event: (event.lane, event.start, -event.duration))
        lane, start, duration, clock = arrays(events)
        parents, ends = plain_nesting(events)
        tree = nest(lane, start, duration, clock)
        assert (tree.parent.tolist(), tree.end.tolist()) == (parents, ends), seed
        assert enclosing(lane, start, start + duration, clock).parent.tolist() == plain_enclosing(events), seed


def test_a_very_deep_tree_has_no_negative_depth() -> None:
    size = 40_000  # deeper than the host frame counts
    start = np.arange(size)
    duration = 2 * (size - start)
    lane = np.zeros(size, np.int64)
    clock = LaneClock(1, start, start + duration)
    for tree in (nest(lane, start, duration, clock), enclosing(lane, start, start + duration, clock)):
        assert tree.parent.tolist() == list(range(-1, size - 1))
        assert tree.depth.tolist() == [min(row, np.iinfo(np.int16).max) for row in range(size)]
