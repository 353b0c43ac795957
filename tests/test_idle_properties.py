"""Idle time and its causes beside a walk over every stretch between two moments at which anything changes."""

from dataclasses import dataclass
from itertools import pairwise

import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_frames import made_trace

from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.idle import CAUSES, GAPS, IDLE, gaps, gaps_of, shares
from tracetui.analysis.selection import select
from tracetui.parsers import Trace

LIMIT = 30_000
"""A gap this long is no start-up time of the GPU any more, ns."""
WORK = ("kernel", "memcpy", "memset", "graph")
# few different times, a tick around each of them, so that edges often meet and gaps often last about `LIMIT`
TIMES = st.sampled_from([10_000 * step + off for step in range(10) for off in (0, 0, 0, -1, 1)])
LASTING = st.sampled_from([0, 0, 1, 10_000, 10_000, 29_999, 30_000, 30_001, 50_000, 90_000])


@dataclass(frozen=True)
class Activity:
    kind: str
    device: int | None
    stream: int | None
    start: int
    duration: int
    launch: int | None
    """Row of the call that launched it."""

    @property
    def end(self) -> int:
        return self.start + self.duration


@dataclass(frozen=True)
class Recording:
    calls: list[int]
    """When each began."""
    work: list[Activity]
    """In order of start."""

    def called(self, activity: Activity) -> int | None:
        return None if activity.launch is None else self.calls[activity.launch]

    def trace(self, steps: list[tuple[int, int]] | None = None) -> Trace:
        marks = [
            {"index": n, "name": f"ProfilerStep#{n}", "start": start, "duration": end - start}
            for n, (start, end) in enumerate(steps or [])
        ]
        host = [{"kind": "runtime", "name": "launch", "start": start, "duration": 1} for start in self.calls]
        fields = ("kind", "device", "stream", "start", "duration", "launch")
        device = [{"name": "work"} | {name: getattr(activity, name) for name in fields} for activity in self.work]
        return made_trace(steps=marks, host=host, device=device)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    calls = draw(st.lists(TIMES, max_size=6))
    launches = st.sampled_from([None, *range(len(calls))])
    work = draw(
        st.lists(
            st.builds(
                Activity,
                kind=st.sampled_from((*WORK, "kernel", "kernel", "synchronization", "annotation")),
                device=st.sampled_from((0, 0, 0, 1, None)),
                stream=st.sampled_from((7, 7, 0, 20, -1, None)),
                start=TIMES,
                duration=LASTING,
                launch=launches,
            ),
            max_size=8,
        )
    )
    return Recording(calls, sorted(work, key=lambda activity: activity.start))


WINDOWS = st.tuples(TIMES, TIMES).map(lambda edges: (min(edges), max(edges)))


def lanes(work: list[Activity]) -> list[tuple[int | None, list[tuple[int | None, list[Activity]]]]]:
    """Each device, unknown first, with its streams, unknown first (a negative number is none), and their work."""

    def number(value: int | None) -> int:
        return -1 if value is None or value < 0 else value

    found = []
    for device in sorted({number(a.device) for a in work}):
        on = [a for a in work if number(a.device) == device]
        streams = [
            (None if stream < 0 else stream, [a for a in on if number(a.stream) == stream])
            for stream in sorted({number(a.stream) for a in on})
        ]
        found.append((None if device < 0 else device, [(None, on), *streams]))
    return found


def plain_idle(recording: Recording, work: list[Activity], window: tuple[int, int]) -> list[tuple[int, int, str]]:
    """Start, length and cause of every stretch of the window in which nothing of the work runs."""
    lasting = [activity for activity in work if activity.duration]
    inside = {t for a in lasting for t in (a.start, a.end) if window[0] < t < window[1]}
    found = []
    for begin, end in pairwise(sorted({*window, *inside})):
        if any(a.start <= begin and a.end >= end for a in lasting):
            continue
        following = next((a for a in lasting if a.start >= end), None)
        called = None if following is None else recording.called(following)
        if following is None or (called is not None and called > begin):
            cause = "host_wait"
        elif called is not None and end - begin < LIMIT:
            cause = "kernel_wait"
        else:
            cause = "other"
        found.append((begin, end - begin, cause))
    return found


def plain_gaps(recording: Recording, window: tuple[int, int]) -> list[tuple[int | None, int | None, int, int, str]]:
    """Gaps of every device, then of each of its streams that has a number."""
    work = [activity for activity in recording.work if activity.kind in WORK]
    return [
        (device, stream, *gap)
        for device, (whole, *streams) in lanes(work)
        for stream, own in (whole, *(lane for lane in streams if lane[0] is not None))
        for gap in plain_idle(recording, own, window)
    ]


def plain_shares(found: list[tuple[int | None, int | None, int, int, str]]) -> list[tuple[object, ...]]:
    """Per device and stream: the sum of its gaps, and how many percent of it each cause has."""
    rows = []
    for lane in sorted({row[:2] for row in found}, key=lambda lane: [-1 if part is None else part for part in lane]):
        own = [row for row in found if row[:2] == lane]
        total = sum(row[3] for row in own)
        parts = [sum(row[3] for row in own if row[4] == cause) for cause in ("host_wait", "kernel_wait", "other")]
        rows.append((*lane, total, *(None if total == 0 else 100 * part / total for part in parts)))
    return rows


@given(recordings(), WINDOWS)
@example(Recording([0], [Activity("kernel", 0, 7, 10, 90, 0), Activity("kernel", 0, 7, 20, 5, 0)]), (0, 120))
def test_gaps_in_a_window(recording: Recording, window: tuple[int, int]) -> None:
    trace = recording.trace()
    found = gaps_of(trace, activities(select(trace)), window)
    assert dict(found.schema) == dict(pl.DataFrame(schema=GAPS).schema)
    expected = plain_gaps(recording, window)
    assert found.rows() == expected
    told = shares(found)
    assert dict(told.schema) == IDLE
    assert told.rows() == shares(found.reverse()).rows() == plain_shares(expected)


@given(recordings(), st.lists(TIMES.filter(lambda time: time >= 0), max_size=6, unique=True))
def test_gaps_lie_between_the_first_steps_start_and_the_last_ones_end(recording: Recording, edges: list[int]) -> None:
    """Without steps: between the first work's start and the last one's end; without work there is no gap."""
    ordered = sorted(edges)
    steps = list(zip(ordered[::2], ordered[1::2], strict=False))
    trace = recording.trace(steps)
    spans = [(a.start, a.end) for a in recording.work if a.kind in WORK]
    low, high = min((start for start, _ in spans), default=0), max((end for _, end in spans), default=0)
    if low == high:  # without work that lasts, all that was recorded, annotations of the profiler on the device too
        spans = [(a.start, a.end) for a in recording.work] + [(start, start + 1) for start in recording.calls]
        low, high = min((start for start, _ in spans), default=0), max((end for _, end in spans), default=0)
    expected = []
    if steps or spans:
        expected = plain_gaps(recording, (steps[0][0], steps[-1][1]) if steps else (low, high))
    assert gaps(select(trace)).rows() == expected
    assert shares(gaps(select(trace))).rows() == plain_shares(expected)


@settings(max_examples=20)
@given(recordings())
def test_without_a_window_nothing_is_known(recording: Recording) -> None:
    trace = recording.trace()
    found = gaps_of(trace, activities(select(trace)), None)
    assert found.is_empty()
    assert dict(found.schema) == dict(pl.DataFrame(schema=GAPS).schema)


def test_the_causes_are_those_of_the_frame() -> None:
    assert CAUSES == ("host_wait", "kernel_wait", "other")
