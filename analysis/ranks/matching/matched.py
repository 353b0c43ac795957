"""Which collectives of different ranks are one: by group and sequence number, else by order.

A recording may begin within another step than its neighbour's, and hold work that was queued before it began. So order
is counted from the end of each recording, which the ranks have in common; where sizes or times speak against that, the
longest run that fits is taken. What can't be matched is counted with its reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.ranks.matching import groups, order
from tracetui.analysis.ranks.matching.groups import CHANNEL_BITS, EXCHANGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.ranks.summary import RankSummary

SAME_BYTES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Kinds whose calls have one size on all ranks; others may be uneven, as all-to-all."""
UNMATCHED = {"rank": pl.Int64(), "reason": pl.String(), "count": pl.Int64()}
COALESCED, NO_GROUP, NOT_EVERYWHERE, DIFFERENT, UNSHARED = (
    "of several operations in one kernel, of which the recording does not say that all are with one other rank: whom"
    " it waits for can't be told",
    "of a process group that is not recorded, where the job has several",
    "not in the recordings of all of their ranks",
    "of another size or kind than on the other ranks",
    "in steps that not all ranks have",
)


class Matched(Struct, frozen=True):
    """The collectives that all present ranks of a group share."""

    calls: pl.DataFrame
    """One rank's call a row: the columns of `summary.COLLECTIVES` with ``place`` (of the summary), ``rank`` and
    ``instance``, by instance, then rank."""
    group_names: tuple[str, ...]
    """By ``group_id``: what people call the group."""
    group_ranks: tuple[tuple[int, ...], ...]
    """By ``group_id``; empty where they are not known."""
    unmatched: pl.DataFrame
    parts: pl.DataFrame
    """Sends and receives that share a kernel with others, in the columns of `calls` but ``instance``."""
    by: str
    """``seq``, ``order``, or both as ``seq, order``; empty where nothing was matched."""

    @property
    def instances(self) -> int:
        """How many collectives were matched."""
        return int(self.calls["instance"].n_unique()) if self.calls.height else 0


def match(summaries: Sequence[RankSummary], steps: Sequence[int] = ()) -> Matched:
    """Matches the collectives of all ranks.

    Args:
        summaries: of all ranks.
        steps: those that all ranks have: collectives of others are left out, as times per step are of these.
    """
    known = groups.of_job(summaries)
    frame = known.calls
    lost: list[pl.DataFrame] = []

    def set_aside(rows: pl.Expr, reason: str) -> None:
        nonlocal frame
        gone = frame.filter(rows)
        if gone.height:
            counted = gone.group_by("rank").agg(count=pl.len().cast(pl.Int64))
            lost.append(counted.select("rank", pl.lit(reason).alias("reason"), "count"))
            frame = frame.filter(~rows)

    shared = pl.col("coalesced").fill_null(value=False)
    parts = frame.filter(shared & (pl.col("channel") >= 0))
    frame = _with_exchanges(frame.filter(~(shared & (pl.col("channel") >= 0))), parts)
    set_aside(shared, COALESCED)
    set_aside(pl.col("group_id") < 0, NO_GROUP)
    frame = order.keyed(frame)
    by = ", ".join(frame["by"].unique().sort(descending=True).to_list()) if frame.height else ""
    frame = frame.sort("group_id", "channel", "key", "place")
    instance = (
        pl.struct("group_id", "channel", "key").rle_id().cast(pl.Int64) if frame.height else pl.lit(0, dtype=pl.Int64)
    )
    frame = frame.with_columns(instance=instance)
    frame = frame.with_columns(odd=_odd(frame))
    set_aside(pl.col("odd"), DIFFERENT)
    here = _members_here(frame, known)
    frame = frame.with_columns(here=here)
    set_aside((pl.len().over("instance") < pl.col("here")) | (pl.len().over("instance") < 2), NOT_EVERYWHERE)
    if steps:
        # a rank whose mark of a step is missing has its calls, but they are of no step
        step = pl.col("step").max().over("instance")
        set_aside((step.is_not_null() & ~step.is_in(list(steps))), UNSHARED)
    if frame.height:
        frame = frame.with_columns(instance=pl.col("instance").rle_id().cast(pl.Int64))
    unmatched = pl.concat(lost).sort("rank", "reason") if lost else pl.DataFrame(schema=UNMATCHED)
    return Matched(frame.drop("odd", "by"), known.names, known.ranks, unmatched, parts, by)


