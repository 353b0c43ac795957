"""Collectives by kind, group and size, the calls of one such row, and sends and receives by pair of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.collectives.bandwidth import Link, with_bandwidth
from tracetui.analysis.collectives.frame import collectives

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tracetui.analysis.selection import Selection

BY = ("kind", "group", "bytes")
"""What the rows of `by_size` differ in."""
TRANSFER, RANKS_HERE, SHORTEST, WHOLE = "transfer", "ranks here", "shortest call", "whole call"
"""What a bandwidth rests on: the median time that moving took, as the other ranks tell; the same of a group of which
ranks are missing, one of which may have come last; the shortest call of that size, since a call's time is waiting and
transfer; the only call, waiting included. All but the first make it a lower bound."""
MATCHED: dict[str, pl.DataType] = {
    "row": pl.UInt32(),
    "whole": pl.Boolean(),
    "waiting_ns": pl.Int64(),
    "transfer_ns": pl.Int64(),
}
"""What is known of a call once the other ranks' are matched with it, and whether all of them are here; `row` is that in
`Trace.collectives`. Without all of them waiting is at least, and transfer at most, what is said."""
_TWO_WAYS = ("send", "recv")


def calls(sel: Selection, link: Link | None = None, matched: pl.DataFrame | None = None) -> pl.DataFrame:
    """Every collective in scope that has a time of its own, in the order in which they begin.

    Args:
        sel: the selection.
        link: what connects the GPUs.
        matched: `MATCHED`, where the other ranks' recordings are known.

    Returns:
        The columns of `frame.collectives`, texts as such, and `bytes` (the larger side), `duration_ns`, `queued_ns`
        (from launch to begin), `waiting_ns`, `transfer_ns`, `moved_ns`, `algbw_gbps`, `busbw_gbps`, `link_percent`.
    """
    found = collectives(sel).filter(pl.col("part_of").is_null())
    texts = [name for name, dtype in found.schema.items() if isinstance(dtype, pl.Categorical | pl.Enum)]
    found = found.with_columns(pl.col(texts).cast(pl.String)).with_columns(
        bytes=pl.max_horizontal("bytes_in", "bytes_out"),
        duration_ns=pl.col("end") - pl.col("begin"),
        queued_ns=pl.col("begin") - pl.col("launched"),
    )
    known = pl.DataFrame(schema=MATCHED) if matched is None else matched.select(list(MATCHED)).cast(MATCHED)  # type: ignore[arg-type]
    found = found.join(known, on="row", how="left", maintain_order="left")
    return with_bandwidth(found.with_columns(moved_ns=pl.coalesce("transfer_ns", "duration_ns")), link)


def by_size(sel: Selection, link: Link | None = None, matched: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per kind, group and size of collectives, the longest total first.

    A call whose time is not recorded counts among `calls`, and in no sum. Of one rank, waiting and transfer are null,
    and the bandwidth is that of the shortest call, a lower bound: each call waits for the ranks that come later.

    Args:
        sel: the selection.
        link: what connects the GPUs.
        matched: `MATCHED`, where the other ranks' recordings are known.
    """
    found = calls(sel, link, matched)
    timed = pl.col("duration_ns").is_not_null()
    several = timed.sum() > 1

    def total(name: str) -> pl.Expr:
        """The sum; null where any timed call lacks it."""
        missing = (pl.col(name).is_null() & timed).any() | ~timed.any()
        return pl.when(~missing).then(pl.col(name).sum()).alias(name)

    rows = found.group_by(BY, maintain_order=True).agg(
        pl.col("group_description", "group_size", "group_ranks").drop_nulls().first(),
        element_type=pl.when(pl.col("element_type").n_unique() == 1).then(pl.col("element_type").first()),
        coalesced=pl.col("coalesced").any(),
        calls=pl.len(),
        total_ns=total("duration_ns"),
        mean_ns=pl.col("duration_ns").mean(),
        shortest_ns=pl.col("duration_ns").min(),
        waiting_ns=total("waiting_ns"),
        transfer_ns=total("transfer_ns"),
        middle_ns=pl.col("transfer_ns").median(),
        exposed_ns=total("exposed_ns"),
        rests_on=pl.when(pl.col("transfer_ns").is_not_null().any())
        .then(pl.when(pl.col("whole").all()).then(pl.lit(TRANSFER)).otherwise(pl.lit(RANKS_HERE)))
        .when(several)
        .then(pl.lit(SHORTEST))
        .when(timed.any())
        .then(pl.lit(WHOLE)),
    )
    rows = rows.with_columns(
        moved_ns=pl.coalesce("middle_ns", "shortest_ns"),
        exposed_percent=100 * pl.col("exposed_ns") / pl.when(pl.col("total_ns") > 0).then("total_ns"),
    )
    rows = with_bandwidth(rows, link).with_columns(
        rests_on=pl.when(pl.col("algbw_gbps").is_not_null()).then("rests_on")
    )
    return rows.drop("moved_ns", "middle_ns").sort(
        "total_ns", "kind", "bytes", descending=[True, False, True], nulls_last=True, maintain_order=True
    )


def calls_of(found: pl.DataFrame, row: Mapping[str, Any]) -> pl.DataFrame:
    """The calls behind a row of `by_size`."""
    return found.filter(pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row[name])) for name in BY))


def by_pair(sel: Selection) -> pl.DataFrame:
    """Sends and receives by pair of ranks: what went which way, the most bytes first.

    Ranks are numbered as the recording does, this rank's own as its header does. Operations that share a kernel have no
    time of their own, so `total_ns` is null where any does.
    """
    own = sel.trace.info.rank
    found = collectives(sel).with_columns(pl.col("kind", "group").cast(pl.String))
    found = found.filter(pl.col("kind").is_in(_TWO_WAYS) & pl.col("peer").is_not_null()).with_columns(
        source=pl.when(pl.col("kind") == "send").then(pl.lit(own, pl.Int64)).otherwise("peer"),
        target=pl.when(pl.col("kind") == "send").then("peer").otherwise(pl.lit(own, pl.Int64)),
        bytes=pl.max_horizontal("bytes_in", "bytes_out"),
        own_ns=pl.when(pl.col("part_of").is_null()).then(pl.col("end") - pl.col("begin")),
    )
    rows = found.group_by("source", "target", "kind", "group", maintain_order=True).agg(
        calls=pl.len(),
        bytes=pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum()),
        total_ns=pl.when(pl.col("own_ns").is_not_null().all()).then(pl.col("own_ns").sum()),
        shared=pl.col("part_of").is_not_null().sum(),
    )
    return rows.sort("bytes", "source", "target", descending=[True, False, False], nulls_last=True, maintain_order=True)
