"""How fast a collective is, as nccl-tests count: bytes by time, and what of that each link has to carry.

https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

import polars as pl
from msgspec import Struct

_SHARED = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_WHOLE = ("broadcast", "reduce", "send", "recv")


class Link(Struct, frozen=True):
    """What connects the GPUs of one host."""

    name: str
    bytes_per_s: float
    """In one direction, of one GPU."""
    ranks: int
    """How many GPUs it connects at most: a larger group also uses the network."""
    source: str


def bus_factor() -> pl.Expr:
    """What the bandwidth is multiplied by to compare it with a link's, from `kind` and `group_size`; null if unknown.

    The bytes are those of the larger side, in or out.
    """
    ranks = pl.col("group_size").cast(pl.Float64)
    several = ranks > 1
    return (
        pl.when(pl.col("kind").is_in(_WHOLE))
        .then(1.0)
        .when(several & (pl.col("kind") == "all_reduce"))
        .then(2 * (ranks - 1) / ranks)
        .when(several & pl.col("kind").is_in(_SHARED))
        .then((ranks - 1) / ranks)
    )


def with_bandwidth(frame: pl.DataFrame, link: Link | None) -> pl.DataFrame:
    """Adds `algbw_gbps`, `busbw_gbps` and `link_percent` to rows of `kind`, `group_size`, `bytes` and `moved_ns`.

    Args:
        frame: rows with the bytes of one call and the time that moving them took.
        link: what connects the GPUs.
    """
    speed = pl.when((pl.col("moved_ns") > 0) & (pl.col("bytes") > 0)).then(pl.col("bytes") / pl.col("moved_ns"))
    frame = frame.with_columns(algbw_gbps=speed.cast(pl.Float64))
    frame = frame.with_columns(busbw_gbps=pl.col("algbw_gbps") * bus_factor())
    share = pl.lit(None, pl.Float64)
    if link is not None:
        on_one_host = pl.col("group_size").is_between(2, link.ranks) | pl.col("kind").is_in(("send", "recv"))
        share = pl.when(on_one_host).then(100e9 * pl.col("busbw_gbps") / link.bytes_per_s)
    return frame.with_columns(link_percent=share)
