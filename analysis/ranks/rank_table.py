"""One row per rank of a distributed run: what its own recording says, and what all say together."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.overview import overview
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers.runs.run import main_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.ranks.together.job import Job
    from tracetui.parsers import Run

SCHEMA = {
    "rank": pl.Int64(),
    "steps": pl.Int64(),
    "step_ns": pl.Float64(),
    "kernel_ns": pl.Float64(),
    "compute_ns": pl.Float64(),
    "communication_ns": pl.Float64(),
    "idle_ns": pl.Float64(),
    "behind_percent": pl.Float64(),
}
"""What the traces say, or their summaries, without a look at the others but for `behind_percent`."""
TOGETHER = {
    "own_gpu_ns": pl.Float64(),
    "silent_ns": pl.Float64(),
    "loader_ns": pl.Float64(),
    "excess_ns": pl.Float64(),
    "wait_ns": pl.Float64(),
    "late_ns": pl.Float64(),
    "last": pl.Int64(),
    "collectives": pl.Int64(),
    "clean_step_ns": pl.Float64(),
    "straggler": pl.Boolean(),
}
"""What all ranks say together (`job.Job.ranks`)."""


def rank_table(run: Run, scope: Scope | None = None) -> pl.DataFrame:
    """The ranks of a run that was read whole, per step (`SCHEMA`).

    Returns:
        rank, steps, step_ns (mean), kernel_ns (any kernel runs), compute_ns and communication_ns (either kind runs),
        idle_ns (nothing runs between the first step's start and the last one's end), all per step; behind_percent (own
        compute over the median of the ranks). Empty for a run of fewer than two ranks.
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
    return pl.DataFrame(rows, schema=SCHEMA).sort("rank")


def judged(table: pl.DataFrame, found: Sequence[Job]) -> pl.DataFrame:
    """The table with what all ranks say together (`TOGETHER`).

    In synchronous training all ranks step together, and the fast ones wait inside collectives for the slow ones: step
    times say little, and how long a rank computes says nothing of its host. A straggler is who is late in the program
    (`late.Answers.program`), by what a profiler cannot add.

    Args:
        table: `SCHEMA`.
        found: the jobs of the run, the rich one first.
    """
    if not found or not table.height:
        return table.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in TOGETHER.items())
    together = found[0].ranks.rename({"late": "straggler"}).select("rank", *TOGETHER)
    return table.join(together, on="rank", how="left", maintain_order="left").cast(TOGETHER)  # type: ignore[arg-type]
