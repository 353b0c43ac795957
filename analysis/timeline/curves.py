"""What was sampled on a GPU as rows of a timeline: each sample an event, each row a curve."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.timeline.lanes import Lane
from tracetui.analysis.timeline.rows import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.timeline.curve import Curve
    from tracetui.analysis.timeline.timeline import Timeline


def with_curves(found: Timeline, curves: Sequence[Curve]) -> Timeline:
    """The timeline with a lane of curves for each GPU behind its other lanes; the places of other events stay.

    Args:
        found: the timeline.
        curves: in the order of their rows; those of fewer than two samples are left out.
    """
    kept = [curve for curve in curves if curve.time.size > 1]
    frames, lanes, first = [], list(found.lanes), 0
    for device in dict.fromkeys(curve.device for curve in kept):
        own = [curve for curve in kept if curve.device == device]
        rows = []
        for curve in own:
            begun, count = curve.time[:-1], curve.time.size - 1
            rows.append(Row.of(np.arange(first, first + count, dtype=np.uint32), begun, curve.time[1:]))
            frames.append(
                pl.DataFrame({"start": begun, "duration": np.diff(curve.time), "value": curve.value[1:]}).with_columns(
                    name=pl.lit(curve.name, pl.Categorical), unit=pl.lit(curve.unit, pl.Categorical)
                )
            )
            first += count
        lanes.append(Lane("samples", "samples", tuple(rows), device, curves=tuple(own)))
    if not frames:
        return found
    start = min([found.start, *(int(curve.time[0]) for curve in kept)])
    end = max([found.end, *(int(curve.time[-1]) for curve in kept)])
    return replace(found, lanes=tuple(lanes), samples=pl.concat(frames), start=start, end=end)
