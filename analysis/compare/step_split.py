"""A step's time as parts that add up exactly: what the GPU did in it, and what it waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.base import intervals
from tracetui.analysis.compare.host_waits import HOST_WAITS, host_waits
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.idle import CAUSES, gaps_of
from tracetui.analysis.gpu.steps import step_slots

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

PARTS = ("gpu_time", "overlap", *CAUSES)
"""``gpu_time``: the durations of all work launched in the step, summed; ``overlap``: minus what of it ran at the same
time as other work or outside the step; then idle time by its cause (`idle.gaps`)."""


def step_split(sel: Selection) -> dict[str, float] | None:
    """`PARTS` of the average step in ns, whose sum is the average step; null without steps or GPU work.

    With them `HOST_WAITS`, which add up to ``host_wait``. All GPUs count as one: the step is idle while none of them
    works.
    """
    slots = step_slots(sel)
    if not slots.start.size or not sel.trace.has_timeline:
        return None
    work = activities(sel)
    if not work.start.size:
        return None
    work = replace(work, frame=work.frame.with_columns(device=pl.lit(0, pl.Int64), stream=pl.lit(0, pl.Int64)))
    found = gaps_of(sel.trace, work, (int(slots.start[0]), int(slots.end[-1]))).filter(pl.col("stream").is_null())
    count = slots.start.size
    whole = int((slots.end - slots.start).sum())
    steps = intervals.union(slots.start, slots.end)
    idle, waits = {}, {}
    for cause in CAUSES:
        gaps = found.filter(pl.col("cause") == cause)
        start = gaps["start"].to_numpy()
        spans = intervals.union(start, start + gaps["duration_ns"].to_numpy())
        idle[cause] = int(np.sum(intervals.covered(spans, slots.start, slots.end)))
        if cause == "host_wait":
            inside = intervals.intersect(spans, steps)
            waits = {name: int(ns.sum()) for name, ns in host_waits(sel.trace, work, *inside).items()}
    launched = int(device_work(sel)["duration"].sum())
    parts = {"gpu_time": launched, "overlap": whole - sum(idle.values()) - launched, **idle, **waits}
    return {part: parts[part] / count for part in (*PARTS, *HOST_WAITS)}
