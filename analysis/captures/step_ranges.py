"""The iterations of a recording: its steps, or the ranges whose names say that they are steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import latest
from tracetui.parsers.names.range_roles import NUMBERED, role_of

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection


class StepRanges(Struct, frozen=True, eq=False):
    """Iterations in order."""

    name: str
    """``step``, or what the ranges are called."""
    frame: pl.DataFrame
    """``start``, ``end`` (ns, of the host), ``process`` and ``thread`` (null where no range marks the step)."""
    marked: bool
    """Whether they are the trace's steps, so that a scope can leave some out."""


def step_ranges(sel: Selection) -> StepRanges:
    """The steps in scope; where the trace has none, ranges with a name like ``train_step``.

    Of those, only the name and thread that take the most time count, and no range inside another.
    """
    columns = {"start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "thread": pl.Int64}
    if sel.trace.steps.height:
        marks = sel.trace.host.lazy().filter(pl.col("kind") == "annotation")
        marks = marks.select("start", "duration", "process", "thread").join(
            sel.steps.lazy(), on=["start", "duration"], how="semi", maintain_order="left"
        )
        first = marks.unique(["start", "duration"], keep="first", maintain_order=True).collect()
        steps = sel.steps.join(first, on=["start", "duration"], how="left", maintain_order="left")
        return StepRanges("step", steps.with_columns(end=pl.col("start") + pl.col("duration")).select(*columns), True)
    host = sel.host.select("kind", "name", "process", "thread", "start", "duration")
    host = host.filter((pl.col("kind") == "annotation") & (pl.col("duration") > 0))
    spelt = host["name"].cast(pl.String).fill_null("")
    label = {name: NUMBERED.sub("", name) for name in spelt.unique().to_list() if role_of(name) == "step"}
    host = host.with_columns(name=spelt.replace_strict(label, default=None, return_dtype=pl.String))
    host = host.filter(pl.col("name").is_not_null())
    if not host.height:
        return StepRanges("step", pl.DataFrame(schema=columns), marked=False)
    host = host.with_columns(end=pl.col("start") + pl.col("duration"))
    key = ["name", "process", "thread"]
    most = host.group_by(key).agg(ns=pl.col("duration").sum()).sort("ns", *key, descending=[True, False, False, False])
    mine = host.join(most.head(1), on=key, how="semi", nulls_equal=True).sort("start")
    mine = mine.filter((pl.col("start") >= pl.col("end").cum_max().shift(1)).fill_null(value=True))
    return StepRanges(str(most["name"][0]), mine.select(*columns), marked=False)


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
