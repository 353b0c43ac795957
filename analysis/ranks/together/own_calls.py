"""One rank's collectives with what all ranks together tell of each: how much is waiting, how much transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.collectives import MATCHED, all_collectives

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.ranks.together.job import Job
    from tracetui.parsers import Trace

_TIMES = ("recorded_begin", "recorded_end")


def own_calls(found: Sequence[Job], trace: Trace) -> pl.DataFrame | None:
    """The matched calls of a recording (`collectives.table.MATCHED`), by the job of its pass.

    Args:
        found: the jobs of its run.
        trace: one of the run's recordings.

    Returns:
        None where the job of this recording is not known, or none of its calls was matched.
    """
    rank = trace.info.rank
    passes = {job.recorded_pass: job for job in reversed(found)}
    job = passes.get(trace.info.recorded_pass) or passes.get("rich") or passes.get(None)
    if job is None or rank is None:
        return None
    shift = trace.info.base_time or 0
    size = pl.col("group_size").fill_null(job.world_size)
    transfers = job.collectives.select("instance", "transfer_ns", whole=pl.col("ranks") >= size)
    calls = job.calls.filter(pl.col("rank") == rank).join(transfers, on="instance", how="inner")
    calls = calls.select(
        *(pl.col(name) - shift for name in _TIMES), "whole", waiting_ns="wait_ns", transfer_ns="transfer_ns"
    )
    # two calls of the same moments are several operations in one kernel, which no other rank's can be matched with
    calls = calls.unique(_TIMES, keep="none")
    timed = all_collectives(trace).filter(pl.col("part_of").is_null())
    rows = timed.select("row", recorded_begin="begin", recorded_end="end").join(calls, on=_TIMES, how="inner")
    return rows.select(pl.col(name).cast(dtype) for name, dtype in MATCHED.items()) if rows.height else None
