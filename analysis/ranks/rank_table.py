"""One row per rank of a distributed run: who computes, who waits, who holds the others up."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.overview import overview
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers.runs.run import main_of

if TYPE_CHECKING:
    from tracetui.parsers import Run

STRAGGLER_PERCENT = 5.0
"""How far a rank's own compute time must lie above the median of all ranks."""
SCHEMA = {
    "rank": pl.Int64(),
    "steps": pl.Int64(),
    "step_ns": pl.Float64(),
    "kernel_ns": pl.Float64(),
    "compute_ns": pl.Float64(),
    "communication_ns": pl.Float64(),
    "idle_ns": pl.Float64(),
    "behind_percent": pl.Float64(),
    "straggler": pl.Boolean(),
}


def rank_table(run: Run, scope: Scope | None = None) -> pl.DataFrame:
    """Compares the ranks of a run, per step.

    In synchronous training all ranks step together, and the fast ones wait inside collectives for the slow ones. So
    step times say little, and the rank that spends the least time in communication is the one that the others wait for.
    A rank is therefore judged by its own compute time.

    Returns:
        rank, steps, step_ns (mean), kernel_ns (any kernel runs), compute_ns and communication_ns (either kind runs),
        idle_ns (nothing runs between the first step's start and the last one's end), all per step; behind_percent (own
        compute over the median of the ranks), straggler. Empty for a run of fewer than two ranks.
    """
    rows: list[dict[str, Any]] = []
    for rank in run.ranks:
        trace = main_of([trace for trace in run.traces if trace.info.rank == rank])
        found = overview(select(trace, scope or Scope()))
        steps = max(found.per_step.height, 1)
        compute, collective, both = (
            int(found.per_step[f"{name}_ns"].sum()) / steps for name in ("computation", "collective", "overlap")
        )
        whole = found.idle.filter(pl.col("stream").is_null())
        rows.append(
            {
                "rank": rank,
                "steps": found.steps,
                "step_ns": found.average_step_ns,
                "kernel_ns": compute + collective - both,
                "compute_ns": compute,
                "communication_ns": collective,
                "idle_ns": int(whole["idle_ns"].sum()) / steps if whole.height else None,
            }
        )
    if len(rows) < 2:
        return pl.DataFrame(schema=SCHEMA)
    middle = median(row["compute_ns"] for row in rows)
    for row in rows:
        behind = 100 * (row["compute_ns"] - middle) / middle if middle else None
        row["behind_percent"] = behind
        row["straggler"] = behind is not None and behind > STRAGGLER_PERCENT
    return pl.DataFrame(rows, schema=SCHEMA).sort("rank")
