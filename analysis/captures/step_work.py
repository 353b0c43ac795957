"""Tells GPU work that the steps of a recording launched from work launched outside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base.remembered import latest

if TYPE_CHECKING:
    from tracetui.analysis.captures.step_ranges import StepRanges
    from tracetui.analysis.selection import Selection


def outside_steps(sel: Selection, steps: StepRanges) -> tuple[int, int]:
    """The time of kernels, copies and fills that no step launched, and the time of all of them; ns."""
    work = _work(sel, steps)
    return int(work.filter(pl.col("at") < 0)["duration"].sum()), int(work["duration"].sum())


@latest
def per_step(sel: Selection, steps: StepRanges) -> list[int]:
    """How many kernels, including whole graphs, each step launched; kernels with an unknown launch do not count."""
    work = _work(sel, steps).filter("kernel")
    if work["launched"].any():
        work = work.filter("launched")
    chosen = work.filter(pl.col("at") >= 0)["at"].to_numpy()
    return [int(number) for number in np.bincount(chosen, minlength=steps.frame.height)]


@latest
def _work(sel: Selection, steps: StepRanges) -> pl.DataFrame:
    """Device work: duration, launched, kernel (or graph), ``at`` (number of the step, -1 for none)."""
    work = sel.device.select("kind", "duration", "launch", "start")
    work = work.filter(pl.col("kind").is_in(["kernel", "graph", "memcpy", "memset"]))
    called = sel.trace.host["start"].gather(work["launch"])
    when = work.select(time=pl.coalesce(called, "start"))["time"].fill_null(-1).to_numpy()
    frame = steps.frame.sort("start")
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    at = np.searchsorted(start, when, side="right") - 1
    at = np.where((at >= 0) & (when < end[at]), at, -1) if start.size else np.full(when.size, -1)
    return work.select(
        "duration",
        launched=pl.col("launch").is_not_null(),
        kernel=pl.col("kind").is_in(["kernel", "graph"]),
        at=pl.Series(at, dtype=pl.Int64),
    )
