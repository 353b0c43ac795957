"""Which part of a trace the numbers are about: all of it, or some steps, devices, or a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.scope import Scope

if TYPE_CHECKING:
    from tracetui.parsers import Trace

__all__ = ["Scope", "Selection", "in_steps", "select"]


@dataclass(frozen=True)
class Selection:
    """A trace restricted to a scope. Row ids of its frames still count in the whole frames of `trace`."""

    trace: Trace
    scope: Scope

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
    def host(self) -> pl.DataFrame:
        """Host rows in scope, with their `row` in the whole frame: begun in a chosen step."""
        frame = self.trace.host.with_row_index("row")
        if self.by_steps:
            inside = pl.lit(False)
            for start, duration in self.steps.select("start", "duration").iter_rows():
                inside = inside | ((pl.col("start") >= start) & (pl.col("start") < start + duration))
            frame = frame.filter(inside)
        return _within(frame, self.scope.window)

    @cached_property
    def memory(self) -> pl.DataFrame:
        """Allocator events in scope."""
        frame = self.trace.memory
        if self.by_steps and self.steps.height:
            last = self.steps.row(-1, named=True)
            frame = frame.filter(pl.col("time").is_between(self.steps["start"][0], last["start"] + last["duration"]))
        if self.scope.window is not None:
            frame = frame.filter(pl.col("time").is_between(*self.scope.window, closed="left"))
        return frame

    def describe_totals(self, *, calls: bool = False) -> str:
        """Returns `describe`, and says where totals include work outside the steps: "steps 1-2 and outside".

        Args:
            calls: whether the totals are of API calls; otherwise of GPU work.
        """
        text = self.describe()
        if self.by_steps or not self.steps.height:
            return text
        if calls:
            api = pl.col("kind").is_in(["runtime", "driver"])
            outside = self.host.filter(api).height > in_steps(self).host.filter(api).height
        else:
            work = self.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
            outside = work["step"].null_count() > 0
        if not outside:
            return text
        steps, comma, rest = text.partition(",")
        return f"{steps} and outside{comma}{rest}"

    def describe(self) -> str:
        """The base of the numbers, in words: "steps 1-3", "whole file (no steps)", "steps 2-3, GPU 0"."""
        if self.steps.height:
            first, last = self.steps["index"][0], self.steps["index"][-1]
            text = f"step {first}" if first == last else f"steps {first}-{last}"
        else:
            text = "whole file (no steps)"
        if self.scope.devices is not None:
            text += ", GPU " + ",".join(map(str, sorted(self.scope.devices)))
        if self.scope.window is not None:
            text += ", marked range"
        return text


def select(trace: Trace, scope: Scope | None = None) -> Selection:
    """Restricts a trace to a scope."""
    return Selection(trace, scope or Scope())


def in_steps(sel: Selection) -> Selection:
    """The selection without what lies outside its steps, for numbers per step; unchanged for a trace without steps."""
    if sel.by_steps or not sel.steps.height:
        return sel
    index = sel.steps["index"]
    return select(sel.trace, replace(sel.scope, steps=(index.min(), index.max())))  # type: ignore[arg-type]


def _within(frame: pl.DataFrame, window: tuple[int, int] | None) -> pl.DataFrame:
    if window is None:
        return frame
    start, end = window
    return frame.filter((pl.col("start") < end) & (pl.col("start") + pl.col("duration") > start))
