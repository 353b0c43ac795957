"""What the GPU's idle time is spent on: launches that come late, the data loader."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals, names
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.steps import step_slots

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts

LOADING = re.compile(
    r"(?<![a-z])(data[ _]?(load(er|ing)?|fetch|wait)|(load(ing)?|next|get|fetch)[ _]?(batch|data))(?![a-z])",
    re.IGNORECASE,
)
"""Names that people give to ranges around ``next(loader)``."""

GPU_CATEGORIES = ("kernel", "communication", "memcpy", "memset")


@dataclass(frozen=True)
class Loader:
    """The wait for the next batch, per step."""

    waited_ns: float
    """What the host waited."""
    exposed_ns: float
    """The part of it in which the GPU had nothing to do."""
    name: str
    """Of the events that say so."""
    in_main_process: bool
    """PyTorch's loader without workers: the batch is made while the step waits."""


def idle(facts: Facts) -> tuple[float, float]:
    """The GPU's idle time per step, and the part of it in which its next work had not been launched, ns.

    With several GPUs it is their mean. Time between the steps is no part of it: where the recording has such time, the
    idle time inside the steps is taken, and its causes in the proportions of the whole.
    """
    whole = facts.overview.idle.filter(pl.col("stream").is_null())
    if not whole.height:
        return 0.0, 0.0
    late = float((whole["idle_ns"] * whole["host_wait_percent"].fill_null(0)).sum()) / 100
    idle_ns = facts.per_step(float(whole["idle_ns"].sum()) / whole.height)
    inside = min(1.0, max(facts.step_ns - _busy_ns(facts), 0.0) / idle_ns) if idle_ns else 0.0
    return idle_ns * inside, facts.per_step(late / whole.height) * inside


def _busy_ns(facts: Facts) -> float:
    """The time of an average step in which any GPU works."""
    average = facts.overview.average
    return float(average.filter(pl.col("category").is_in(GPU_CATEGORIES))["ns"].sum())


def loader(facts: Facts) -> Loader | None:
    """The wait for data, from the loader's own events or from ranges with such a name; None without either."""
    host = facts.trace.host
    rows = host.filter(pl.col("kind") == "dataloader")
    if not rows.height:
        ranges = host.filter(pl.col("kind") == "annotation")
        rows = ranges.filter(pl.Series(names.matching(ranges["name"], lambda name: LOADING.search(name) is not None)))
    slots = step_slots(facts.sel)
    if not rows.height or not slots.start.size:
        return None
    start = rows["start"].to_numpy()
    waits = intervals.union(start, start + rows["duration"].to_numpy())
    work = activities(facts.sel)
    exposed = intervals.subtract(waits, intervals.union(work.start, work.end))
    known = rows["name"].cast(pl.String)
    name = str(known.value_counts(sort=True)["name"][0])
    return Loader(
        waited_ns=facts.per_step(float(np.sum(intervals.covered(waits, slots.start, slots.end)))),
        exposed_ns=facts.per_step(float(np.sum(intervals.covered(exposed, slots.start, slots.end)))),
        name=name,
        in_main_process="SingleProcess" in name,
    )
