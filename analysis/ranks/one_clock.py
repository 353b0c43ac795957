"""The recordings of several ranks on the clock that was fitted for their job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.together.job import jobs
from tracetui.analysis.timeline.ranks_timeline import RanksTimeline, of_ranks
from tracetui.analysis.timeline.timeline import build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.ranks.together.job import Job
    from tracetui.parsers import Run, Trace


def ranks_timeline(run: Run, traces: Sequence[Trace], job: Job | None = None) -> RanksTimeline | None:
    """The lanes of several ranks on one clock: that of their job, in which its collectives' times are.

    Args:
        run: what they are of.
        traces: a recording of each rank.
        job: the whole job, if its summaries are at hand; else the clock is fitted by these ranks alone.

    Returns:
        None where nothing in any of them has a place in time.
    """
    if job is None:
        job = jobs([summarise(trace, manifest=run.manifest) for trace in traces])[0]
    parts = []
    for trace in traces:
        built = build(on_common_clock(trace, job))
        if built is not None:
            parts.append((trace.info.rank or 0, built))
    return of_ranks(parts, job.calls, job.residual_ns) if parts else None


def on_common_clock(trace: Trace, job: Job) -> Trace:
    """A rank's recording with all its times on the job's clock, which counts from 1970 where the recordings say so."""
    fitted = job.clocks.filter(pl.col("rank") == (trace.info.rank or 0)).head(1)
    offset, drift, about = (
        (float(fitted["offset_ns"][0] or 0), float(fitted["drift_ppm"][0] or 0), int(fitted["about_ns"][0]))
        if fitted.height
        else (0.0, 0.0, 0)
    )
    base = trace.info.base_time or 0

    def moved(time: Ints) -> Ints:
        there: Ints = time + base
        # the difference to a moment of the recording is small enough for a float, a time since 1970 is not
        apart: Ints = np.rint(offset + drift * 1e-6 * (there - about)).astype(np.int64)
        return there - apart

    def shifted(frame: pl.DataFrame) -> pl.DataFrame:
        if not frame.height:
            return frame
        known = frame["start"].is_not_null()
        time = pl.Series("start", moved(frame["start"].fill_null(0).to_numpy()))
        return frame.with_columns(pl.when(known).then(time).alias("start"))

    window = trace.info.window
    if window is not None:
        begin, end = moved(np.array(window, np.int64)).tolist()
        window = begin, end
    info = replace(trace.info, window=window)
    return replace(trace, steps=shifted(trace.steps), host=shifted(trace.host), device=shifted(trace.device), info=info)