def _with_exchanges(frame: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """The calls, in which kernels whose sends and receives are all with one other rank are exchanges of two ranks.

    Such a kernel ends when both are done, so it tells as much as a collective of the two. One with several peers ends
    when the last of them is done, which may have waited for a third.
    """
    source, target = pl.col("channel") // (1 << CHANNEL_BITS), pl.col("channel") % (1 << CHANNEL_BITS)
    pair = pl.min_horizontal(source, target) * (1 << CHANNEL_BITS) + pl.max_horizontal(source, target)
    size, sends = pl.max_horizontal("bytes_in", "bytes_out"), pl.col("kind") == "send"
    same = ("place", "begin", "end")
    known = size.null_count() == 0
    told = (
        parts.with_columns(pair=pair)
        .group_by(*same)
        .agg(
            its_group=pl.col("group_id").first(),
            pair=pl.col("pair").first(),
            lone=(pl.col("pair").n_unique() == 1) & (pl.col("group_id").n_unique() == 1),
            sent=pl.when(known).then(size.filter(sends).sum()),
            got=pl.when(known).then(size.filter(~sends).sum()),
        )
        .filter("lone")
    )
    found = frame.join(told, on=list(same), how="left", maintain_order="left")
    chosen = pl.col("pair").is_not_null() & pl.col("coalesced").fill_null(value=False)
    return found.with_columns(
        group_id=pl.when(chosen).then("its_group").otherwise("group_id"),
        channel=pl.when(chosen).then(pl.col("pair") + EXCHANGE).otherwise("channel"),
        bytes_in=pl.when(chosen).then("sent").otherwise("bytes_in"),
        bytes_out=pl.when(chosen).then("got").otherwise("bytes_out"),
        coalesced=pl.col("coalesced") & ~chosen,
    ).select(frame.columns)


def _odd(frame: pl.DataFrame) -> pl.Series:
    """Which calls differ from what most ranks of their instance did."""
    if not frame.height:
        return pl.Series([], dtype=pl.Boolean)
    kind = pl.when(pl.col("channel") >= 0).then(pl.lit("p2p")).otherwise(pl.col("kind"))
    size = pl.when(pl.col("kind").is_in(SAME_BYTES)).then(pl.col("bytes_in"))
    told = frame.select("instance", kind=kind.cast(pl.Categorical).to_physical(), size=size)
    several = told.group_by("instance").agg(
        mixed=(pl.col("kind").n_unique() > 1) | (pl.col("size").drop_nulls().n_unique() > 1)
    )
    mixed = several.filter("mixed")["instance"]
    if not mixed.len():
        return pl.repeat(value=False, n=frame.height, eager=True)
    # few instances are mixed: what most have is looked for among them only
    usual = (
        told.filter(pl.col("instance").is_in(mixed.implode()))
        .group_by("instance")
        .agg(pl.col("kind").mode().min().alias("k"), pl.col("size").drop_nulls().mode().min().alias("s"))
    )
    joined = told.join(usual, on="instance", how="left", maintain_order="left")
    differs = (pl.col("kind") != pl.col("k")) | (pl.col("size") != pl.col("s"))
    return joined.select(differs.fill_null(value=False)).to_series()


def _members_here(frame: pl.DataFrame, known: groups.Known) -> pl.Series:
    """Of each call: how many ranks of its group there are recordings of."""
    count = np.array([*known.here, 0], np.int64)
    here = count[frame["group_id"].to_numpy()]
    return pl.Series(np.where(frame["channel"].to_numpy() >= 0, 2, here))
