"""Finds which row belongs to which: threads, launches, operators, modules, backward to forward.

It works on nested host events (see `nesting`); all arguments and results are row numbers, with -1 for none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.parsers import categories, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import NONE, LaneClock
from tracetui.parsers.tally import Tally

Columns = dict[str, NDArray[Any]]


QUEUED = "launch of GPU work that was queued before the recording began"
"""The note about the rows that `queued_before` finds."""
_WORK = [schema.DEVICE_KINDS.index(kind) for kind in ("kernel", "memcpy", "memset", "graph")]


OTHER_CLOCK = "GPU activity on another clock than the host's, moved so that none begins before its launch"
"""The note about the rows that `to_one_clock` moves."""
QUEUED_NS = 10_000_000_000
"""No work waits so long in a stream's queue of a thousand launches."""


def to_one_clock(device: Columns, calls: Columns, tally: Tally) -> None:
    """Moves activities whose clock has another zero than the host's; each has ``start``, ``duration``, ``correlation``.

    Only where no doubt is possible: none of the activities begins while the host is recorded, and each one that names
    its launch begins before it, or later than any queue holds work back. The launch that was served soonest joins the
    clocks, so that times are early by its latency at most.
    """
    start, called = device["start"], calls["start"]
    if not start.size or not called.size:
        return
    begin, end = int(called.min()), int((called + np.maximum(calls["duration"], 0)).max())
    away = (start < begin) | (start > end)
    work = np.isin(device["kind"], _WORK)
    if not work.any() or not away[work].all():
        return
    null = np.iinfo(calls["correlation"].dtype)
    ids, first, count = np.unique(calls["correlation"], return_index=True, return_counts=True)
    known = (count == 1) & (ids != (null.max if null.min == 0 else null.min))
    at = lookup(ids[known].astype(np.int64), device["correlation"][work].astype(np.int64))
    delay = start[work][at >= 0] - called[first[known][at[at >= 0]]]
    if delay.size and (delay.max() < 0 or delay.min() > max(end - begin, QUEUED_NS)):
        device["start"] = np.where(away, start - delay.min(), start)
        tally.repaired(OTHER_CLOCK, int(away.sum()), f"{delay.min() / 1e9:+,.3f} s")


def lookup(keys: Ints, wanted: Ints) -> Ints:
    """The position of the first of `keys` that equals each wanted value, or -1."""
    if not keys.size:
        return np.full(wanted.shape, NONE, np.int64)
    by_key = np.argsort(keys, kind="stable")
    ordered = keys[by_key]
    at = np.minimum(np.searchsorted(ordered, wanted), keys.size - 1)
    return np.where(ordered[at] == wanted, by_key[at], NONE)


def held_by(start: Ints, end: Ints, when: Ints) -> Ints:
    """The stretch that holds each time, or -1; the stretches are in order, and their ends are outside of them."""
    at = np.searchsorted(start, when, side="right") - 1
    if start.size:
        at[when >= end[at]] = NONE
    return at


def queued_before(launch: Ints, kind: Ints, device: Ints, stream: Ints) -> Bools:
    """Activities that were launched before the recording began, as work of the profiler's warm-up step often was.

    A stream runs its work in the order of the launches: an activity without a launch that ran before the first one with
    a known launch was queued before it. Streams without any known launch are left out, and so are streams that lack
    launches later too.

    Args:
        launch: the launching call of each activity, in order of start.
        kind: the kind of each, as its place in `schema.DEVICE_KINDS`; only work that a call launches counts.
        device: the GPU of each.
        stream: the stream of each.
    """
    is_work = np.isin(kind, _WORK)
    queued: Bools = is_work & (launch < 0)
    known = np.flatnonzero(is_work & ~queued)
    if not queued.any():
        return queued
    lane = (device.astype(np.int64) << 32) | (stream.astype(np.int64) & 0xFFFFFFFF)
    lanes, at = np.unique(lane[known], return_index=True)
    found = np.minimum(np.searchsorted(lanes, lane[queued]), max(lanes.size - 1, 0))
    lost = np.flatnonzero(queued)
    if not lanes.size:
        return queued & False
    late = (lanes[found] != lane[lost]) | (lost > known[at][found])
    queued[lost] = ~np.isin(lane[lost], lane[lost[late]])
    return queued


