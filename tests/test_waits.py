"""What calls and streams wait for, which decides the verdict: against plain rules, and both sides of each constant."""

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_frames import made_trace

from tracetui.analysis.dependencies import waits
from tracetui.analysis.dependencies.waits import FREE, FULL, LOST, NONE, WAIT, Work
from tracetui.analysis.selection import select

# of each call: whether it waits by its name, copies or fills, waits for the whole device
CALLS = {
    "cudaLaunchKernel": (False, False, False),
    "cudaMalloc": (False, False, False),
    "cudaStreamSynchronize": (True, False, False),
    "cudaEventSynchronize_v3020": (True, False, False),
    "cudaDeviceSynchronize": (True, False, True),
    "cudaFree": (True, False, True),
    "cudaMemcpy": (True, True, False),
    "cudaMemcpyAsync": (False, True, False),
    "cudaMemset": (False, True, False),
    "cudaStreamWaitEvent": (False, False, False),
}
LONG, SLACK, CLOSE, USUAL_RETURN, DEPTH = 100_000, 1_000, 5_000, 4_000, 256
STEPS = (
    0,
    1,
    300,
    SLACK - 1,
    SLACK,
    SLACK + 1,
    CLOSE - 1,
    CLOSE,
    CLOSE + 1,
    9 * CLOSE,
    99_999,
    LONG,
    LONG + 1,
    2 * LONG,
)
SMALL = tuple(range(6))


@dataclass
class Item:
    """One piece of GPU work."""

    call: int
    start: int
    end: int
    stream: int = 0


@dataclass
class Recording:
    """Calls in order of their start, and GPU work in order of its launch."""

    names: list[str] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    work: list[Item] = field(default_factory=list)
    told: dict[int, int] = field(default_factory=dict)
    """The stream of an event of synchronisation, by call."""

    def call(self, name: str, start: int, end: int, *work: Item, thread: int = 0, stream: int | None = None) -> None:
        position = len(self.names)
        if stream is not None:
            self.told[position] = stream
        for values, value in ((self.names, name), (self.start, start), (self.end, end), (self.thread, thread)):
            values.append(value)
        for item in work:
            item.call = position
            self.work.append(item)

    def frames(self):
        host = [{"kind": "runtime", "name": name, "correlation": row} for row, name in enumerate(self.names)]
        number = 0 if len(self.names) % 2 else None  # a recording may not say the device
        device = [{"kind": "kernel", "device": number, "stream": item.stream} for item in self.work]
        for call, stream in self.told.items():
            device.append({"kind": "synchronization", "device": number, "stream": stream, "correlation": call})
        lasting = {"name": "any", "start": 0, "duration": 0, "process": 1, "thread": 1}
        return select(made_trace(host=[lasting | row for row in host], device=[lasting | row for row in device]))

    def arrays(self):
        return (np.array(values, np.int64) for values in (self.start, self.end, self.thread))

    def as_work(self) -> Work:
        columns = (np.array([getattr(item, name) for item in self.work], np.int64) for name in ("start", "end", "call"))
        start, end, call = columns
        queued = np.array([_queued(self.work, place) for place in range(start.size)], np.int64)
        nothing = np.full(start.size, NONE)
        stream = np.array([item.stream for item in self.work], np.int64)
        return Work(np.arange(start.size), start, end, call, queued, nothing, nothing, stream)

    def first(self) -> np.ndarray:
        return np.searchsorted([item.call for item in self.work], np.arange(len(self.names) + 1))

    def waiting(self):
        start, end, thread = self.arrays()
        kind, begin, waited, back, own = waits.waiting_calls(
            self.frames(), np.arange(start.size), pl.Series(self.names, dtype=pl.Categorical), start, end, thread,
            self.as_work(), self.first(),
        )  # fmt: skip
        slices = [waited[low:high].tolist() for low, high in pairwise(begin.tolist())]
        return kind.tolist(), slices, back, own.tolist()

    def streams(self):
        start, _, thread = self.arrays()
        after, unknown = waits.stream_waits(pl.Series(self.names), start, thread, self.as_work())
        return after.tolist(), unknown


