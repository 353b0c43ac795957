"""Which ranks of a job are here, and their table: what each recording says, and what all say together."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.overview import overview
from tracetui.analysis.ranks.steps import WHOLE
from tracetui.analysis.ranks.together.tables import common_steps
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers.runs.run import main_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.analysis.ranks.summary import RankSummary
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


def world_size(summaries: Iterable[RankSummary]) -> int | None:
    """How many ranks the job has, as its recordings say; None where none does."""
    return max((found.world_size for found in summaries if found.world_size is not None), default=None)


def missing(summaries: Sequence[RankSummary]) -> tuple[int, ...]:
    """The ranks of the job that have no summary here; none where its size is not known."""
    here = {found.rank for found in summaries}
    return tuple(rank for rank in range(world_size(summaries) or 0) if rank not in here)


def of_one_pass(summaries: Sequence[RankSummary]) -> list[RankSummary]:
    """One summary per rank: that of the rich recording where there are two."""
    chosen: dict[int, RankSummary] = {}
    for found in summaries:
        if found.rank not in chosen or found.recorded_pass == "rich":
            chosen[found.rank] = found
    return [chosen[rank] for rank in sorted(chosen)]


def rank_rows(summaries: Sequence[RankSummary], scope: Scope) -> pl.DataFrame:
    """The table that `rank_table` makes of traces, from summaries.

    Empty for fewer than two ranks, and for a scope that summaries can't answer: some devices, a stretch of time, or
    steps by the name of a range.
    """
    if scope.devices is not None or scope.window is not None or scope.steps_by is not None:
        return pl.DataFrame(schema=SCHEMA)
    compared, _ = common_steps(of_steps(of_one_pass(summaries), scope))
    rows = [row for found in compared if (row := _row(found)) is not None]
    if len(rows) < 2:
        return pl.DataFrame(schema=SCHEMA)
    known = [row["compute_ns"] for row in rows if row["compute_ns"] is not None]
    middle = median(known) if known else 0
    for row in rows:
        behind = 100 * (row["compute_ns"] - middle) / middle if middle and row["compute_ns"] is not None else None
        row["behind_percent"] = behind
    return pl.DataFrame(rows, schema=SCHEMA).sort("rank")


def _row(found: RankSummary) -> dict[str, Any] | None:
    """One rank per step; None where the scope leaves it no step."""
    steps = found.steps
    marked = steps.height > 0 and steps["step"][0] != WHOLE
    if not steps.height:
        return None

    def mean(*columns: str) -> float | None:
        values = [steps[name] for name in columns]
        if any(one.null_count() for one in values):
            return None
        return float(sum(int(one.sum()) for one in values)) / steps.height

    overlap = mean("overlap_ns")
    both = mean("computation_ns", "communication_ns")
    return {
        "rank": found.rank,
        "steps": steps.height if marked else 0,
        "step_ns": float((steps["end"] - steps["begin"]).sum()) / steps.height,
        "kernel_ns": None if both is None or overlap is None else both - overlap,
        "compute_ns": mean("computation_ns"),
        "communication_ns": mean("communication_ns"),
        "idle_ns": mean("idle_ns"),
    }


def of_steps(summaries: Sequence[RankSummary], scope: Scope | None) -> list[RankSummary]:
    """The summaries without the steps that a scope leaves out; those without steps stay as they are."""
    if scope is None or (scope.steps is None and not scope.skip_steps):
        return list(summaries)
    return [_with_steps(one, scope) for one in summaries]


def _with_steps(found: RankSummary, scope: Scope) -> RankSummary:
    """The summary without the steps that the scope leaves out; one without steps stays as it is."""
    steps = found.steps
    if not steps.height or steps["step"][0] == WHOLE:
        return found
    steps = steps.slice(scope.skip_steps)
    if scope.steps is not None:
        steps = steps.filter(pl.col("step").is_between(*scope.steps))
    chosen = pl.col("step").is_in(steps["step"].implode())
    return replace(found, steps=steps, collectives=found.collectives.filter(chosen), work=found.work.filter(chosen))