def external_ids_usable(correlation: Ints, external_id: Ints, null: int) -> bool:
    """Whether `External id` names an operator.

    From about August 2022 to February 2024 Kineto wrote the correlation id there (fixed by pytorch/kineto#873).
    """
    known = (external_id != null) & (correlation != null)
    return bool(known.any()) and float(np.mean(external_id[known] == correlation[known])) < 0.5


def runtime_thread_map(
    api_lane: Ints, api_external: Ints, operator_lane: Ints, operator_external: Ints, null: int
) -> dict[int, int]:
    """Finds lanes of API calls that are really the same thread as another lane of operators.

    Kineto gives some threads (mostly autograd's) one number for operators and another for API calls. A lane with API
    calls and no operators is matched to the lane whose operators most of its calls name by `External id`.
    """
    with_operators = np.unique(operator_lane)
    stray = ~np.isin(api_lane, with_operators) & (api_external != null)
    if not stray.any():
        return {}
    operator = lookup(operator_external, api_external[stray])
    found = operator >= 0
    source, target = api_lane[stray][found], operator_lane[operator[found]]
    lanes: dict[int, int] = {}
    for lane in np.unique(source).tolist():
        votes, counts = np.unique(target[source == lane], return_counts=True)
        best = int(counts.argmax())
        if counts[best] * 2 > counts.sum():
            lanes[lane] = int(votes[best])
    return lanes


_LAUNCH = r"(?i)^(?:(cuda|cu|hip|mu|xpu)\w*(Launch|Memcpy|Memset)|zeCommandListAppend|urEnqueue)"


def launches(names: NDArray[np.uint32]) -> Bools:
    """Which API calls put work on a device: kernel and graph launches, copies, fills."""
    return categories.matching(names, _LAUNCH)


AGAIN = "GPU activity whose correlation id several launches have, taken for the one that its place in time fits"
"""The note about the rows that `match_launches` tells apart by time."""


def match_launches(device: Columns, calls: Columns, rows: Ints, is_launch: Bools, null: int, tally: Tally) -> Ints:
    """The host row of the API call that started each device activity; each has ``start`` and ``correlation``.

    Several calls may have the same correlation id (a launch and a query inside it); those that launch have priority.
    Where launches one after the other have it, the activities are theirs in order of time, or where they are not as
    many, those of the last launch before each.

    Args:
        device: the activities.
        calls: columns of the host, with ``duration``.
        rows: the API calls among them that have an id.
        is_launch: which of these calls launch something.
        null: what stands for no id.
        tally: counts what is told apart by time.
    """
    ids, wanted = calls["correlation"][rows].astype(np.int64), device["correlation"].astype(np.int64)
    first = np.argsort(~is_launch, kind="stable")
    at = lookup(ids[first], wanted)
    launch = np.where(at >= 0, rows[first][at] if first.size else NONE, NONE)
    launch[wanted == null] = NONE
    launching = rows[is_launch]
    several, lane = np.unique(ids[is_launch], return_inverse=True)
    many = np.bincount(lane, minlength=several.size) > 1
    if not many.any():
        return launch
    launching, lane = launching[many[lane]], lane[many[lane]]
    start, end = calls["start"][launching], calls["start"][launching] + np.maximum(calls["duration"][launching], 1)
    mine = np.flatnonzero(np.isin(wanted, several[many]) & (wanted != null))
    of, begins = np.searchsorted(several, wanted[mine]), device["start"][mine]
    clock = LaneClock(several.size, start, end, begins)
    by_time = np.lexsort((start, lane))
    launching, lane, start, end = launching[by_time], lane[by_time], start[by_time], end[by_time]
    reached = np.maximum.accumulate(clock.key(lane, end))
    apart = np.append(True, clock.key(lane, start)[1:] >= reached[:-1])  # else it lies inside another of its id
    launching, lane, start = launching[apart], lane[apart], start[apart]
    calls_of, work_of = (np.bincount(each, minlength=several.size) for each in (lane, of))
    order = np.lexsort((begins, of))
    order = order[calls_of[of[order]] > 1]
    mine, of, begins = mine[order], of[order], begins[order]
    begun = clock.last_begun(clock.key(lane, start), of, begins)
    in_turn = np.searchsorted(lane, of) + np.arange(of.size) - np.searchsorted(of, of)
    place = np.where(calls_of[of] == work_of[of], in_turn, np.where(begun >= 0, begun, np.searchsorted(lane, of)))
    launch[mine] = launching[place]
    tally.repaired(AGAIN, mine.size, str(wanted[mine[0]]) if mine.size else "")
    return launch
