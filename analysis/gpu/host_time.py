"""What the host was doing when, by category."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.conventions import TB_COLLECTIVES, TRACETUI, Conventions, is_host_collective
from tracetui.parsers import schema
from tracetui.parsers.iterations import as_recorded

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals
    from tracetui.parsers import Trace

OPERATOR, ANNOTATION, DATALOADER, RUNTIME, DRIVER = (
    schema.HOST_KINDS.index(kind) for kind in ("operator", "annotation", "dataloader", "runtime", "driver")
)


def host_ranges(trace: Trace, conventions: Conventions = TRACETUI) -> dict[str, Intervals]:
    """When at least one host thread was in an API call, in the data loader, or in other operators and annotations.

    As in torch-tb-profiler (`StepParser._parse_step`): step marks, modules, Python functions and the profiler's own
    overhead are none of these. Its "communication" holds host time as well, and so does ours where no GPU worked:
    there gloo's operators exchange what the ranks share.
    """
    kind = trace.host["kind"].to_physical().to_numpy()
    start = trace.host["start"].to_numpy()
    end = start + trace.host["duration"].to_numpy()
    runtime = kind == RUNTIME
    if conventions.driver_is_runtime:
        runtime |= kind == DRIVER
    busy = (kind == OPERATOR) | (kind == ANNOTATION)
    steps = frozenset((trace if conventions.named_steps else as_recorded(trace)).steps["name"])
    is_step = names.matching(trace.host["name"], lambda name: name in steps or name.startswith("ProfilerStep#"))
    busy &= ~(is_step & (kind == ANNOTATION))
    ranges = {
        "runtime": intervals.union(start[runtime], end[runtime]),
        "dataloader": intervals.union(start[kind == DATALOADER], end[kind == DATALOADER]),
    }
    if conventions.communication == "operators":
        rows = np.flatnonzero(busy)
        collective = rows[names.matching(trace.host["name"][rows], TB_COLLECTIVES.__contains__)]
        busy[collective] = False
        ranges["communication"] = intervals.union(start[collective], end[collective])
    elif not trace.device.height:
        rows = np.flatnonzero(busy)
        collective = rows[names.matching(trace.host["name"][rows], is_host_collective)]
        busy[collective] = False
        ranges["communication"] = intervals.union(start[collective], end[collective])
    ranges["cpu_exec"] = intervals.union(start[busy], end[busy])
    if conventions.device_annotations:
        _add_device_annotations(trace, ranges)
    return ranges


def _add_device_annotations(trace: Trace, ranges: dict[str, Intervals]) -> None:
    """Counts annotations projected on the GPU as CPU time (or communication), in place."""
    marks = trace.device.filter(pl.col("kind") == "annotation")
    start = marks["start"].to_numpy()
    end = start + marks["duration"].to_numpy()
    step = names.matching(marks["name"], lambda name: name.startswith("ProfilerStep#"))
    collective = names.matching(marks["name"], TB_COLLECTIVES.__contains__)
    for category, chosen in (("communication", collective), ("cpu_exec", ~step & ~collective)):
        known = ranges.get(category, intervals.empty())
        ranges[category] = intervals.union(
            np.concatenate((known[0], start[chosen])), np.concatenate((known[1], end[chosen]))
        )
