"""Transfers by group and pair of ranks: what one takes longer than its like, and which link that is.

Groups of one kind work alike: nodes, stages of a pipeline, tensor groups. A pair is one direction: who sends to whom.
Where hosts are known, links between hosts are compared with each other, and those within hosts are; these also with
what their bytes need at most over the link that connects the GPUs of a host.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracetui.analysis.collectives import expected_ns, with_bandwidth
from tracetui.analysis.ranks.matched import CHANNEL_BITS, EXCHANGE
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.analysis.ranks.waiting import Waiting
from tracetui.analysis.roofline.peaks import link_named
from tracetui.parsers.arrays import Ints

SLOWER = 1.5
"""The median transfer of a slow link, over that of its like."""
STEP_PERCENT = 2.0
"""Of the step: what it has to take longer."""
LEAST_LINKS = 3
"""Of two nothing says which is slow, unless the time that their bytes need is known."""
LINKS: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "group": pl.String(),  # of a pair that of both
    "ranks": pl.List(pl.Int64()),  # of a pair who sends, then who receives
    "bytes": pl.Int64(),
    "per_step": pl.Float64(),
    "transfer_ns": pl.Float64(),  # the median transfer
    "usual_ns": pl.Float64(),  # the median of its like; where that is slow too, or unknown, `most_ns`
    "like": pl.Int64(),  # how many these are, itself among them
    "more_ns": pl.Float64(),  # per step, all transfers over the usual one
    "busbw_gbps": pl.Float64(),
    "usual_busbw_gbps": pl.Float64(),
    "link": pl.String(),  # what connects its GPUs; null between hosts, or where hosts or GPUs are not known
    "least_ns": pl.Float64(),  # what the bytes take over it at least, and at most; null where that is not known
    "most_ns": pl.Float64(),
}
_LIKE = ("kind", "what", "group_size", "bytes", "across", "whole")
_LINK = ("group_id", "channel")


def transfers(found: Waiting, summaries: Sequence[RankSummary], names: tuple[str, ...]) -> pl.DataFrame:
    """A row per instance: its link, its like, its transfer and the usual one of its like.

    Args:
        found: the waiting.
        summaries: by place.
        names: by group, what people call it.
    """
    calls = found.calls
    channel = pl.col("channel").cast(pl.Int64).first()
    paired = channel.is_between(0, EXCHANGE - 1)
    hosts, devices = (
        pl.Series(values, dtype=pl.Categorical).gather(calls["place"])
        for values in ([one.host for one in summaries], [one.device for one in summaries])
    )
    groups = pl.DataFrame(
        {"group_id": range(len(names)), "group": names}, {"group_id": pl.Int64(), "group": pl.String()}
    )
    frame = (
        calls.frame.with_columns(host=hosts, device=devices)
        .group_by("instance", maintain_order=True)
        .agg(
            pl.col("group_id").first().cast(pl.Int64),
            channel=channel,
            kind=pl.when(paired).then(pl.lit("send")).otherwise(pl.col("kind").first().cast(pl.String)),
            group_size=pl.when(channel >= 0).then(2).otherwise(pl.col("group_size").max().cast(pl.Int64)),
            bytes=pl.max_horizontal(pl.col("bytes_in").max(), pl.col("bytes_out").max()).cast(pl.Int64),
            across=pl.col("host").n_unique() > 1,
            # GPUs of one kind, on one host
            gpu=pl.when(
                (pl.col("host").n_unique() == 1)
                & (pl.col("device").n_unique() == 1)
                & pl.col("host").is_not_null().all()
            ).then(pl.col("device").first().cast(pl.String)),
            ranks=pl.col("rank").cast(pl.Int64),
            present=pl.len(),
        )
        # where a rank is missing, a transfer may be waiting for it
        .with_columns(whole=(pl.col("present") >= pl.col("group_size")).fill_null(value=True))
        .join(groups, on="group_id", how="left", maintain_order="left")
        .with_columns(
            pl.Series("transfer", found.transfer),
            # `tp 0-7` and `tp 8-15` are one kind of group
            what=pl.col("group").str.replace(r" [\d,…-]+$", ""),
            ranks=pl.when(pl.col("channel").is_between(0, EXCHANGE - 1))
            .then(pl.concat_list(pl.col("channel") // (1 << CHANNEL_BITS), pl.col("channel") % (1 << CHANNEL_BITS)))
            .otherwise(pl.col("ranks").list.sort()),
        )
    )
    frame = frame.with_columns(of_link=pl.col("transfer").median().over(*_LINK, *_LIKE))
    # each link counts once, however often it is used
    first = pl.int_range(pl.len()).over(*_LINK, *_LIKE) == 0
    usual = pl.col("of_link").filter(first).quantile(0.5, "lower").over(_LIKE)
    frame = _expected(frame.with_columns(usual=usual, like=first.sum().over(_LIKE)))
    told = pl.when(pl.col("like") >= LEAST_LINKS).then("usual").otherwise("of_link") > SLOWER * pl.col("most_ns")
    told &= pl.col("whole")
    return frame.with_columns(
        pl.when(told).then("most_ns").otherwise("usual").alias("usual"), by_size=told.fill_null(value=False)
    )


def _expected(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with `link`, `least_ns` and `most_ns`: what their bytes take over the link of their GPUs."""
    unknown = {"link": pl.String(), "least_ns": pl.Float64(), "most_ns": pl.Float64()}
    frame = frame.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in unknown.items())
    for gpu in frame["gpu"].drop_nulls().unique().sort():
        if (link := link_named(gpu)) is None:
            continue
        least, most = expected_ns(link)
        told = {"link": pl.lit(link.name), "least_ns": least, "most_ns": most}
        mine = pl.col("gpu") == gpu
        frame = frame.with_columns(
            pl.when(mine).then(value).otherwise(name).alias(name) for name, value in told.items()
        )
    return frame


def beyond_usual(found: pl.DataFrame) -> Ints:
    """Per instance: how much longer its transfer took than the usual one of its like."""
    more: Ints = found.select((pl.col("transfer") - pl.col("usual")).clip(0).cast(pl.Int64)).to_series().to_numpy()
    return more


def slow_links(found: pl.DataFrame, steps: int, step_ns: float) -> pl.DataFrame:
    """The links that are slower than their like (`LINKS`), the most costly first.

    Args:
        found: `transfers`.
        steps: what "per step" divides by.
        step_ns: of the median rank.
    """
    table = (
        found.filter(pl.col("whole") & ((pl.col("like") >= LEAST_LINKS) | pl.col("by_size")))
        .group_by(*_LINK, *_LIKE)
        .agg(
            pl.col("group", "ranks", "link", "least_ns", "most_ns").first(),
            per_step=pl.len() / steps,
            transfer_ns=pl.col("of_link").first(),
            usual_ns=pl.col("usual").first(),
            like=pl.col("like").first().cast(pl.Int64),
            more_ns=(pl.col("transfer") - pl.col("usual")).sum() / steps,
        )
        .filter(
            (pl.col("transfer_ns") >= SLOWER * pl.col("usual_ns")) & (pl.col("more_ns") >= STEP_PERCENT / 100 * step_ns)
        )
        .sort("more_ns", "group_id", "channel", descending=[True, False, False])
    )
    for moved, name in (("transfer_ns", "busbw_gbps"), ("usual_ns", "usual_busbw_gbps")):
        bandwidth = with_bandwidth(table.with_columns(moved_ns=pl.col(moved)), None)["busbw_gbps"]
        table = table.with_columns(bandwidth.alias(name).cast(pl.Float64))
    return table.select(pl.col(name).cast(dtype) for name, dtype in LINKS.items())
