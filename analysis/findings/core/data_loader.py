"""How long the host waits for the next batch, and for how much of that time the GPU has nothing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import intervals
from tracetui.analysis.dependencies.host_layers import loading_rows, loading_time
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.steps import step_slots

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.base.intervals import Intervals
    from tracetui.analysis.selection import Selection


class Loader(Struct, frozen=True):
    """The wait for the next batch, per step."""

    waited_ns: float
    """How long the host waited."""
    exposed_ns: float
    """The part of it in which the GPU had nothing to do."""
    name: str
    """Name of the events or ranges that record the wait."""
    in_main_process: bool
    """Whether PyTorch's loader has no workers, so that the step waits while the batch is made."""
    waits: Intervals
    """When the host waited."""


def loader(sel: Selection, per_step: Callable[[float], float]) -> Loader | None:
    """The wait for data: from the loader's own events, else from ranges named like `loading.LOADING`, else None.

    Args:
        sel: the steps to look at.
        per_step: converts a total of the selection to a mean per step.
    """
    rows = loading_rows(sel.trace)
    slots = step_slots(sel)
    if not rows.height or not slots.start.size:
        return None
    waits = loading_time(sel.trace)
    work = activities(sel)
    exposed = intervals.subtract(waits, intervals.union(work.start, work.end))
    known = rows["name"].cast(pl.String)
    name = str(known.value_counts(sort=True)["name"][0])
    return Loader(
        waited_ns=per_step(float(np.sum(intervals.covered(waits, slots.start, slots.end)))),
        exposed_ns=per_step(float(np.sum(intervals.covered(exposed, slots.start, slots.end)))),
        name=name,
        in_main_process="SingleProcess" in name,
        waits=waits,
    )
