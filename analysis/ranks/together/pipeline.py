"""Stages of a pipeline: how long each has nothing to do, against what its schedule can't avoid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.ranks.matching.groups import CHANNEL_BITS, EXCHANGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tracetui.analysis.ranks.matching.matched import Matched

    Ints = NDArray[np.int64]

STAGES: dict[str, pl.DataType] = {
    "stage": pl.Int64(),
    "ranks": pl.Int64(),
    "step_ns": pl.Float64(),  # the median rank's, as all that follows
    "own_gpu_ns": pl.Float64(),
    "bubble_ns": pl.Float64(),  # its GPU computes nothing: idle, or waits in sends and receives
    "bubble_percent": pl.Float64(),
    "ideal_percent": pl.Float64(),  # (p - 1) / (m + p - 1) of p stages and m micro-batches (GPipe, 1F1B)
    "micro_batches": pl.Float64(),
}


def stages(matched: Matched, ranks: Sequence[int]) -> Ints:
    """The stage of each rank: its place in the group in which it sends and receives; 0 without."""
    found = np.zeros(len(ranks), np.int64)
    sent = sends(matched)
    if not sent.height:
        return found
    at = {rank: place for place, rank in enumerate(ranks)}
    for group in sent["group_id"].unique().to_list():
        members = matched.group_ranks[group] or tuple(
            sorted(sent.filter(pl.col("group_id") == group)["rank"].unique().to_list())
        )
        if group in _all_ranks(matched, len(ranks)):
            members = _in_order(sent.filter(pl.col("group_id") == group))
        for stage, rank in enumerate(members):
            if rank in at:
                found[at[rank]] = stage
    return found


def sends(matched: Matched) -> pl.DataFrame:
    """All sends and receives whose other rank is known: rank, step, kind, group_id, channel.

    Those that share a kernel with others can't be matched, but say as well who sends to whom, and how often.
    """
    columns = ("rank", "step", "kind", "group_id", "channel")
    alone = matched.calls.filter(pl.col("channel").is_between(0, EXCHANGE - 1))
    return pl.concat([alone.select(columns), matched.parts.select(columns)])


def _all_ranks(matched: Matched, count: int) -> set[int]:
    """Groups of all ranks, in which a pipeline's ranks are not told by their place."""
    return {number for number, ranks in enumerate(matched.group_ranks) if not ranks or len(ranks) >= count > 2}


def _in_order(sent: pl.DataFrame) -> tuple[int, ...]:
    """The ranks in the order in which the first sends pass through them."""
    pairs = {
        (int(channel) >> CHANNEL_BITS, int(channel) & ((1 << CHANNEL_BITS) - 1)) for channel in sent["channel"].unique()
    }
    return tuple(sorted({rank for pair in pairs for rank in pair}))


def bubbles(
    steps: pl.DataFrame, stage: Ints, calls: pl.DataFrame, sent: pl.DataFrame, counts: Sequence[int]
) -> pl.DataFrame:
    """A row per stage (`STAGES`); empty without a pipeline.

    A stage's bubble is the time of its step in which its GPU computes nothing, less what its gradients' collectives
    take: between its micro-batches it is idle or waits in sends and receives.
    """
    last = int(stage.max(initial=0)) + 1
    if last < 2 or not steps.height:
        return pl.DataFrame(schema=STAGES)
    by_rank = dict(zip(steps["rank"].unique(maintain_order=True).to_list(), stage.tolist(), strict=True))
    other = calls.filter(pl.col("channel") < 0).group_by("rank").agg(gradients=pl.col("exposed_ns").sum())
    own = sent.filter(pl.col("kind") == "send").group_by("rank").agg(sent=pl.len(), to=pl.col("channel").n_unique())
    table = (
        steps.group_by("rank", maintain_order=True)
        .agg(pl.col("step_ns", "compute_ns", "own_gpu_ns").sum())
        .with_columns(
            stage=pl.col("rank").replace_strict(by_rank, return_dtype=pl.Int64),
            count=pl.Series(np.maximum(np.array(counts), 1)),
        )
        .join(other, on="rank", how="left")
        .join(own, on="rank", how="left")
        .with_columns(
            bubble=pl.col("step_ns") - pl.col("compute_ns") - pl.col("gradients").fill_null(0),
            micro=pl.col("sent") / pl.col("to") / pl.col("count"),
        )
    )
    micro = table["micro"].median()
    ideal = 100 * (last - 1) / (float(micro) + last - 1) if micro else None  # type: ignore[arg-type]
    per = pl.col("count")
    return (
        table.group_by("stage")
        .agg(
            ranks=pl.len(),
            step_ns=(pl.col("step_ns") / per).median(),
            own_gpu_ns=(pl.col("own_gpu_ns") / per).median(),
            bubble_ns=(pl.col("bubble") / per).median(),
            bubble_percent=(100 * pl.col("bubble") / pl.col("step_ns")).median(),
        )
        .with_columns(ideal_percent=pl.lit(ideal, pl.Float64), micro_batches=pl.lit(micro, pl.Float64))
        .sort("stage")
        .select(pl.col(name).cast(dtype) for name, dtype in STAGES.items())
    )