def _queued(work: list[Item], place: int) -> int:
    """What ran before this on its stream, unless it was launched later."""
    key = [(item.stream, item.start, item.end, at) for at, item in enumerate(work)]
    before = [one for one in key if one[0] == work[place].stream and one < key[place]]
    return max(before)[3] if before and max(before)[3] < place else NONE


@st.composite
def recordings(draw: st.DrawFn, steps: tuple[int, ...] = STEPS) -> Recording:
    """Any calls of up to three threads, and work of up to three streams that any of them launched, on any clock."""
    size = draw(st.integers(1, 12))
    step = st.sampled_from(steps)
    made, now = Recording(), 10 * LONG
    starts = []
    for _ in range(size):
        now += draw(step)
        starts.append((now, -(now + draw(step))))
    streams = draw(st.integers(1, 3))
    work = []
    for call in range(-draw(st.integers(0, 2)), size):
        for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
            begun = starts[max(call, 0)][0] + draw(step) - draw(st.sampled_from((0, 0, 1, LONG)))
            work.append(Item(max(call, NONE), begun, begun + draw(step), draw(st.integers(0, streams - 1))))
    work.sort(key=lambda item: (item.call, item.start))
    for start, end in sorted(starts):
        made.call(draw(st.sampled_from(tuple(CALLS))), start, -end, thread=draw(st.integers(0, 2)))
    made.work = work
    for call in draw(st.sets(st.integers(0, size - 1), max_size=2)):
        made.told[call] = draw(st.integers(0, streams - 1))
    return made


def plain_order(made: Recording) -> tuple[list[int], list[int], list[int]]:
    """Program order, by what `program_order` says of it."""
    before, stretch, own = [], [], []
    for call, (start, thread) in enumerate(zip(made.start, made.thread, strict=True)):
        mine = max((other for other in range(call) if made.thread[other] == thread), default=NONE)
        ended = [other for other, end in enumerate(made.end) if end <= start]
        latest = max(ended, key=lambda other: (made.end[other], other), default=NONE)
        if latest >= call:
            latest = mine
        since = [other for other in ended if mine == NONE or made.end[other] > made.end[mine]]
        handed = mine == NONE or (len(since) >= 3 and made.thread[latest] != thread)
        before.append(latest if handed else mine)
        stretch.append(max(start - made.end[before[-1]], 0) if before[-1] != NONE else 0)
        own.append(mine if handed and latest != mine else NONE)
    return before, stretch, own


def plain_waits(made: Recording):
    """What each call waits for, by what `waiting_calls` says of it."""
    work, kinds, slices, returns, staged = made.work, [], [], [], []
    there = {item.stream for item in work}
    for call, (name, start, end) in enumerate(zip(made.names, made.start, made.end, strict=True)):
        by_name, copies, wide = CALLS[name]
        launched = [place for place, item in enumerate(work) if item.call <= call]
        mine = [place for place in launched if work[place].call == call]
        long = end - start > LONG
        inside = [place for place, item in enumerate(work) if start < item.end <= end]
        still_open = sum(item.call < call for item in work) - sum(item.end <= start for item in work)
        own = False
        if mine and copies:
            begun, done = work[mine[0]].start, max(work[place].end for place in mine)
            covered = min(end, done) - max(start, begun)
            own = done <= end or (long and covered >= 0.9 * (done - begun))
        staged.append(own)
        if by_name or own or (long and not mine and inside):
            kind = WAIT
        elif long and mine and inside and still_open >= DEPTH:
            kind = FULL
        else:
            kind = FREE
        waited: list[int] = []
        if kind == WAIT:
            if own:
                waited = mine
            elif wide:
                last = {work[place].stream: place for place in launched}
                waited = [last[stream] for stream in sorted(last)]
            elif made.told.get(call) in there:
                waited = [place for place in launched if work[place].stream == made.told[call]][-1:]
            elif inside:
                waited = [max(inside, key=lambda place: (work[place].end, place))]
            else:
                of_thread = [place for place in launched if work[place].call != NONE]
                waited = [place for place in of_thread if made.thread[work[place].call] == made.thread[call]][-1:]
            waited = [place for place in waited if place in launched and (own or work[place].end <= end + SLACK)]
            done = max((work[place].end for place in waited), default=0)
            if done > start:
                returns.append(max(end - done, 0))
            elif long:
                kind = LOST
        kinds.append(kind)
        slices.append(waited)
    return kinds, slices, int(median(returns)) if returns else USUAL_RETURN, staged


