"""Which ranks of a job are here, and the table of ranks from their summaries."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.ranks.rank_table import SCHEMA
from tracetui.analysis.ranks.steps import WHOLE
from tracetui.analysis.ranks.together.tables import common_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.analysis.scope import Scope


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
    """The table that `rank_table.rank_table` makes of traces, from summaries.

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
