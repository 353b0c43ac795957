"""Why a GPU is idle: it waits for the host, for the next kernel to start, or for something else."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.gpu.activities import Activities, activities, by_value
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints

KERNEL_WAIT_LIMIT_NS = 30_000
"""A gap shorter than this before a kernel that was launched in time is the GPU's own start-up time (HTA's default)."""
CAUSES = ("host_wait", "kernel_wait", "other")
CAUSE = pl.Enum(CAUSES)
IDLE_WORDS = {"host_wait": "host wait", "kernel_wait": "kernel wait", "other": "other wait"}
"""What people read of `CAUSES`, wherever it stands."""
GAPS = {
    "device": pl.Int64(),
    "stream": pl.Int64(),
    "start": pl.Int64(),
    "duration_ns": pl.Int64(),
    "cause": CAUSE,
}
IDLE = {
    "device": pl.Int64(),
    "stream": pl.Int64(),
    "idle_ns": pl.Int64(),
    **{f"{cause}_percent": pl.Float64() for cause in CAUSES},
}


def gaps(sel: Selection) -> pl.DataFrame:
    """Every stretch in which a device (stream null) or one of its streams is idle, and why.

    HTA's causes (`_analyze_idle_time_for_stream`), on exact times:

    - host_wait: the call that launched the next activity began after the gap did;
    - kernel_wait: it was launched in time and the gap is shorter than `KERNEL_WAIT_LIMIT_NS`;
    - other: it was launched in time but something else held it back, or its launch is not in the trace.

    Ours are gaps between the first step's start and the last step's end, whatever overlaps being busy; time after the
    last activity of all is host_wait. HTA's lie between one activity and the next of each stream, and are negative
    where two overlap.
    """
    work = activities(sel)
    slots = step_slots(sel)
    window = (int(slots.start[0]), int(slots.end[-1])) if slots.start.size else None
    return gaps_of(sel.trace, work, window)


def gaps_of(trace: Trace, work: Activities, window: tuple[int, int] | None) -> pl.DataFrame:
    """`gaps`, from activities and a window that are already computed."""
    if window is None or not work.start.size:
        return pl.DataFrame(schema=GAPS)
    called = _launch_start(trace, work)
    device, stream = work.column("device"), work.column("stream")
    gaps: list[_Gaps] = []
    for number, on in by_value(device):
        gaps.append(_between(work.start[on], work.end[on], called[on], window, number, -1))
        for lane, among in by_value(stream[on]):
            rows = among if isinstance(on, slice) else on[among]
            if lane >= 0:
                gaps.append(_between(work.start[rows], work.end[rows], called[rows], window, number, lane))
    return _frame(gaps)


def shares(found: pl.DataFrame) -> pl.DataFrame:
    """Idle time per device (stream null) and per stream, and its causes in percent of it: of `gaps`."""
    total = pl.col("duration_ns").sum()
    share = [
        pl.when(total != 0)
        .then(100 * pl.when(pl.col("cause") == cause).then(pl.col("duration_ns")).sum() / total)
        .alias(f"{cause}_percent")
        for cause in CAUSES
    ]
    return (
        found.group_by("device", "stream", maintain_order=True)
        .agg(total.alias("idle_ns"), *share)
        .sort("device", "stream", nulls_last=False)
        .select(pl.col(name).cast(dtype) for name, dtype in IDLE.items())
    )


class _Gaps(Struct, frozen=True):
    """The gaps of one device or stream."""

    device: int
    stream: int
    start: Ints
    duration: Ints
    called: Ints
    """When the activity that ends each gap was launched."""


def _frame(gaps: list[_Gaps]) -> pl.DataFrame:
    sizes = [part.start.size for part in gaps]

    def number(values: list[int]) -> pl.Series:
        known = pl.Series([None if value < 0 else value for value in values], dtype=pl.Int64)
        return known.gather(np.repeat(np.arange(len(values)), sizes))

    begin, duration, called = (
        np.concatenate([getattr(part, name) for part in gaps]) for name in ("start", "duration", "called")
    )
    cause = _causes(begin, duration, called)
    return pl.DataFrame(
        {
            "device": number([part.device for part in gaps]),
            "stream": number([part.stream for part in gaps]),
            "start": begin,
            "duration_ns": duration,
            "cause": pl.Series(cause, dtype=pl.UInt8).cat.to(CAUSE),
        },
        schema=GAPS,
    )


_UNKNOWN, _EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _launch_start(trace: Trace, work: Activities) -> Ints:
    """When the call that launched each activity began; `_UNKNOWN` where the trace doesn't hold it."""
    launch = work.column("launch")
    has_launch = launch >= 0
    if has_launch.all():
        return trace.host["start"].to_numpy()[launch]
    called: Ints = np.full(launch.size, _UNKNOWN, np.int64)
    called[has_launch] = trace.host["start"].to_numpy()[launch[has_launch]]
    return called


def _causes(begin: Ints, duration: Ints, called: Ints) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    cause = np.full(begin.size, CAUSES.index("other"), np.uint8)
    in_time = (called <= begin) & (called != _UNKNOWN)
    cause[in_time & (duration < KERNEL_WAIT_LIMIT_NS)] = CAUSES.index("kernel_wait")
    cause[called > begin] = CAUSES.index("host_wait")
    return cause


def _between(start: Ints, end: Ints, called: Ints, window: tuple[int, int], device: int, stream: int) -> _Gaps:
    """Time of the window in which none of the activities runs, each gap with the activity that ends it."""
    lasting = end > start
    if not lasting.all():
        start, end, called = start[lasting], end[lasting], called[lasting]
    idle_from = np.concatenate(([_UNKNOWN], np.maximum.accumulate(end)))
    idle_to = np.append(start, _EVER)
    launched = np.append(called, _EVER)
    begin, finish = np.maximum(idle_from, window[0]), np.minimum(idle_to, window[1])
    real = finish > begin
    begin, duration = begin[real], (finish - begin)[real]
    return _Gaps(device, stream, begin, duration, launched[real])