def plain_streams(made: Recording) -> tuple[list[int], int]:
    """What work of another stream each piece waits for, by what `stream_waits` says of it."""
    work = made.work
    if not any(item.stream for item in work):
        return [NONE] * len(work), 0
    marked, unknown = set(), 0
    for call, name in enumerate(made.names):
        if name == "cudaStreamWaitEvent":
            later = [place for place, item in enumerate(work) if item.call > call][:64]
            own = [place for place in later if made.thread[work[place].call] == made.thread[call]]
            marked.update(own[:1])
            unknown += not own
    after = []
    for place, item in enumerate(work):
        ended = sorted((other.end, at) for at, other in enumerate(work) if other.end <= item.start)
        sources = [at for _, at in reversed(ended)][:256]
        ok = [at for at in sources if work[at].stream != item.stream and work[at].call < item.call]
        queued = _queued(work, place)
        called = made.start[item.call] if item.call != NONE else item.start
        explained = max(called + CLOSE, work[queued].end if queued != NONE else called)
        close = ok[:1] == sources[:1] and ok and item.start - work[ok[0]].end < CLOSE
        if ok and (place in marked or (close and item.start - explained > CLOSE)):
            after.append(ok[0])
        else:
            unknown += place in marked
            after.append(NONE)
    return after, unknown


@given(recordings(SMALL) | recordings())
def test_a_call_follows_its_thread_or_the_one_that_handed_over(made: Recording) -> None:
    assert tuple(column.tolist() for column in waits.program_order(*made.arrays())) == plain_order(made)


@given(recordings())
def test_calls_wait_for_what_plain_rules_say(made: Recording) -> None:
    if made.work:
        assert made.waiting() == plain_waits(made)


@given(recordings())
def test_streams_wait_for_what_plain_rules_say(made: Recording) -> None:
    if made.work:
        assert made.streams() == plain_streams(made)


