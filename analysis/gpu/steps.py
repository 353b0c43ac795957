"""Where each step begins and ends, the GPU's work for it included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base.names import rows_of
from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.gpu.activities import WORK
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints

_NEVER, _EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class StepSlots(Struct, frozen=True):
    """Steps that follow each other without overlap."""

    index: tuple[int, ...]
    name: tuple[str, ...]
    start: Ints
    end: Ints
    marked: bool
    """False where the trace has no steps and one stretch of it stands for one."""

    def take(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], start: Ints, end: Ints) -> StepSlots:
        """The chosen steps, with these bounds."""
        rows = np.flatnonzero(chosen).tolist()
        index, name = (tuple(values[row] for row in rows) for values in (self.index, self.name))
        return StepSlots(index, name, start[chosen], end[chosen], self.marked)


@latest
def step_slots(sel: Selection) -> StepSlots:
    """The steps in scope, each from the end of the previous step's work to the end of its own.

    As in torch-tb-profiler (`_update_steps_duration`): a step lasts until its own last device activity ends, if that
    is later than its host annotation, and the next one begins there. The first begins after the device work that was
    launched before it, if that work ended before the step's own began. Unlike there, a step's work is what any API call
    launched in the step's host time, and no step is dropped. Where no launch is known, a step's work is what began to
    run in it.

    A trace without steps is one step from its first GPU work to its last: what comes before is start-up, not waiting.
    Without GPU work it is one from its first event to its last.
    """
    whole = _steps(sel.trace) if sel.trace.steps.height else _work_span(sel) or _whole_file(sel.trace)
    start, end = whole.start, whole.end
    chosen = np.ones(start.size, np.bool_)
    if whole.marked:
        # a window cuts the steps with these bounds, not their host annotations
        wanted = Selection(sel.trace, replace(sel.scope, window=None)).steps["index"].implode()
        chosen &= pl.Series(whole.index, dtype=pl.Int64).is_in(wanted).to_numpy()
    if sel.scope.window is not None:
        start, end = np.maximum(start, sel.scope.window[0]), np.minimum(end, sel.scope.window[1])
        chosen &= end > start
    return whole.take(chosen, start, end)


def _steps(trace: Trace) -> StepSlots:
    start = trace.steps["start"].to_numpy()
    end = start + trace.steps["duration"].to_numpy()
    device = rows_of(trace.device.select("kind", "start", "duration", "step", "launch"), *WORK)
    begins = device["start"].to_numpy()
    ends = begins + device["duration"].to_numpy()
    step, launched = device["step"].cast(pl.Int64).fill_null(-1).to_numpy(), device["launch"]
    if 0 < launched.null_count() < device.height:
        # what was launched before the recording belongs to an earlier step than the one it runs in
        step = np.where(launched.is_null().to_numpy(), -1, step)
    start, end = _extended(start, end, step, begins, ends)
    return StepSlots(tuple(trace.steps["index"].to_list()), tuple(trace.steps["name"].to_list()), start, end, True)


def _extended(start: Ints, end: Ints, step: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Extends steps from their host time, given the step (or -1) and the times of each device activity."""
    known = step >= 0
    chosen = slice(None) if known.all() else known
    of_step = step[chosen]
    counts = np.bincount(of_step, minlength=start.size)
    if not counts.any():
        return start, end
    first, last = np.full(start.size, _EVER), np.full(start.size, _NEVER)
    np.minimum.at(first, of_step, begins[chosen])
    np.maximum.at(last, of_step, ends[chosen])
    before = ends[~known & (ends < first[0])] if counts[0] else ends[:0]
    previous = max(int(start[0]), int(before.max(initial=_NEVER)))
    slots = np.empty((2, start.size), np.int64)
    for row in range(start.size):
        begin = max(previous, int(start[row]))
        previous = max(begin, int(end[row]), int(last[row]))
        slots[:, row] = begin, previous
    return slots[0], slots[1]


@kept
def extent(trace: Trace) -> tuple[int, int] | None:
    """When the recording begins and ends, ns: its own span where the file tells it, and all events.

    None for a trace without any event that has a time.
    """
    times = [] if trace.info.window is None else [(trace.info.window[0], sum(trace.info.window))]
    for frame in (trace.host, trace.device):
        timed = frame.lazy().filter(pl.col("start").is_not_null())
        end = pl.col("start") + pl.col("duration").fill_null(0)
        low, high = timed.select(pl.col("start").min(), end=end.max()).collect().row(0)
        if low is not None:
            times.append((low, high))
    return (min(low for low, _ in times), max(high for _, high in times)) if times else None


def recorded(sel: Selection) -> tuple[int, int] | None:
    """`extent`, or the part of it in the marked range."""
    span = extent(sel.trace)
    if span is None or sel.scope.window is None:
        return span
    low, high = max(span[0], sel.scope.window[0]), min(span[1], sel.scope.window[1])
    return (low, high) if high > low else None


def setup(trace: Trace) -> int | None:
    """The recorded time before the first step, a warm-up counting as one; without steps, before the first GPU work.

    ns; None where nothing of both is there.
    """
    whole = extent(trace)
    if trace.marked_by is not None:
        begins: int | None = trace.marked_by.begins
    elif trace.steps.height:
        begins = int(trace.steps["start"][0])
    else:
        span = Selection(trace, Scope()).work_span
        begins = None if span is None else span[0]
    return None if whole is None or begins is None else max(begins - whole[0], 0)


def _work_span(sel: Selection) -> StepSlots | None:
    span = sel.work_span
    if span is None:
        return None
    return StepSlots((0,), ("first to last GPU work",), np.array([span[0]]), np.array([span[1]]), marked=False)


def _whole_file(trace: Trace) -> StepSlots:
    """One step from the first event to the last."""
    low, high = _EVER, _NEVER
    # a recording of durations only has no extent
    device = trace.device.select("start", "duration").filter(pl.col("start").is_not_null())
    for frame in (trace.host, device):
        start, duration = frame["start"].to_numpy(), frame["duration"].to_numpy()
        if start.size:
            low, high = min(low, int(start.min())), max(high, int((start + duration).max()))
    if trace.info.kind == "nsys" and trace.info.window is not None and (whole := extent(trace)) is not None:
        low, high = whole  # the file says how long was recorded, be it that nothing happened
    if low > high:
        none = np.empty(0, np.int64)
        return StepSlots((), (), none, none, marked=False)
    return StepSlots((0,), ("whole file",), np.array([low]), np.array([high]), marked=False)
