"""Which part of a trace the numbers are about: all of it, or some steps, devices, or a stretch of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import intervals
from tracetui.analysis.scope import Scope
from tracetui.parsers import Run, Trace
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.iterations import steps_by

NO_STEPS, WORK_ONLY = "whole file (no steps)", "first to last GPU work (no steps)"
"""What stands for one step in a recording without steps: all of it, or the time that its GPU work spans."""

__all__ = ["Scope", "Selection", "WorkTimes", "in_steps", "run_by", "select", "trace_by"]


class WorkTimes(Struct, frozen=True, eq=False):
    """How long each activity of a recording takes in another recording of the same run."""

    duration: pl.Series
    """ns for each row of the device frame: the mean over the other recording's steps; as recorded where it lacks it."""
    steps: int
    """How many steps of the other recording these are means of."""


@dataclass(frozen=True)
class Selection:
    """A trace restricted to a scope. Row ids of its frames still count in the whole frames of `trace`."""

    trace: Trace
    scope: Scope
    times: Callable[[], WorkTimes | None] | None = field(default=None, compare=False, repr=False)
    """Finds the times of the GPU work where another recording of the run has better ones; it reads that recording."""

    @cached_property
    def work_times(self) -> WorkTimes | None:
        """What `times` finds; None where the times are the trace's own."""
        return None if self.times is None else self.times()

    @cached_property
    def recorded(self) -> Selection:
        """The same with the times of the trace itself: for what concerns the recording rather than the program."""
        return self if self.times is None else replace(self, times=None)

    @property
    def clean_step_ns(self) -> tuple[int, ...]:
        """The run's steps as timed without a profiler; empty for a part of the run, whose steps may be others."""
        return self.trace.clean_step_ns if self.scope == Scope() else ()

    @cached_property
    def steps(self) -> pl.DataFrame:
        """The chosen steps (`schema.STEPS`); empty where the trace has none."""
        steps = self.trace.steps.slice(self.scope.skip_steps)
        if self.scope.steps is not None:
            steps = steps.filter(pl.col("index").is_between(*self.scope.steps))
        if self.scope.window is not None:
            start, end = self.scope.window
            steps = steps.filter((pl.col("start") < end) & (pl.col("start") + pl.col("duration") > start))
        return steps

    @property
    def by_steps(self) -> bool:
        """Whether only some of the trace's steps were asked for."""
        return self.scope.steps is not None or self.scope.skip_steps > 0

    def spoken_steps(self, first: int, last: int, *, warm_up: bool = True) -> str:
        """Steps in words: "step 3", "steps 2-10 of train_step, 1 warm-up left out".

        Args:
            first: the index of the first.
            last: that of the last.
            warm_up: whether a warm-up before all steps is told.
        """
        text = f"step {first}" if first == last else f"steps {first}-{last}"
        marks = self.trace.marked_by
        if marks is None:
            return text
        text += "" if marks.name.casefold() in ("step", "steps") else f" of {marks.name}"
        told = warm_up and marks.warm_up and not self.by_steps
        return f"{text}, {marks.warm_up} warm-up left out" if told else text

    @cached_property
    def work_span(self) -> tuple[int, int] | None:
        """When the first GPU work of the chosen devices begins and the last ends, in or outside steps; None without."""
        timed = pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]) & pl.col("start").is_not_null()
        if self.scope.devices is not None:
            timed &= pl.col("device").is_in(list(self.scope.devices))
        work = self.trace.device.lazy().filter(timed)
        end = pl.col("start") + pl.col("duration").fill_null(0)
        low, high = work.select(pl.col("start").min(), end=end.max()).collect().row(0)
        return (low, high) if low is not None and low < high else None

    @property
    def step_count(self) -> int:
        """What "per step" divides by: the number of chosen steps, or 1 where the trace has none."""
        return max(self.steps.height, 1)

    @cached_property
    def device(self) -> pl.DataFrame:
        """Device rows in scope, with their `row` in the whole frame: launched in a chosen step, on a chosen device."""
        frame = self.trace.device.with_row_index("row")
        if self.scope.devices is not None:
            frame = frame.filter(pl.col("device").is_in(list(self.scope.devices)))
        if self.by_steps:
            chosen = self.trace.steps.with_row_index("row").join(self.steps, on="start", how="semi")["row"]
            frame = frame.filter(pl.col("step").is_in(chosen.implode()))
        return _within(frame, self.scope.window)

    @cached_property
    def timed(self) -> pl.DataFrame:
        """`device` with the durations of `work_times`: what tables add up. Starts stay those of the trace."""
        if self.work_times is None:
            return self.device
        return self.device.with_columns(duration=self.work_times.duration.gather(self.device["row"]))

    @cached_property
    def host(self) -> pl.DataFrame:
        """Host rows in scope, with their `row` in the whole frame: begun in a chosen step."""
        frame = self.trace.host.with_row_index("row")
        if self.by_steps:
            frame = frame.filter(pl.Series(self.begun_in_steps(frame["start"].to_numpy())))
        return _within(frame, self.scope.window)

    def begun_in_steps(self, start: Ints) -> Bools:
        """Which of these times lie in the host time of a step in scope; steps of several threads may overlap."""
        begin = self.steps["start"].to_numpy()
        spans = intervals.union(begin, begin + self.steps["duration"].to_numpy())
        return intervals.contains(spans, start)

    @cached_property
    def memory(self) -> pl.DataFrame:
        """Allocator events in scope."""
        return self.within_memory(self.trace.memory)

    def within_memory(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Those rows of the memory frame, which may have more columns, that are in scope."""
        if self.by_steps and self.steps.height:
            last = self.steps.row(-1, named=True)
            frame = frame.filter(pl.col("time").is_between(self.steps["start"][0], last["start"] + last["duration"]))
        if self.scope.window is not None:
            frame = frame.filter(pl.col("time").is_between(*self.scope.window, closed="left"))
        return frame

    def describe_totals(self, *, calls: bool = False, host: bool = True) -> str:
        """Returns `describe`, and says where totals include work outside the steps: "steps 1-2 and outside".

        Where GPU times are those of another recording, that is told: "steps 1-2, GPU: mean of 10 light steps".

        Args:
            calls: whether the totals are of API calls; otherwise of GPU work.
            host: whether there are totals of the host's time beside those of GPU work.
        """
        if calls:
            return self._totals(calls=True) + self.host_words
        words = self.work_words
        return self._totals(calls=False) + words + (", host as recorded" if words and host else "")

    @property
    def work_words(self) -> str:
        """Whose times GPU work has, as the end of a text; empty where they are the trace's own."""
        if self.work_times is None:
            return ""
        steps = self.work_times.steps
        return f", GPU: mean of {steps} light steps" if steps > 1 else ", GPU: the light step"

    @property
    def host_words(self) -> str:
        """Whose times the host has, as the end of a text; empty for a run with one recording."""
        return "" if self.times is None else ", as recorded"

    def _totals(self, *, calls: bool) -> str:
        if not self.steps.height:
            return f"{NO_STEPS}{self.restrictions()}"
        text = self.describe()
        if self.by_steps:
            return text
        if calls:
            api = pl.col("kind").is_in(["runtime", "driver"])
            outside = self.host.filter(api).height > in_steps(self).host.filter(api).height
        else:
            work = self.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
            outside = work["step"].null_count() > 0
        if not outside:
            return text
        index = self.steps["index"]
        steps = self.spoken_steps(int(index[0]), int(index[-1]), warm_up=False)
        # the warm-up is not left out of totals
        return f"{steps} and outside{self.restrictions()}"

    def describe(self) -> str:
        """The base of shares and averages, in words: "steps 1-3", "whole file (no steps)", "steps 2-3, GPU 0".

        Steps that are ranges of the program are called by its name for them, and a warm-up before them is told: "steps
        2-10 of train_step, 1 warm-up left out". Without steps it is the time from the first GPU work to the last.
        """
        if self.steps.height:
            index = self.steps["index"]
            text = self.spoken_steps(int(index[0]), int(index[-1]))
        elif self.trace.steps.height or self.work_span is None:
            text = NO_STEPS
        else:
            text = WORK_ONLY
        return text + self.restrictions()

    def restrictions(self) -> str:
        """What restricts the numbers beside the steps, as the end of a text: ", GPU 0, marked range"."""
        text = ""
        if self.scope.devices is not None:
            text += ", GPU " + ",".join(map(str, sorted(self.scope.devices)))
        return text if self.scope.window is None else f"{text}, marked range"


def select(trace: Trace, scope: Scope | None = None) -> Selection:
    """Restricts a trace to a scope."""
    scope = scope or Scope()
    return Selection(trace_by(trace, scope.steps_by), scope)


def trace_by(trace: Trace, name: str | None) -> Trace:
    """The trace with the ranges of this name as its steps: the same object each time; itself without a name."""
    if name is None or (trace.marked_by is not None and trace.marked_by.asked == name):
        return trace
    # as `base.remembered` does; the trace that was made knows itself by the name that was asked for
    made: dict[str, Trace] = trace.__dict__.setdefault("_steps_by", {})
    if name not in made:
        made[name] = steps_by(trace, name)
    return made[name]


def run_by(run: Run, name: str | None) -> Run:
    """The run with the ranges of this name as the steps of its traces."""
    return run if name is None else replace(run, traces=tuple(trace_by(trace, name) for trace in run.traces))


def in_steps(sel: Selection) -> Selection:
    """The selection without what lies outside its steps, for numbers per step; unchanged for a trace without steps."""
    if sel.by_steps or not sel.steps.height:
        return sel
    index = sel.steps["index"]
    inside = replace(sel.scope, steps=(index.min(), index.max()))  # type: ignore[arg-type]
    return replace(select(sel.trace, inside), times=sel.times)


def step_at(steps: pl.DataFrame, time: Ints) -> pl.Series:
    """The index of the step that each time (ns) lies in; null outside of all steps."""
    if not steps.height:
        return pl.repeat(None, time.size, dtype=pl.Int64, eager=True)
    start = steps["start"].to_numpy()
    at = np.searchsorted(start, time, side="right") - 1
    inside = (at >= 0) & (time < (start + steps["duration"].to_numpy())[at])
    index: pl.Series = steps["index"].cast(pl.Int64).gather(np.maximum(at, 0)).set(pl.Series(~inside), None)
    return index


def _within(frame: pl.DataFrame, window: tuple[int, int] | None) -> pl.DataFrame:
    if window is None:
        return frame
    start, end = window
    return frame.filter((pl.col("start") < end) & (pl.col("start") + pl.col("duration") > start))
