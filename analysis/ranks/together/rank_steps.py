"""Every step of every rank: what it took, and how long the rank waited in it for others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.ranks import summary as contract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.analysis.ranks.together.waiting import Waiting

STEPS: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    **contract.STEPS,
    "step_ns": pl.Int64(),
    "wait_ns": pl.Int64(),  # in collectives that the step launched; null where none was matched
    "transfer_ns": pl.Int64(),
}


def common_steps(summaries: Sequence[RankSummary]) -> tuple[list[RankSummary], tuple[int, ...]]:
    """The summaries without the steps that others lack, and the steps left; none where nothing was left out.

    A rank whose program died, or whose recording was cut, lacks the last steps, and another waits in the first of these
    for it: averages of other steps would compare that with nothing. One that has less than half of the most steps
    is compared by its own, and takes none from the others.
    """
    marked = {one.rank: _numbers(one) for one in summaries if _numbers(one)}
    most = max(map(len, marked.values()), default=0)
    long = [steps for steps in marked.values() if 2 * len(steps) >= most]
    common = set.intersection(*long) if long else set()
    if not common or all(steps <= common for steps in marked.values()):
        return list(summaries), ()
    return [_only(one, common) if _numbers(one) & common else one for one in summaries], tuple(sorted(common))


def shared_steps(summaries: Sequence[RankSummary]) -> tuple[int, ...]:
    """The steps that all ranks have, in which alone their collectives can be matched; none without marks."""
    marked = [_numbers(one) for one in summaries if _numbers(one)]
    return tuple(sorted(set.intersection(*marked))) if marked else ()


def _numbers(summary: RankSummary) -> set[int]:
    """The numbers of its steps; none without marks."""
    return {step for step in summary.steps["step"].to_list() if step >= 0}


def _only(summary: RankSummary, steps: set[int]) -> RankSummary:
    """The summary with these steps alone; its collectives stay, which others are matched with."""
    chosen = pl.col("step").is_in(sorted(steps))
    return replace(summary, steps=summary.steps.filter(chosen), work=summary.work.filter(chosen))


def step_counts(summaries: Sequence[RankSummary]) -> list[int]:
    """What "per step" divides by, for each rank: its steps, or 1 without."""
    return [max(one.steps.height, 1) for one in summaries]


def rank_steps(summaries: Sequence[RankSummary], calls: pl.DataFrame, found: Waiting) -> pl.DataFrame:
    """The steps of all ranks (`STEPS`)."""
    if not summaries:
        return pl.DataFrame(schema=STEPS)
    heights = [one.steps.height for one in summaries]
    rank = np.repeat([one.rank for one in summaries], heights)
    frame = pl.concat([one.steps for one in summaries]).with_columns(
        rank=pl.Series(rank, dtype=pl.Int64), step_ns=pl.col("end") - pl.col("begin")
    )
    waits = pl.DataFrame(
        {
            "rank": calls["rank"],
            "step": calls["step"],
            "wait_ns": found.wait,
            "transfer_ns": np.repeat(found.transfer, found.size),
        }
    )
    lone = frame.group_by("rank").agg(whole=(pl.col("step") < 0).all())
    whole = waits.join(lone, on="rank", how="left", maintain_order="left")["whole"]
    waits = waits.with_columns(
        step=waits["step"].zip_with(~whole, pl.repeat(-1, waits.height, dtype=pl.Int64, eager=True))
    )
    summed = waits.drop_nulls("step").group_by("rank", "step").agg(pl.col("wait_ns", "transfer_ns").sum())
    joined = frame.join(summed, on=["rank", "step"], how="left", maintain_order="left")
    return joined.select(pl.col(name).cast(dtype) for name, dtype in STEPS.items())