@given(recordings(), st.sampled_from((0, 7_000)), st.sampled_from((0, 3_000)))
def test_a_copy_is_staged_before_and_after_its_work(made: Recording, latency: int, back: int) -> None:
    if not made.work:
        return
    start, end, _ = made.arrays()
    own = np.array(plain_waits(made)[3])
    before, after = waits.staging(start, end, own, made.first(), made.as_work(), latency, back)
    expected = []
    for call, copies in enumerate(own.tolist()):
        mine = [place for place, item in enumerate(made.work) if item.call == call]
        lead = tail = 0
        if copies:
            queued = _queued(made.work, mine[0])
            lead = made.work[mine[0]].start - made.start[call]
            if lead <= LONG or (queued != NONE and made.work[queued].end > made.start[call]):
                lead = 0
            tail = made.end[call] - max(made.work[place].end for place in mine)
            tail = tail if tail > LONG else 0
        expected.append((max(lead - latency, 0) if lead else 0, max(tail - back, 0) if tail else 0))
    assert list(zip(before.tolist(), after.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("ended", "staged"), [(1_000, LONG + 1), (1_001, 0)], ids=["idle", "busy"])
def test_a_copy_is_staged_before_its_work_if_its_stream_was_idle_at_the_call(ended: int, staged: int) -> None:
    made = Recording()
    made.call("cudaLaunchKernel", 0, 10, Item(0, 100, ended))
    made.call("cudaMemcpy", 1_000, 500_000, Item(0, 1_001 + LONG, 499_999))
    start, end, _ = made.arrays()
    before, after = waits.staging(start, end, np.array([False, True]), made.first(), made.as_work(), 0, 0)
    assert (before.tolist(), after.tolist()) == ([0, staged], [0, 0])


def test_the_time_to_return_is_the_median_of_the_waits() -> None:
    made = Recording()
    for number, returns in enumerate((100, 2_000, 900)):
        made.call(
            "cudaLaunchKernel", 10_000 * number, 10_000 * number + 10, Item(0, 10_000 * number, 10_000 * number + 5_000)
        )
        made.call("cudaStreamSynchronize", 10_000 * number + 20, 10_000 * number + 5_000 + returns)
    assert made.waiting()[2] == 900
    # one that found its work done tells nothing, and without any other the usual time is taken
    done = Recording()
    done.call("cudaLaunchKernel", 0, 10, Item(0, 5, 50))
    done.call("cudaStreamSynchronize", 50, 60)
    assert done.waiting() == ([FREE, WAIT], [[], [0]], 4_000, [False, False])


@pytest.mark.parametrize(("late", "waited"), [(0, [0]), (1_000, [0]), (1_001, [])])
def test_awaited_work_may_end_a_clock_tick_after_the_return(late: int, waited: list[int]) -> None:
    for name in ("cudaStreamSynchronize", "cudaDeviceSynchronize"):
        made = Recording()
        made.call("cudaLaunchKernel", 0, 10, Item(0, 20, 5_000 + late))
        made.call(name, 100, 5_000)
        assert made.waiting()[1] == [[], waited], (name, late)
    assert made.waiting()[2] == (0 if waited else 4_000)


def full(waiting: int, lasting: int, *, ends_inside: bool = True, name: str = "cudaLaunchKernel") -> list[int]:
    """The kinds of calls of which the last one launches behind so many pieces of work that wait to run."""
    made = Recording()
    for number in range(waiting):
        begin = 1_000_000 + number * (500 if ends_inside else 10**6)
        made.call("cudaLaunchKernel", number, number + 1, Item(0, begin, begin + 500))
    start = 1_000_000 - 10
    made.call(name, start, start + lasting, Item(0, 10**9, 10**9 + 5))
    return sorted({*made.waiting()[0]})


def test_a_launch_waits_for_room_only_behind_a_full_queue_for_long_and_while_work_ends() -> None:
    assert full(256, 100_001) == [FREE, FULL]
    assert full(255, 100_001) == full(256, 100_000) == [FREE]
    assert full(256, 100_001, name="cudaMemcpy") == [FREE, WAIT]
    assert len({FREE, WAIT, FULL, LOST}) == 4
    # nothing that ran ended while the call lasted: it was not that which the launch waited for
    far = Recording()
    for number in range(300):
        far.call("cudaLaunchKernel", number, number + 1, Item(0, 5_000_000 + number, 5_000_001 + number))
    far.call("cudaLaunchKernel", 1_000, 201_000, Item(0, 9_000_000, 9_000_001))
    assert set(far.waiting()[0]) == {FREE}
    # a call without work of its own is a wait then
    bare = Recording()
    bare.call("cudaLaunchKernel", 0, 10, Item(0, 20, 100_020))
    bare.call("cudaMalloc", 20, 100_021)
    assert bare.waiting()[:2] == ([FREE, WAIT], [[], [0]])


@pytest.mark.parametrize(("ended", "expected"), [(2, False), (3, True)])
def test_a_thread_hands_over_after_three_calls_of_others(ended: int, expected: bool) -> None:
    made = Recording()
    made.call("cudaLaunchKernel", 0, 10)
    for number in range(ended):
        made.call("cudaLaunchKernel", 20 + number, 21 + number, thread=1)
    made.call("cudaLaunchKernel", 100, 110)
    before, stretch, own = (column.tolist()[-1] for column in waits.program_order(*made.arrays()))
    assert (before, own) == ((ended, 0) if expected else (0, NONE))
    assert stretch == 100 - made.end[before]


@pytest.mark.parametrize(("covered", "kind"), [(180_000, WAIT), (179_999, FREE)])
def test_a_long_call_that_covers_nine_tenths_of_its_copy_waits_for_it(covered: int, kind: int) -> None:
    made = Recording()
    made.call("cudaMemcpyAsync", 0, 1_000 + covered, Item(0, 1_000, 201_000))
    assert made.waiting()[0] == [kind]
    assert made.waiting()[3] == [kind == WAIT]


@pytest.mark.parametrize(("begins", "after"), [(4_999, 0), (5_000, NONE)], ids=["right behind", "later"])
def test_work_right_behind_that_of_another_stream_waited_for_it(begins: int, after: int) -> None:
    made = Recording()
    made.call("cudaLaunchKernel", 0, 10, Item(0, 100, 50_000))
    made.call("cudaLaunchKernel", 20, 30, Item(0, 50_000 + begins, 90_000, stream=1))
    assert made.streams() == ([NONE, after], 0)


@pytest.mark.parametrize(("launched", "after"), [(39_999, 0), (40_000, NONE)])
def test_work_whose_launch_explains_its_begin_waited_for_nothing(launched: int, after: int) -> None:
    made = Recording()
    made.call("cudaLaunchKernel", 0, 10, Item(0, 100, 50_000))
    made.call("cudaLaunchKernel", launched, launched + 5, Item(0, 50_000, 90_000, stream=1))
    assert made.streams() == ([NONE, after], 0)


@pytest.mark.parametrize(("between", "found"), [(63, True), (64, False)])
def test_a_stream_waits_with_the_next_work_of_its_thread_as_far_as_that_is_near(between: int, found: bool) -> None:
    made = Recording()
    made.call("cudaLaunchKernel", 0, 1, Item(0, 5, 10))
    made.call("cudaStreamWaitEvent", 2, 3)
    for number in range(between):
        made.call("cudaLaunchKernel", 4 + number, 5 + number, Item(0, 20 + number, 21 + number), thread=1)
    made.call("cudaLaunchKernel", 900, 901, Item(0, 999_000, 999_100, stream=1))
    after, unknown = made.streams()
    assert (after[-1] != NONE, unknown) == (found, not found)


@pytest.mark.parametrize(("between", "found"), [(255, True), (256, False)])
def test_the_source_of_a_wait_is_looked_for_among_what_ended_last(between: int, found: bool) -> None:
    made = Recording()
    made.call("cudaLaunchKernel", 0, 1, Item(0, 5, 10))
    for number in range(between):
        made.call("cudaLaunchKernel", 4 + number, 5 + number, Item(0, 20 + number, 21 + number, stream=1))
    made.call("cudaStreamWaitEvent", 600, 601)
    made.call("cudaLaunchKernel", 900, 901, Item(0, 999_000, 999_100, stream=1))
    after, unknown = made.streams()
    assert (after[-1], unknown) == ((0, 0) if found else (NONE, 1))


def test_one_stream_waits_for_no_other() -> None:
    made = Recording()
    made.call("cudaStreamWaitEvent", 0, 1)
    made.call("cudaLaunchKernel", 2, 3, Item(0, 5, 10))
    assert made.streams() == ([NONE], 0)


def test_what_came_before_the_calls_and_on_the_own_stream_counts_too() -> None:
    before = Recording()
    before.work.append(Item(NONE, 100, 50_000))
    before.call("cudaLaunchKernel", 0, 10, Item(0, 50_001, 90_000, stream=1))
    assert before.streams() == ([NONE, 0], 0)
    # the work before it on its own stream explains when this one began
    explained = Recording()
    explained.call("cudaLaunchKernel", 0, 10, Item(0, 100, 46_000, stream=1))
    explained.call("cudaLaunchKernel", 20, 30, Item(0, 100, 50_000))
    explained.call("cudaLaunchKernel", 40, 50, Item(0, 50_001, 90_000, stream=1))
    assert explained.streams() == ([NONE] * 3, 0)
    # what ended last is of its own stream
    own = Recording()
    own.call("cudaLaunchKernel", 0, 10, Item(0, 100, 50_000, stream=1))
    own.call("cudaLaunchKernel", 20, 30, Item(0, 110, 20_000, stream=1))
    own.call("cudaLaunchKernel", 40, 50, Item(0, 50_001, 90_000, stream=1))
    assert own.streams() == ([NONE] * 3, 0)
